package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/internal/recorded"
)

const (
	recordedID  = recorded.SessionID
	recordedKey = recorded.ProjectKey
)

func TestMain(m *testing.M) {
	if code, ok := demoProcess(os.Args[1:]); ok {
		os.Exit(code)
	}
	time.Local = time.UTC
	for _, name := range []string{"SESSIONSTORE_URL", "CLAUDE_CONFIG_DIR", "NO_COLOR", "COLUMNS"} {
		os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

// result is what a run left behind.
type result struct {
	code           int
	stdout, stderr string
}

// cli runs the program in a home of its own.
func cli(t *testing.T, args ...string) result {
	t.Helper()
	return cliWith(t.Context(), "", args...)
}

func cliWith(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs the program and demands success and a silent stderr.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := cli(t, args...)
	require.Equal(t, exitOK, r.code, "%s", r.stderr)
	require.Empty(t, r.stderr)
	return r.stdout
}

// fails runs the program and demands an exit code and one line on stderr.
func fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	r := cli(t, args...)
	require.Equal(t, code, r.code, "%s%s", r.stdout, r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "sessionstore: "), "%q", r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "%q", r.stderr)
	require.Empty(t, r.stdout)
	return r.stderr
}

// home gives the test an empty home directory.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	return dir
}

// recordedDir returns a directory store that holds the recorded session.
func recordedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := openStore(t, dir)
	require.NoError(t, recorded.AppendTo(t.Context(), s))
	return dir
}

func openStore(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func add(t *testing.T, dir string, key sessionstore.Key, lines ...string) {
	t.Helper()
	entries := make([]sessionstore.Entry, len(lines))
	for i, l := range lines {
		entries[i] = sessionstore.Entry(l)
	}
	require.NoError(t, openStore(t, dir).Append(t.Context(), key, entries))
}

func key(project, session string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: project, SessionID: session}
}

// setTime sets the time of a session's main transcript.
func setTime(t *testing.T, dir, project, session string, when time.Time) {
	t.Helper()
	path := filepath.Join(dir, project, session+".jsonl")
	require.NoError(t, os.Chtimes(path, when, when))
}

const hello = `{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}`

// rmOnTerminal runs the program as if a person sat in front of it.
func rmOnTerminal(t *testing.T, answer string, args ...string) (int, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(answer), &stdout, &stderr)
	a.in.is, a.err.is = true, true
	root := newRoot(a)
	root.SetArgs(args)
	return a.finish(t.Context(), root.ExecuteContext(t.Context())), stderr.String()
}

// recordedSession stores one of the recorded sessions of the module's tests.
func recordedSession(t *testing.T, session string) (dir string, main sessionstore.Key) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	s := openStore(t, dir)
	f, err := os.Open(filepath.Join("..", "..", "testdata", "transcripts", session, "appends.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	for dec := json.NewDecoder(f); dec.More(); {
		var batch struct {
			Key     struct{ ProjectKey, SessionID, Subpath string }
			Entries []sessionstore.Entry
		}
		require.NoError(t, dec.Decode(&batch))
		key := sessionstore.Key(batch.Key)
		require.NoError(t, s.Append(t.Context(), key, batch.Entries))
		main = key.Main()
	}
	return dir, main
}

// uuid is a session id, or the uuid of a message.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// chain writes messages that follow each other: "user" and "assistant" in turn.
func chain(texts ...string) []string {
	var lines []string
	parent := "null"
	for i, text := range texts {
		typ := []string{"user", "assistant"}[i%2]
		content, _ := json.Marshal(text)
		lines = append(lines, fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%s,"message":{"role":%q,"content":%s}}`, typ, uuid(i), parent, typ, content))
		parent = strconv.Quote(uuid(i))
	}
	return lines
}
