package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/pgstore"
)

// server is a PostgreSQL server of the test's own, which it may kill.
type server struct {
	bin, dir, port string
	as             *syscall.Credential
	process        *exec.Cmd
	log            bytes.Buffer
}

func newServer(t *testing.T) *server {
	t.Helper()
	testenv.Postgres(t) // where there is no server to test with, this one is not started either
	s := &server{bin: serverPrograms(t), dir: t.TempDir(), port: freePort(t)}
	if os.Geteuid() == 0 { // the server refuses to be root
		u, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		s.dir, err = os.MkdirTemp("", "pgstore-test")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(s.dir) })
		require.NoError(t, os.Chown(s.dir, uid, gid))
	}
	out, err := s.command("initdb", "-D", s.dir+"/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.Start(t)
	t.Cleanup(func() { s.Kill(t) })
	return s
}

// serverPrograms returns the folder of the newest server programs.
func serverPrograms(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("there are no PostgreSQL server programs here; run ./scripts/install postgres")
	}
	return filepath.Dir(slices.Max(found))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

func (s *server) Start(t *testing.T) {
	t.Helper()
	s.process = s.command("postgres", "-D", s.dir+"/data", "-c", "listen_addresses=127.0.0.1", "-c", "port="+s.port,
		"-c", "unix_socket_directories=", "-c", "dynamic_shared_memory_type=mmap")
	s.process.Stderr = &s.log
	require.NoError(t, s.process.Start())
	ready := func() bool {
		pool, err := pgxpool.New(context.Background(), s.URL())
		if err != nil {
			return false
		}
		defer pool.Close()
		return pool.Ping(context.Background()) == nil
	}
	require.Eventually(t, ready, 30*time.Second, 20*time.Millisecond, "the server does not come up")
}

// Kill is an immediate stop: nothing is written any more, as in a crash.
func (s *server) Kill(t *testing.T) {
	t.Helper()
	if s.process != nil {
		require.NoError(t, s.process.Process.Signal(syscall.SIGQUIT))
		s.process.Wait() // its status says that it was killed
		s.process = nil
	}
}

func (s *server) URL() string {
	return "postgres://postgres@127.0.0.1:" + s.port + "/postgres?sslmode=disable"
}

// crashWriter appends to one transcript through a server that comes and goes,
// and tries each batch until it is acknowledged.
type crashWriter struct {
	name  string
	store *pgstore.Store
	acked int
}

// batch has entries with and without uuid.
func (w *crashWriter) batch(n int) []sessionstore.Entry {
	return []sessionstore.Entry{
		entry(`{"w":%q,"n":%d,"uuid":"%s-%d"}`, w.name, n, w.name, n), entry(`{"w":%q,"n":%d}`, w.name, n),
	}
}

func (w *crashWriter) write(ctx context.Context) {
	for ctx.Err() == nil {
		if w.store.Append(context.WithoutCancel(ctx), mainKey, w.batch(w.acked)) == nil {
			w.acked++
			continue
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestServerIsKilledDuringAppends(t *testing.T) {
	srv := newServer(t)
	schema := newName() // goes away with the server
	writers := make([]*crashWriter, 4)
	for i := range writers {
		writers[i] = &crashWriter{name: fmt.Sprint("w", i), store: newStore(t, newPoolAt(t, srv.URL(), nil), &pgstore.Options{Schema: schema})}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() { w.write(ctx) })
	}
	for range 3 {
		time.Sleep(150 * time.Millisecond)
		srv.Kill(t)
		srv.Start(t)
	}
	time.Sleep(150 * time.Millisecond)
	stop()
	wg.Wait()

	requireAcknowledged(t, newStore(t, newPoolAt(t, srv.URL(), nil), &pgstore.Options{Schema: schema}), writers)
}

// requireAcknowledged checks that each acknowledged entry is there, once and in
// order, and nothing else.
func requireAcknowledged(t *testing.T, s *pgstore.Store, writers []*crashWriter) {
	t.Helper()
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	total := 0
	for _, w := range writers {
		var mine, want []string
		for _, e := range got {
			if strings.Contains(string(e), fmt.Sprintf(`"w":%q`, w.name)) {
				mine = append(mine, string(e))
			}
		}
		for n := range w.acked {
			want = append(want, texts(w.batch(n))...)
		}
		require.Equal(t, want, mine)
		require.NotZero(t, w.acked)
		total += len(mine)
	}
	require.Len(t, got, total)
	requireFold(t, s, mainKey)
}
