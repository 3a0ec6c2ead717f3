package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
	"github.com/sessionstore/sessionstore/session"
)

// oddTenant is a key after which no agent can name a directory.
const oddTenant = "tenant:42/é"

// hostToKill is a host whose store takes nothing. It ends when it is killed.
func hostToKill(temp string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	a, err := host.Start(context.Background(), &brokenStore{Store: inmemory.New(), broken: true}, host.Options{
		Command: []string{program},
		Session: resume.Options{
			ProjectKey: oddTenant, TempDir: temp,
			Env: append(os.Environ(), hostToKillEnv+"=", "HOST_TEST_AGENT=1"),
		},
		Mirror: &mirror.Options{Attempts: 1},
	})
	if err != nil {
		return err
	}
	if err := a.Prompt("before the kill"); err != nil {
		return err
	}
	for m, err := range a.Messages() {
		if err != nil {
			return err
		}
		if m.Type == "result" {
			fmt.Println(a.SessionID())
		}
	}
	return errors.New("the agent has ended")
}

const hostToKillEnv = "HOST_TEST_TO_KILL"

// After kill -9 the only copy is in the private directory, under a name that is
// not the tenant's.
func TestRecoverBringsInWhatAKilledHostHasLeft(t *testing.T) {
	temp := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), hostToKillEnv+"="+temp, "STANDIN_INTERVAL=1ms", "HOME="+t.TempDir())
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	id, err := bufio.NewReader(out).ReadString('\n')
	id = strings.TrimSpace(id)

	store := inmemory.New()
	inUse, useErr := host.Recover(t.Context(), store, temp, nil)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, err)
	require.NoError(t, useErr)
	require.Equal(t, host.RecoverReport{InUse: 1}, inUse, "it is alive")

	report, err := host.Recover(t.Context(), store, temp, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Removed)
	projects, err := store.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{oddTenant}, projects)
	c, err := session.Messages(t.Context(), store, sessionstore.Key{ProjectKey: oddTenant, SessionID: id}, nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 2)
	machine{t: t, temp: temp}.requireNothingLeft()
	report, err = host.Recover(t.Context(), store, temp, nil)
	require.NoError(t, err)
	require.Zero(t, report)
}

// leave makes a private directory with a session of a tenant that is not in
// the store.
func leave(t *testing.T, m machine, project string) (dir string, key sessionstore.Key) {
	t.Helper()
	opts := m.options()
	opts.Session.ProjectKey = project
	opts.Mirror.Attempts = 1
	a := start(t, &brokenStore{Store: inmemory.New(), broken: true}, opts)
	ask(t, a, "hello")
	kept := (*resume.KeptError)(nil)
	require.ErrorAs(t, a.Close(t.Context()), &kept)
	return kept.Dir, sessionstore.Key{ProjectKey: project, SessionID: a.SessionID()}
}

func requireMessages(t *testing.T, store sessionstore.SessionStore, key sessionstore.Key, n int) {
	t.Helper()
	c, err := session.Messages(t.Context(), store, key, nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, n)
}

