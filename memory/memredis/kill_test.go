package memredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory"
)

// server is a Redis of the test's own, which it may kill.
type server struct {
	addr    string
	args    []string
	process *exec.Cmd
}

func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	testenv.Redis(t) // where there is no server to test with, this one is not started either
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := &server{addr: l.Addr().String()}
	_, port, _ := net.SplitHostPort(s.addr)
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)
	require.NoError(t, l.Close())
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *server) start(t *testing.T) {
	s.process = exec.Command("redis-server", s.args...)
	require.NoError(t, s.process.Start())
	client := s.client(t)
	assert.Eventually(t, func() bool { return client.Ping(context.Background()).Err() == nil }, 20*time.Second, 10*time.Millisecond)
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// client repeats nothing by itself.
func (s *server) client(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

func nothingDone(err error) bool {
	var definite interface{ NothingDone() }
	return errors.As(err, &definite)
}

// text is a file of which a torn one would be found out.
func text(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "edit %06d\n", n), 5000) }

// killWhileEditing kills the server during every tenth of 60 edits, and calls
// edited for each with its error. It ends with the server running.
func killWhileEditing(t *testing.T, s *server, edit func(n int) error, edited func(n int, err error)) {
	for n := 1; n <= 60; n++ {
		restarted := make(chan bool)
		if n%10 == 0 {
			go func() {
				defer close(restarted)
				s.kill()
				s.start(t)
			}()
		} else {
			close(restarted)
		}
		err := edit(n)
		<-restarted
		edited(n, err)
	}
}

func TestAnEditDuringWhichTheServerIsKilledIsWholeOrNotDone(t *testing.T) {
	server := newServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s, err := New(server.client(t), "scope", &Options{RetryFor: -1})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", text(0), "", memory.Limits{}))
	f, err := s.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	killWhileEditing(t, server, func(n int) error { return s.Write(ctx, "/memories/f", text(n), f.Version, memory.Limits{}) }, func(n int, err error) {
		old := f.Data
		// Connections that the client still has are dead.
		require.Eventually(t, func() bool {
			var err error
			f, err = s.Read(ctx, "/memories/f", 0)
			return err == nil
		}, 20*time.Second, time.Millisecond)
		switch {
		case err == nil:
			require.True(t, bytes.Equal(text(n), f.Data), "an edit is lost")
		case nothingDone(err):
			require.True(t, bytes.Equal(old, f.Data), "%v", err)
		default:
			require.NotErrorIs(t, err, memory.ErrConflict)
			require.NotErrorIs(t, err, memory.ErrNotFound)
			require.True(t, bytes.Equal(old, f.Data) || bytes.Equal(text(n), f.Data), "the file is torn")
		}
	})
}

func TestEditsGoOnWhenTheServerIsKilledAndComesBack(t *testing.T) {
	server := newServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s, err := New(redis.NewClient(&redis.Options{Addr: server.addr}), "scope", &Options{RetryFor: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { s.client.Close() })
	tool, err := memory.New(s, nil)
	require.NoError(t, err)
	run := func(input string) error {
		if r := tool.Run(t.Context(), []byte(input)); r.IsError {
			return fmt.Errorf("%s: %w", r.Text(), r.Err)
		}
		return nil
	}
	require.NoError(t, run(`{"command":"create","path":"/memories/f","file_text":""}`))
	killWhileEditing(t, server, func(n int) error {
		return run(fmt.Sprintf(`{"command":"insert","path":"/memories/f","insert_line":%d,"insert_text":"%d"}`, n-1, n))
	}, func(n int, err error) { require.NoError(t, err) })
	f, err := s.Read(t.Context(), "/memories/f", 0)
	require.NoError(t, err)
	require.Equal(t, 60, strings.Count(string(f.Data), "\n"), "each edit counts once")
}

func TestWhatIsKnownToHaveChangedNothingSaysSo(t *testing.T) {
	ctx := t.Context()
	away := func(retries int) error {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: retries, DialerRetries: 1})
		defer c.Close()
		s, err := New(c, "scope", &Options{RetryFor: -1})
		require.NoError(t, err)
		err = s.Delete(ctx, "/memories/f")
		require.Error(t, err)
		return err
	}
	require.True(t, nothingDone(away(-1)))
	require.False(t, nothingDone(away(1)), "the client may have sent it before")

	p := newPlace(t, single)
	s, err := p.open("scope")
	require.NoError(t, err)
	require.NoError(t, s.Write(ctx, "/memories/f", nil, "", memory.Limits{}))
	hook := &swallow{left: 1}
	p.client.AddHook(hook)
	s.retryFor = -1
	require.False(t, nothingDone(s.Delete(ctx, "/memories/f")), "the reply is lost")
	require.NoError(t, p.client.HSet(ctx, s.key, "v", "2").Err())
	err = s.Delete(ctx, "/memories/f")
	require.True(t, nothingDone(err), "%v", err)
}

// Where memory is full nothing is written, and deletes make room.
func TestAServerWithoutMemory(t *testing.T) {
	server := newServer(t)
	client := server.client(t)
	s, err := New(client, "scope", nil)
	require.NoError(t, err)
	ctx := t.Context()
	for _, path := range []string{"/memories/d/1", "/memories/d/2", "/memories/e"} {
		require.NoError(t, s.Write(ctx, path, text(0), "", memory.Limits{}))
	}
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	err = s.Write(ctx, "/memories/f", text(0), "", memory.Limits{})
	require.ErrorContains(t, err, "OOM")
	require.True(t, nothingDone(err), "%v", err)
	err = s.Rename(ctx, "/memories/d", "/memories/g")
	require.ErrorContains(t, err, "OOM")
	require.True(t, nothingDone(err), "%v", err)
	list, err := s.List(ctx, "/memories/d")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NoError(t, s.Delete(ctx, "/memories/d"))
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	require.NoError(t, s.Write(ctx, "/memories/d", nil, "", memory.Limits{Files: 2, Bytes: int64(len(text(0)))}))
}
