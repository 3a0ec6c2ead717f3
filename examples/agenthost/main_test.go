package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/standin"
	"github.com/sessionstore/sessionstore/resume"
	"github.com/sessionstore/sessionstore/session"
)

// TestMain runs the tests, or is the agent that they start.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == standinArg:
		main()
	case os.Getenv("AGENTHOST_TEST_AGENT") != "":
		os.Exit(standin.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// newHost gives the test a home and a stand-in for the agent.
func newHost(t *testing.T) (agent string) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "USERPROFILE": home, "TMPDIR": t.TempDir(), "AGENTHOST_TEST_AGENT": "1", "STANDIN_INTERVAL": "1ms", "CLAUDE_CONFIG_DIR": ""} {
		t.Setenv(name, value)
	}
	program, err := os.Executable()
	require.NoError(t, err)
	return program
}

func agenthost(t *testing.T, ctx context.Context, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	err := run(ctx, args, &stdout, io.Discard)
	return stdout.String(), err
}

func TestASessionGoesOnOnASecondHost(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	agent := newHost(t)
	out, err := agenthost(t, t.Context(), "-store", store, "-agent", agent, "-project", "shop", "first", "a tool and a subagent")
	require.NoError(t, err)
	id := regexp.MustCompile(`session (\S+)\n$`).FindStringSubmatch(out)
	require.Len(t, id, 2, out)
	require.Contains(t, out, "Prompts before it: 1.")

	agent = newHost(t) // another home, nothing in it
	out, err = agenthost(t, t.Context(), "-store", store, "-agent", agent, "-project", "shop", "-session", id[1], "third")
	require.NoError(t, err)
	require.Contains(t, out, "Prompts before it: 2.")
	out, err = agenthost(t, t.Context(), "-store", store, "-agent", agent, "-project", "shop", "-continue", "fourth")
	require.NoError(t, err)
	require.Contains(t, out, "Prompts before it: 3.")
	require.Contains(t, out, id[1])
}

// What a host that was killed has left comes in when the next one starts.
func TestWhatAKilledHostHasLeftIsRecovered(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	newHost(t)
	key := sessionstore.Key{ProjectKey: "shop:1", SessionID: "00000000-0000-4000-8000-000000000001"}
	before := inmemory.New()
	require.NoError(t, before.Append(t.Context(), key, []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"a","message":{"role":"user","content":"x"}}`)}))
	require.NoError(t, os.Mkdir(store+".private", 0o700))
	s, err := resume.Materialize(t.Context(), before, resume.Options{ProjectKey: key.ProjectKey, SessionID: key.SessionID, TempDir: store + ".private"})
	require.NoError(t, err)
	s.Release()
	_, err = agenthost(t, t.Context(), "-store", store, "-standin")
	require.NoError(t, err)
	files, err := filestore.Open(store, nil)
	require.NoError(t, err)
	defer files.Close()
	list, err := files.Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoDirExists(t, s.ConfigDir)
}

func TestItRunsWithoutAnAgent(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	newHost(t)
	out, err := agenthost(t, t.Context(), "-store", store, "-standin", "-agent", "no such program", "first")
	require.NoError(t, err)
	require.Contains(t, out, "Prompts before it: 0.")
	out, err = agenthost(t, t.Context(), "-store", store, "-standin", "-continue", "second")
	require.NoError(t, err)
	require.Contains(t, out, "Prompts before it: 1.")
}

func TestWithoutAPromptItNamesNoSession(t *testing.T) {
	out, err := agenthost(t, t.Context(), "-store", t.TempDir(), "-agent", newHost(t))
	require.NoError(t, err)
	require.Empty(t, out)
}

func TestHelpIsNoError(t *testing.T) {
	_, err := agenthost(t, t.Context(), "-h")
	require.NoError(t, err)
}

func TestEachStoreHasASpillOfItsOwn(t *testing.T) {
	c, err := parse([]string{"-store", "data/sessions/"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, filepath.Join("data", "sessions.spill"), c.spill)
	require.Equal(t, filepath.Join("data", "sessions.private"), c.temp)
}

// A signal in the middle of a turn: the agent finishes, and nothing is lost.
func TestASignalEndsItGracefully(t *testing.T) {
	store := inmemory.New()
	c := config{agent: newHost(t), project: "shop", prompts: []string{"hang"}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil && !hasWritten(os.Getenv("TMPDIR")) {
			time.Sleep(time.Millisecond)
		}
	}()
	err := serve(ctx, store, c, slog.New(slog.NewTextHandler(io.Discard, nil)), io.Discard)
	require.ErrorContains(t, err, "in the middle of a turn")
	list, err := store.ListSessions(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, list, 1)
	conversation, err := session.Messages(t.Context(), store, sessionstore.Key{ProjectKey: "shop", SessionID: list[0].SessionID}, nil)
	require.NoError(t, err)
	require.Len(t, conversation.Messages, 1)
}

// hasWritten reports whether the agent is at work in its private directory.
func hasWritten(temp string) bool {
	files, _ := filepath.Glob(filepath.Join(temp, "*", "projects", "*", "*.jsonl"))
	return len(files) > 0
}

func TestWrongUseIsAnError(t *testing.T) {
	agent := newHost(t)
	for _, args := range [][]string{{"-bogus"}, {"-session", "--version", "x"}, {"-session", "00000000-0000-4000-8000-000000000001", "-continue", "x"}, {"-session", "00000000-0000-4000-8000-000000000001", "x"}} {
		_, err := agenthost(t, t.Context(), append([]string{"-store", t.TempDir(), "-agent", agent}, args...)...)
		require.Error(t, err, strings.Join(args, " "))
	}
}

// With the real command line, where it is installed and logged in.
func TestWithTheRealAgent(t *testing.T) {
	if os.Getenv("AGENTHOST_REAL") == "" {
		t.Skip("runs the agent on your account; set AGENTHOST_REAL=1 to do so")
	}
	agent, err := exec.LookPath("claude")
	require.NoError(t, err)
	store := filepath.Join(t.TempDir(), "store")
	out, err := agenthost(t, t.Context(), "-store", store, "-agent", agent, "Remember the word plum. Answer with OK.")
	require.NoError(t, err)
	id := regexp.MustCompile(`session (\S+)\n$`).FindStringSubmatch(out)
	out, err = agenthost(t, t.Context(), "-store", store, "-agent", agent, "-session", id[1], "Which word? Answer with the word alone.")
	require.NoError(t, err)
	require.Contains(t, strings.ToLower(out), "plum")
}