func TestRecoverDirBringsInWhatCloseHasKept(t *testing.T) {
	m := newMachine(t)
	dir, key := leave(t, m, oddTenant)
	store := inmemory.New()
	_, err := host.RecoverDir(t.Context(), store, dir, nil)
	require.NoError(t, err)
	requireMessages(t, store, key, 2)
	m.requireNothingLeft()
	_, err = host.RecoverDir(t.Context(), store, dir, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The agent can write what it likes into its directory. It reaches no other
// tenant if the host checks the keys.
func TestAcceptConfinesWhatIsRecovered(t *testing.T) {
	errOther := errors.New("not of this host")
	accept := func(_ string, key sessionstore.Key) error {
		if key.ProjectKey != tenant {
			return errOther
		}
		return nil
	}
	for name, craft := range map[string]func(t *testing.T, dir, id string){
		"record": func(t *testing.T, dir, _ string) {
			name := filepath.Join(dir, resume.RecordFile)
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			text = []byte(strings.Replace(string(text), `"projectKey":"`+tenant, `"projectKey":"victim`, 1))
			require.NoError(t, os.WriteFile(name, text, 0o600))
		},
		"directory": func(t *testing.T, dir, id string) {
			name := filepath.Join(dir, "projects", "victim", id+".jsonl")
			require.NoError(t, os.Mkdir(filepath.Dir(name), 0o700))
			require.NoError(t, os.WriteFile(name, []byte("{\"type\":\"user\"}\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			dir, key := leave(t, m, tenant)
			other, otherKey := leave(t, m, tenant)
			craft(t, dir, key.SessionID)
			store := inmemory.New()
			report, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{Accept: accept})
			require.ErrorIs(t, err, errOther)
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, "victim")
			require.DirExists(t, dir)
			require.NoDirExists(t, other, "one does not keep the others")
			require.Equal(t, 1, report.Removed)
			requireMessages(t, store, otherKey, 2)
			list, err := store.ListSessions(t.Context(), "victim")
			require.NoError(t, err)
			require.Empty(t, list)
			_, err = host.Recover(t.Context(), store, m.temp, nil)
			require.NoError(t, err, "without Accept every key is taken")
		})
	}
}

func TestRecoverKeepsWhatItCouldNotStore(t *testing.T) {
	m := newMachine(t)
	dir, key := leave(t, m, tenant)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".credentials.json"), []byte("secret"), 0o600))
	store := &brokenStore{Store: inmemory.New(), broken: true}
	opts := &host.RecoverOptions{Watch: mirror.WatchOptions{Attempts: 1}}
	_, err := host.Recover(t.Context(), store, m.temp, opts)
	require.ErrorIs(t, err, errOutage)
	require.ErrorContains(t, err, dir+" is kept")
	require.NoFileExists(t, filepath.Join(dir, ".credentials.json"), "no token stays")
	store.broken = false

	// Damaged lines keep it, and one that a killed agent has begun does not.
	name := filepath.Join(dir, "projects", tenant, key.SessionID+".jsonl")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append([]byte("no entry\n"), text...), 0o600))
	skips := 0
	opts.Watch.OnSkip = func(mirror.WatchSkip) { skips++ }
	_, err = host.Recover(t.Context(), store, m.temp, opts)
	require.ErrorContains(t, err, "damaged: 1")
	require.DirExists(t, dir)
	require.NoError(t, os.WriteFile(name, append(text, `{"type":"us`...), 0o600))
	report, err := host.Recover(t.Context(), store, m.temp, opts)
	require.NoError(t, err)
	require.Equal(t, 1, report.Removed)
	require.Equal(t, 2, skips)
	requireMessages(t, store, key, 2)
	m.requireNothingLeft()
}

func TestRecoverReadsOldTranscriptsToo(t *testing.T) {
	m := newMachine(t)
	dir, key := leave(t, m, tenant)
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "projects", tenant, key.SessionID+".jsonl"), old, old))
	store := inmemory.New()
	_, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{Watch: mirror.WatchOptions{MaxAge: time.Hour}})
	require.NoError(t, err)
	requireMessages(t, store, key, 2)
	m.requireNothingLeft()
}

