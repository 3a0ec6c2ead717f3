package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/standin"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
	"github.com/sessionstore/sessionstore/session"
)

// TestMain runs the tests, or is the agent that they start.
func TestMain(m *testing.M) {
	if temp := os.Getenv(hostToKillEnv); temp != "" {
		fmt.Println(hostToKill(temp))
		os.Exit(1)
	}
	if os.Getenv("HOST_TEST_AGENT") != "" {
		os.Exit(standin.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

const tenant = "tenant-7"

// machine is a host with a home of its own.
type machine struct {
	t          *testing.T
	home, temp string
}

func newMachine(t *testing.T) machine { return machine{t, t.TempDir(), t.TempDir()} }

func (m machine) options() host.Options {
	program, err := os.Executable()
	require.NoError(m.t, err)
	return host.Options{
		Command: []string{program},
		Session: resume.Options{
			ProjectKey: tenant, TempDir: m.temp, Dir: m.home,
			Env: []string{"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "HOST_TEST_AGENT=1", "STANDIN_INTERVAL=1ms"},
		},
		Mirror: &mirror.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	}
}

func (m machine) requireNothingLeft() {
	m.t.Helper()
	left, err := os.ReadDir(m.temp)
	require.NoError(m.t, err)
	require.Empty(m.t, left)
}

func start(t *testing.T, store sessionstore.SessionStore, opts host.Options) *host.Agent {
	t.Helper()
	a, err := host.Start(t.Context(), store, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

// ask gives a prompt and reads up to the result.
func ask(t *testing.T, a *host.Agent, prompt string) string {
	t.Helper()
	require.NoError(t, a.Prompt(prompt))
	for m, err := range a.Messages() {
		require.NoError(t, err)
		require.NotEqual(t, "transcript_mirror", m.Type)
		require.NotEqual(t, "control_request", m.Type)
		if m.Type == "result" {
			return string(m.Raw)
		}
	}
	require.Fail(t, "there was no result")
	return ""
}

// onDisk opens what the agent itself has written.
func onDisk(t *testing.T, a *host.Agent) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(a.Session().ProjectsDir(), &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func requireSame(t *testing.T, got, want sessionstore.SessionStore, id string) {
	t.Helper()
	r, err := sessionstore.Verify(t.Context(), got, want, sessionstore.Key{ProjectKey: tenant, SessionID: id}, nil)
	require.NoError(t, err)
	require.True(t, r.Equal(), "%v", r.Differences)
}

func TestASessionMovesFromHostToHost(t *testing.T) {
	store := inmemory.New()
	here := newMachine(t)
	opts := here.options()
	asked := 0
	opts.OnPermission = func(ctx context.Context, p host.Permission) host.Decision {
		asked++
		require.NoError(t, ctx.Err())
		require.Equal(t, "Bash", p.Tool)
		require.Contains(t, string(p.Input), "12345678901234567890")
		require.Contains(t, string(p.Raw), "can_use_tool")
		return host.Decision{Allow: true}
	}
	a := start(t, store, opts)
	require.Contains(t, ask(t, a, "use a tool and a subagent"), "Prompts before it: 0.")
	require.Equal(t, 1, asked)
	id := a.SessionID()
	require.NoError(t, resume.CheckSessionID(id))
	c, err := session.Messages(t.Context(), store, sessionstore.Key{ProjectKey: tenant, SessionID: id}, nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 4, "everything before the result is stored when the host sees it")
	require.Contains(t, ask(t, a, "second"), "Prompts before it: 1.")
	disk := onDisk(t, a)
	require.NoError(t, a.CloseInput())
	for m, err := range a.Messages() {
		require.NoError(t, err)
		require.Fail(t, "nothing follows", "%s", m.Raw)
	}
	requireSame(t, store, disk, id)
	require.NoError(t, a.Close(t.Context()))
	require.NoError(t, a.Close(t.Context()))
	here.requireNothingLeft()
	require.Positive(t, a.Mirror().Stats().Entries)

	there := newMachine(t)
	opts = there.options()
	opts.Session.SessionID = id
	b := start(t, store, opts)
	require.True(t, b.Session().Found)
	require.Contains(t, ask(t, b, "third"), "Prompts before it: 2.")
	require.Equal(t, id, b.SessionID())
	disk = onDisk(t, b)
	require.NoError(t, b.CloseInput())
	for range b.Messages() {
	}
	requireSame(t, store, disk, id)
	require.NoError(t, b.Close(t.Context()))
	there.requireNothingLeft()

	opts.Session.SessionID, opts.Session.Continue = "", true
	d := start(t, store, opts)
	require.Contains(t, ask(t, d, "fourth"), "Prompts before it: 3.")
	require.NoError(t, d.Close(t.Context()))
}

func TestCloseStoresWhatNobodyHasRead(t *testing.T) {
	store := inmemory.New()
	a := start(t, store, newMachine(t).options())
	require.NoError(t, a.Prompt("one"))
	require.NoError(t, a.Prompt("two"))
	require.NoError(t, a.Close(t.Context()))
	c, err := session.Messages(t.Context(), store, sessionstore.Key{ProjectKey: tenant, SessionID: a.SessionID()}, nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 4)
}

// The agent is killed at some moment of a turn. What the store has is the
// beginning of what the agent wrote, and another host goes on from there.
func TestAnAgentThatIsKilledGoesOnElsewhere(t *testing.T) {
	store := inmemory.New()
	first := newMachine(t)
	opts := first.options()
	opts.Mirror.Mode = mirror.Eager
	a := start(t, store, opts)
	ask(t, a, "one")
	id := a.SessionID()
	require.NoError(t, a.Prompt("hang"))
	key := sessionstore.Key{ProjectKey: tenant, SessionID: id}
	go func() { // somebody must read
		for range a.Messages() {
		}
	}()
	require.Eventually(t, func() bool {
		list, err := store.Load(t.Context(), key)
		return err == nil && len(list) > 3 && strings.Contains(string(list[len(list)-1]), "hang")
	}, time.Minute, time.Millisecond)
	a.Kill()
	exit := (*host.ExitError)(nil)
	require.ErrorAs(t, a.Close(t.Context()), &exit)
	require.False(t, exit.Killed, "Close has not done it")
	first.requireNothingLeft()

	opts = newMachine(t).options()
	opts.Session.SessionID = id
	b := start(t, store, opts)
	require.Contains(t, ask(t, b, "go on"), "Prompts before it: 2.")
	disk := onDisk(t, b)
	require.NoError(t, b.CloseInput())
	for range b.Messages() {
	}
	requireSame(t, store, disk, id)
	c, err := session.Messages(t.Context(), store, key, nil)
	require.NoError(t, err)
	require.Empty(t, c.Gaps)
	require.Len(t, c.Messages, 5)
}

func TestAnAgentThatDoesNotEndIsKilled(t *testing.T) {
	for name, change := range map[string]func(*host.Options) context.Context{
		"grace":   func(o *host.Options) context.Context { o.Grace = time.Millisecond; return t.Context() },
		"context": func(*host.Options) context.Context { ctx, c := context.WithCancel(t.Context()); c(); return ctx },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			opts := m.options()
			opts.Command = stubborn(t)
			ctx := change(&opts)
			a := start(t, inmemory.New(), opts)
			exit := (*host.ExitError)(nil)
			require.ErrorAs(t, a.Close(ctx), &exit)
			require.True(t, exit.Killed)
			require.ErrorContains(t, exit, "did not end in time")
			m.requireNothingLeft()
		})
	}
}

// stubborn is an agent that does not mind the end of its input.
func stubborn(t *testing.T) []string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	return []string{"/bin/sh", "-c", "trap '' TERM INT; while :; do sleep 0.05; done", "sh"}
}

// What an agent has started may keep its output open for ever.
func TestAChildOfTheAgentDoesNotKeepCloseWaiting(t *testing.T) {
	stubborn(t)
	opts := newMachine(t).options()
	pidFile := filepath.Join(t.TempDir(), "pid")
	opts.Command = []string{"/bin/sh", "-c", "sleep 600 & echo $! > " + pidFile + "; echo '{\"type\":\"x\"}'", "sh"}
	a := start(t, inmemory.New(), opts)
	require.NoError(t, a.Close(t.Context()))
	pid, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	stop(t, strings.TrimSpace(string(pid)))
}

const unknownID = "00000000-0000-4000-8000-000000000001"

// local gives the agent a config directory of its own that holds a session.
func (m machine) local(opts *host.Options, id string) {
	m.t.Helper()
	opts.Session.ProjectKey, opts.Session.SessionID = "", id
	own, err := sessionstore.ProjectKey(m.home)
	require.NoError(m.t, err)
	dir := filepath.Join(m.home, ".claude", "projects", own)
	require.NoError(m.t, os.MkdirAll(dir, 0o700))
	line := `{"type":"user","uuid":"a","sessionId":"` + id + `","message":{"role":"user","content":"before"}}` + "\n"
	require.NoError(m.t, os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600))
}

func TestAnAgentThatFailsSaysWhy(t *testing.T) {
	m := newMachine(t)
	opts := m.options()
	m.local(&opts, unknownID)
	opts.Command = []string{"/bin/sh", "-c", "echo oops >&2; exit 3", "sh"}
	stubborn(t)
	var stderr strings.Builder
	opts.Stderr = &stderr
	a := start(t, inmemory.New(), opts)
	for range a.Messages() {
	}
	exit := (*host.ExitError)(nil)
	require.ErrorAs(t, a.Close(t.Context()), &exit)
	require.ErrorContains(t, exit, "oops")
	require.Contains(t, stderr.String(), "oops")
	require.Error(t, a.Prompt("anybody there?"))
	m.requireNothingLeft()

	opts = m.options()
	opts.Command = []string{filepath.Join(m.home, "missing")}
	_, err := host.Start(t.Context(), inmemory.New(), opts)
	require.ErrorIs(t, err, os.ErrNotExist)
	m.requireNothingLeft()
}

func TestASessionThatIsNowhereIsNotFound(t *testing.T) {
	for _, project := range []string{tenant, ""} {
		m := newMachine(t)
		opts := m.options()
		opts.Session.ProjectKey, opts.Session.SessionID = project, unknownID
		_, err := host.Start(t.Context(), inmemory.New(), opts)
		require.ErrorIs(t, err, sessionstore.ErrNotFound)
		op := (*sessionstore.OpError)(nil)
		require.ErrorAs(t, err, &op)
		require.Equal(t, unknownID, op.Key.SessionID)
		m.requireNothingLeft()
	}
}

// A session from before there was a store.
func TestASessionThatOnlyTheAgentHasGoesOn(t *testing.T) {
	m := newMachine(t)
	opts := m.options()
	m.local(&opts, unknownID)
	a := start(t, inmemory.New(), opts)
	require.False(t, a.Session().Found)
	require.Contains(t, ask(t, a, "go on"), "Prompts before it: 1.")
	require.NoError(t, a.Close(t.Context()))
	// Another tenant's agent does not find it there.
	opts.Session.ProjectKey = tenant
	_, err := host.Start(t.Context(), inmemory.New(), opts)
	require.ErrorIs(t, err, sessionstore.ErrNotFound)
}

func TestADirectoryThatIsNotThereIsNamed(t *testing.T) {
	m := newMachine(t)
	opts := m.options()
	opts.Session.Dir = filepath.Join(m.home, "gone")
	_, err := host.Start(t.Context(), inmemory.New(), opts)
	require.ErrorContains(t, err, "Dir")
	require.ErrorContains(t, err, opts.Session.Dir)
	require.NotContains(t, err.Error(), opts.Command[0])
}

func TestQuestionsThatNobodyAnswersAreDenied(t *testing.T) {
	for name, answer := range map[string]func(context.Context, host.Permission) host.Decision{
		"nobody": nil,
		"panic":  func(context.Context, host.Permission) host.Decision { panic("ouch") },
		"deny":   func(context.Context, host.Permission) host.Decision { return host.Decision{} },
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
			t.Cleanup(func() { slog.SetDefault(log) })
			store := inmemory.New()
			opts := newMachine(t).options()
			opts.OnPermission = answer
			a := start(t, store, opts)
			ask(t, a, "tool")
			list, err := store.Load(t.Context(), sessionstore.Key{ProjectKey: tenant, SessionID: a.SessionID()})
			require.NoError(t, err)
			require.Contains(t, string(list[2]), `"content":"deny"`)
		})
	}
}

// brokenStore takes nothing.
type brokenStore struct {
	*inmemory.Store
	broken bool
}

var errOutage = errors.New("connection refused")

func (s *brokenStore) Append(ctx context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	if s.broken {
		return errOutage
	}
	return s.Store.Append(ctx, key, list)
}

func TestTheDirectoryIsKeptWhenTheMirrorLosesBatches(t *testing.T) {
	m := newMachine(t)
	store := &brokenStore{Store: inmemory.New(), broken: true}
	opts := m.options()
	opts.Mirror.Attempts = 1
	lost := 0
	opts.Mirror.OnError = func(*mirror.Error) { lost++ }
	a := start(t, store, opts)
	ask(t, a, "hello")
	require.Positive(t, lost, "the host is told before it sees the result")
	err := a.Close(t.Context())
	require.ErrorIs(t, err, errOutage)
	loss, kept := (*mirror.LossError)(nil), (*resume.KeptError)(nil)
	require.ErrorAs(t, err, &loss)
	require.ErrorAs(t, err, &kept)

	store.broken = false
	dir, err := filestore.Open(filepath.Join(kept.Dir, "projects"), &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	defer dir.Close()
	_, err = mirror.Watch(t.Context(), filepath.Join(kept.Dir, "projects"), store, &mirror.WatchOptions{Once: true})
	require.NoError(t, err, "what is in the directory can be brought in")
	requireSame(t, store, dir, a.SessionID())
}

// The agent runs with another config directory than the host believes.
func TestFramesFromElsewhereAreReportedAtOnce(t *testing.T) {
	stubborn(t)
	m := newMachine(t)
	opts := m.options()
	opts.Command = []string{"/bin/sh", "-c", `CLAUDE_CONFIG_DIR=` + m.home + `/elsewhere exec "$0" "$@"`, opts.Command[0]}
	var foreign []*mirror.ForeignError
	opts.Mirror.OnForeign = func(e *mirror.ForeignError) { foreign = append(foreign, e) }
	a := start(t, inmemory.New(), opts)
	ask(t, a, "hello")
	require.NotEmpty(t, foreign, "before the first result")
	require.True(t, foreign[0].Outside)
	require.Contains(t, foreign[0].Path, "elsewhere")
	loss := (*mirror.LossError)(nil)
	require.ErrorAs(t, a.Close(t.Context()), &loss)
	require.Positive(t, loss.Foreign)
}

func TestAnOddTenantIsStoredUnderItsOwnKey(t *testing.T) {
	store := inmemory.New()
	opts := newMachine(t).options()
	opts.Session.ProjectKey = "tenant:42/é"
	a := start(t, store, opts)
	ask(t, a, "hello")
	require.NoError(t, a.Close(t.Context()))
	projects, err := store.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"tenant:42/é"}, projects)
	opts.Session.SessionID = a.SessionID()
	b := start(t, store, opts)
	require.Contains(t, ask(t, b, "again"), "Prompts before it: 1.")
}

