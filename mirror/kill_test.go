package mirror_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/mirror"
)

// hostEnv names the directory of a host process that a test starts and kills.
// With watchEnv it does not mirror frames but watches the agent's files.
const (
	hostEnv  = "SESSIONSTORE_TEST_HOST"
	watchEnv = "SESSIONSTORE_TEST_WATCH"
)

// runHost is a host with its agent. The agent writes lines to its files and
// then frames to the host, faster than they are stored, until it is killed.
func runHost(dir string) {
	projects := filepath.Join(dir, "projects")
	store, err := filestore.Open(filepath.Join(dir, "store"), nil)
	check(err)
	if os.Getenv(watchEnv) != "" {
		go agent(projects, io.Discard)
		fmt.Println("started")
		_, err := mirror.Watch(context.Background(), projects, store, &mirror.WatchOptions{Interval: time.Millisecond, MaxEntries: 20})
		check(err)
	}
	mode := mirror.Mode(time.Now().UnixNano() / 1000 % 2)
	m, err := mirror.New(store, projects, &mirror.Options{Mode: mode, MaxEntries: 20})
	check(err)
	in, out := io.Pipe()
	go agent(projects, out)
	fmt.Println("started")
	_, err = io.Copy(io.Discard, m.Reader(in))
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func agent(projects string, stdout io.Writer) {
	for _, file := range []string{mainFile, subFile} { // a torn line is not gone on with
		name := filepath.Join(projects, filepath.FromSlash(file))
		if text, _ := os.ReadFile(name); len(text) > 0 && text[len(text)-1] != '\n' {
			appendTo(name, "\n")
		}
	}
	for n := 0; ; n++ {
		id := func(i int) string { return fmt.Sprintf("%d-%d-%d", os.Getpid(), n, i) }
		file := []string{mainFile, subFile}[n%2]
		list := entries(user(id(1)), mode("normal"), user(id(2)), mode("normal"))
		name := filepath.Join(projects, filepath.FromSlash(file))
		local := lines(append(list[:4:4], sessionstore.Entry(`{"type":"api-request","n":1}`))...)
		half := rand.IntN(len(local))
		appendTo(name, local[:half])
		if n%7 == 0 {
			time.Sleep(time.Millisecond) // a kill finds half a line here
		}
		appendTo(name, local[half:])
		if n%50 == 1 {
			meta := fmt.Sprintf(`"agentType":"x","n":%d`, n)
			sidecar := strings.TrimSuffix(name, ".jsonl") + ".meta.json"
			check(os.WriteFile(sidecar+".new", []byte("{"+meta+"}"), 0o600))
			check(os.Rename(sidecar+".new", sidecar))
			list = append(list, sessionstore.Entry(`{"type":"agent_metadata",`+meta+`}`))
		}
		_, err := io.WriteString(stdout, frameLine(filepath.ToSlash(name), list...))
		check(err)
		if n%10 == 9 {
			_, err = io.WriteString(stdout, resultLine)
			check(err)
		}
	}
}

func appendTo(name, text string) {
	check(os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	check(err)
	_, err = f.WriteString(text)
	check(err)
	check(f.Close())
}

func TestKilledHostIsCaughtUpFromTheAgentsFiles(t *testing.T) { testKilled(t) }

func TestKilledWatchGoesOn(t *testing.T) { testKilled(t, watchEnv+"=1") }

func testKilled(t *testing.T, env ...string) {
	dir := t.TempDir()
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	caughtUp := int64(0)
	for round := range rounds {
		kill(t, dir, env...)
		store, err := filestore.Open(filepath.Join(dir, "store"), nil)
		require.NoError(t, err)
		report := once(t, filepath.Join(dir, "projects"), store)
		caughtUp += report.Entries
		local, err := filestore.Open(filepath.Join(dir, "projects"), &filestore.Options{ReadOnly: true})
		require.NoError(t, err)
		for _, key := range []sessionstore.Key{mainKey, subKey} {
			requireSame(t, mirrored(t, local, key), load(t, store, key), fmt.Sprintf("round %d, %v", round, key))
		}
		require.Zero(t, once(t, filepath.Join(dir, "projects"), store).Entries)
		require.NoError(t, store.Close())
		require.NoError(t, local.Close())
	}
	t.Logf("%d entries were missing after %d kills", caughtUp, rounds)
	require.Positive(t, caughtUp)
}

// kill starts a host and kills it after a while.
func kill(t *testing.T, dir string, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), hostEnv+"="+dir), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, len("started\n")))
	require.NoError(t, err)
	time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Empty(t, stderr.String())
}

// mirrored are the entries of a file that are not of a kind that is never
// mirrored.
func mirrored(t *testing.T, store sessionstore.SessionStore, key sessionstore.Key) []string {
	t.Helper()
	list, err := store.Load(context.Background(), key)
	require.NoError(t, err)
	var kept []string
	for _, e := range list {
		if !strings.HasPrefix(e.Type(), "api-request") {
			kept = append(kept, string(e))
		}
	}
	return kept
}

// requireSame shows the first difference only: the lists are long.
func requireSame(t *testing.T, want, got []string, what string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.JSONEq(t, want[i], got[i], "%s, entry %d", what, i)
	}
	if len(want) != len(got) {
		text, _ := json.Marshal([]any{want[min(len(want), len(got)):], got[min(len(want), len(got)):]})
		require.Len(t, got, len(want), "%s: %.500s", what, text)
	}
}