func TestRecoverLeavesAloneWhatIsNotItsOwn(t *testing.T) {
	m := newMachine(t)
	_, err := host.Recover(t.Context(), inmemory.New(), "", nil)
	require.ErrorContains(t, err, "no directory")
	report, err := host.Recover(t.Context(), inmemory.New(), filepath.Join(m.temp, "none"), nil)
	require.NoError(t, err)
	require.Zero(t, report)
	begun := filepath.Join(m.temp, resume.DirPrefix+"1")
	require.NoError(t, os.MkdirAll(filepath.Join(begun, "projects", "x"), 0o700))
	_, err = host.Recover(t.Context(), inmemory.New(), m.temp, nil)
	require.NoError(t, err)
	require.DirExists(t, begun, "its host may have begun just now")
	require.NoError(t, os.WriteFile(filepath.Join(begun, "projects", "x", "s.jsonl"), []byte("{}\n"), 0o600))
	_, err = host.Recover(t.Context(), inmemory.New(), m.temp, nil)
	require.ErrorIs(t, err, os.ErrNotExist, "nobody knows whose it is")
	require.ErrorContains(t, err, resume.RecordFile)
}

// spilling is an agent whose store is away, so that what it says is spilled.
func spilling(t *testing.T, m machine, spill string) (*brokenStore, *host.Agent) {
	store := &brokenStore{Store: inmemory.New(), broken: true}
	opts := m.options()
	opts.Session.ProjectKey = oddTenant
	opts.Mirror.Attempts, opts.Mirror.Spill = 1, spill
	a := start(t, store, opts)
	ask(t, a, "hello")
	return store, a
}

// What was spilled will be delivered, so that the directory is not needed.
func TestTheDirectoryIsNotKeptWhenAllIsSpilled(t *testing.T) {
	m := newMachine(t)
	spill := t.TempDir()
	store, a := spilling(t, m, spill)
	err := a.Close(t.Context())
	loss, kept := (*mirror.LossError)(nil), (*resume.KeptError)(nil)
	require.ErrorAs(t, err, &loss, "the host is told all the same")
	require.True(t, loss.AllSpilled())
	require.ErrorContains(t, err, oddTenant)
	require.False(t, errors.As(err, &kept))
	m.requireNothingLeft()

	store.broken = false
	report, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{Spill: spill})
	require.NoError(t, err)
	require.Positive(t, report.Replayed.Entries)
	requireMessages(t, store, sessionstore.Key{ProjectKey: oddTenant, SessionID: a.SessionID()}, 2)
}

func TestRecoverAsksBeforeItDeliversSpilledBatches(t *testing.T) {
	m := newMachine(t)
	spill := t.TempDir()
	store, a := spilling(t, m, spill)
	require.Error(t, a.Close(t.Context()))
	store.broken = false
	var asked []string
	report, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{
		Spill: spill,
		Accept: func(dir string, key sessionstore.Key) error {
			asked = append(asked, dir+" "+key.ProjectKey)
			return errors.New("another tenant's")
		},
	})
	require.ErrorIs(t, err, mirror.ErrNotAccepted)
	require.Equal(t, spill+" "+oddTenant, asked[0])
	require.Zero(t, report.Replayed.Entries)
	list, err := store.Load(t.Context(), sessionstore.Key{ProjectKey: oddTenant, SessionID: a.SessionID()})
	require.NoError(t, err)
	require.Empty(t, list)
	left, err := os.ReadDir(spill)
	require.NoError(t, err)
	require.NotEmpty(t, left)
}

// Some of it lies in files of the mirror and all of it in the directory.
func TestRecoverDeliversSpilledBatchesFirst(t *testing.T) {
	m := newMachine(t)
	spill := t.TempDir()
	store := &brokenStore{Store: inmemory.New(), broken: true}
	opts := m.options()
	opts.Session.KeepOnMirrorLoss = func() bool { return true } // as after a kill
	opts.Mirror.Attempts, opts.Mirror.Spill = 1, spill
	a := start(t, store, opts)
	ask(t, a, "hello")
	require.Error(t, a.Close(t.Context()))
	store.broken = false
	report, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{Spill: spill})
	require.NoError(t, err)
	require.Positive(t, report.Replayed.Entries)
	require.Zero(t, report.Entries, "nothing is missing after that")
	require.Equal(t, 1, report.Removed)
	left, err := os.ReadDir(spill)
	require.NoError(t, err)
	require.Empty(t, left)
}