func TestOptionsAreCheckedFirst(t *testing.T) {
	m := newMachine(t)
	for arg, cause := range map[string]error{
		"--resume=x": nil, "-r": nil, "--continue": nil, "-c": nil, "--output-format": nil, "--session-mirror": nil,
		"--no-session-persistence": resume.ErrNotPersisted, "--session-id=--version": sessionstore.ErrInvalidKey, "--session-id": sessionstore.ErrInvalidKey,
	} {
		opts := m.options()
		opts.Args = []string{"--model=x", arg}
		option := (*resume.OptionError)(nil)
		_, err := host.Start(t.Context(), nil, opts)
		require.ErrorAs(t, err, &option, arg)
		if cause != nil {
			require.ErrorIs(t, err, cause)
		}
	}
	opts := m.options()
	opts.Command = append(opts.Command, "--no-session-persistence")
	require.ErrorIs(t, opts.Validate(nil), resume.ErrNotPersisted)
	opts = m.options()
	opts.Session.SessionID = "--version"
	require.ErrorIs(t, opts.Validate(nil), sessionstore.ErrInvalidKey)
	m.requireNothingLeft()
	require.NoError(t, host.Options{Args: []string{"--session-id", "00000000-0000-4000-8000-000000000001", "--fork-session"}}.Validate(nil))
}

func TestArgsAreSingleTokens(t *testing.T) {
	m := newMachine(t)
	opts := m.options()
	opts.Session.SessionID = "00000000-0000-4000-8000-000000000001"
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts.Session)
	require.NoError(t, err)
	defer s.Close()
	args := host.Args(s, "--model=x")
	require.Equal(t, []string{"--resume=00000000-0000-4000-8000-000000000001", "--model=x"}, args[len(args)-2:])
}

func TestAFork(t *testing.T) {
	store := inmemory.New()
	a := start(t, store, newMachine(t).options())
	ask(t, a, "one")
	require.NoError(t, a.Close(t.Context()))
	opts := newMachine(t).options()
	opts.Session.SessionID = a.SessionID()
	opts.Args = []string{"--fork-session"}
	b := start(t, store, opts)
	require.Contains(t, ask(t, b, "two"), "Prompts before it: 1.")
	require.NotEqual(t, a.SessionID(), b.SessionID())
	require.NoError(t, b.Close(t.Context()))
	list, err := store.ListSessions(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, list, 2)
}
