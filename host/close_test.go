package host_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

const question = `echo '{"type":"control_request","request_id":"2","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"a":1}}}'; `

func shell(t *testing.T, m machine, script string) host.Options {
	t.Helper()
	stubborn(t)
	opts := m.options()
	opts.Command = []string{"/bin/sh", "-c", script, "sh"}
	return opts
}

func quiet(t *testing.T) {
	t.Helper()
	log := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { slog.SetDefault(log) })
}

func TestCloseDoesNotWaitForOnPermission(t *testing.T) {
	m := newMachine(t)
	opts := shell(t, m, question+"cat > /dev/null")
	asked, release := make(chan struct{}), make(chan struct{})
	opts.OnPermission = func(context.Context, host.Permission) host.Decision {
		close(asked)
		<-release
		return host.Decision{}
	}
	a := start(t, inmemory.New(), opts)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range a.Messages() {
		}
	}()
	<-asked
	require.NoError(t, a.Close(t.Context()))
	<-read
	close(release)
	m.requireNothingLeft()
}

func TestOnPermissionMayClose(t *testing.T) {
	m := newMachine(t)
	opts := shell(t, m, question+"cat > /dev/null")
	var a *host.Agent
	closed := make(chan error, 1)
	opts.OnPermission = func(context.Context, host.Permission) host.Decision {
		closed <- a.Close(context.Background())
		return host.Decision{}
	}
	a = start(t, inmemory.New(), opts)
	for range a.Messages() {
	}
	require.NoError(t, <-closed)
	m.requireNothingLeft()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestCloseHonoursItsContextWhenStderrBlocks(t *testing.T) {
	m := newMachine(t)
	opts := shell(t, m, "echo hi >&2; cat > /dev/null; sleep 600")
	blocked, release := make(chan struct{}), make(chan struct{})
	opts.Stderr = writer(func(p []byte) (int, error) {
		close(blocked)
		<-release
		return len(p), nil
	})
	a := start(t, inmemory.New(), opts)
	<-blocked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	exit := (*host.ExitError)(nil)
	require.ErrorAs(t, a.Close(ctx), &exit)
	require.True(t, exit.Killed)
	require.Equal(t, "hi", exit.Stderr)
	close(release)
	m.requireNothingLeft()
}

func TestAnErrorOfStderrDoesNotReachTheAgent(t *testing.T) {
	quiet(t)
	opts := shell(t, newMachine(t), "read l; for i in 1 2 3; do echo $i >&2; sleep 0.05; done; echo '{\"type\":\"x\"}'; cat > /dev/null")
	opts.Stderr = writer(func([]byte) (int, error) { return 0, errors.New("disk full") })
	a := start(t, inmemory.New(), opts)
	require.NoError(t, a.Prompt("go"))
	for m, err := range a.Messages() {
		require.NoError(t, err)
		require.Equal(t, "x", m.Type)
		break
	}
	require.NoError(t, a.Close(t.Context()))
}

func TestAnInputThatIsNoJSONIsDenied(t *testing.T) {
	quiet(t)
	for _, input := range []string{"{nope", "", "[1]"} {
		opts := shell(t, newMachine(t), question+`read l; echo "$l"; cat > /dev/null`)
		opts.OnPermission = func(context.Context, host.Permission) host.Decision {
			return host.Decision{Allow: true, Input: []byte(input)}
		}
		a := start(t, inmemory.New(), opts)
		for m, err := range a.Messages() {
			require.NoError(t, err)
			require.Contains(t, string(m.Raw), `"behavior":"deny"`)
			require.Contains(t, string(m.Raw), "no JSON object")
			break
		}
		require.NoError(t, a.Close(t.Context()))
	}
}

func TestCloseEndsWhatTheAgentHasLeftInItsGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	opts := shell(t, newMachine(t), "sleep 600 > /dev/null 2>&1 < /dev/null & echo $! > "+pidFile+"; echo '{\"type\":\"x\"}'")
	a := start(t, inmemory.New(), opts)
	for range a.Messages() {
	}
	pid, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.NoError(t, a.Close(t.Context()))
	command, _ := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline"))
	require.NotContains(t, string(command), "sleep", "it has been killed, and is gone or a zombie")
}

func TestSendTakesOneObject(t *testing.T) {
	opts := shell(t, newMachine(t), `read -r l; printf '%s\n' "$l"; cat > /dev/null`)
	a := start(t, inmemory.New(), opts)
	for _, bad := range []string{"", "\n", "no", "[1]", "{}\n{}", "{}{}"} {
		require.ErrorContains(t, a.Send([]byte(bad)), "not one JSON object", "%q", bad)
	}
	require.NoError(t, a.Send([]byte("{\"type\":\"x\",\r\n \"n\": 1.0}\n")))
	for m, err := range a.Messages() {
		require.NoError(t, err)
		require.Equal(t, `{"type":"x","n":1.0}`, string(m.Raw))
		break
	}
	require.NoError(t, a.Close(t.Context()))
}

func TestShortFlagsOfOursAreRefused(t *testing.T) {
	for arg, bad := range map[string]bool{"-rID": true, "-pc": true, "-pr": true, "--verbose": true, "-p": false, "-d": false, "--replay-user-messages": false, "-nrc": false} {
		opts := newMachine(t).options()
		opts.Args = []string{arg}
		option := (*resume.OptionError)(nil)
		require.Equal(t, bad, errors.As(opts.Validate(nil), &option), arg)
	}
}

// An agent writes to its file first, and may die before it tells.
func TestCloseBringsInWhatAKilledAgentCouldNotTell(t *testing.T) {
	for name, outage := range map[string]bool{"store is there": false, "store is away": true} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			store := &brokenStore{Store: inmemory.New()}
			opts := m.options()
			opts.Mirror.Attempts = 1
			a := start(t, store, opts)
			ask(t, a, "one")
			key := sessionstore.Key{ProjectKey: tenant, SessionID: a.SessionID()}
			files, err := filepath.Glob(filepath.Join(a.Session().ProjectsDir(), "*", key.SessionID+".jsonl"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			a.Kill()
			f, err := os.OpenFile(files[0], os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.WriteString(`{"type":"user","uuid":"untold"}` + "\n")
			require.NoError(t, errors.Join(err, f.Close()))

			store.broken = outage
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if !outage {
				ctx = t.Context()
			}
			err = a.Close(ctx)
			kept := (*resume.KeptError)(nil)
			require.Equal(t, outage, errors.As(err, &kept), "%v", err)
			if outage {
				require.FileExists(t, files[0], "it is the only copy")
				return
			}
			after, err := store.Load(t.Context(), key)
			require.NoError(t, err)
			require.Contains(t, string(after[len(after)-1]), "untold")
			m.requireNothingLeft()
		})
	}
}
