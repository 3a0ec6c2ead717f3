package redisstore

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
)

// server is a private Redis process, for tests that configure or kill it.
type server struct {
	addr string
	args []string
	dir  string
	cmd  *exec.Cmd
}

// startServer starts redis-server in a folder of its own. Where Redis is not
// installed the test is skipped, or fails in CI.
func startServer(tb testing.TB, args ...string) *server {
	tb.Helper()
	testenv.Redis(tb)
	dir, err := os.MkdirTemp("", "redisstore-test")
	require.NoError(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{addr: freeAddr(tb), dir: dir}
	_, port, _ := net.SplitHostPort(s.addr)
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, args...)
	tb.Cleanup(s.kill)
	s.start(tb)
	return s
}

// freeAddr finds a port that is free, with the one 10000 above for the bus of a
// cluster, below those that the system gives to outgoing connections.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	for p := 12000 + os.Getpid()%7919; p < 22000; p += 7 {
		if !taken(p) && !taken(p+10000) {
			return fmt.Sprintf("127.0.0.1:%d", p)
		}
	}
	tb.Fatal("no free port")
	return ""
}

func taken(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		l.Close()
	}
	return err != nil
}

func (s *server) start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	require.NoError(tb, err)
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	require.NoError(tb, s.cmd.Start())
	client := s.client()
	defer client.Close()
	eventually(tb, 10*time.Second, "redis-server "+strings.Join(s.args, " "), func() bool {
		err := client.Ping(context.Background()).Err()
		return err == nil || strings.HasPrefix(err.Error(), "NOAUTH")
	})
}

// kill ends the process without ceremony.
func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
}

func (s *server) backend() backend {
	return backendOf(&redis.UniversalOptions{Addrs: []string{s.addr}}).alone()
}

// do sends one command and returns the answer as text.
func (s *server) do(tb testing.TB, args ...any) string {
	tb.Helper()
	client := s.client()
	defer client.Close()
	got, err := client.Do(context.Background(), args...).Result()
	require.NoError(tb, err)
	return fmt.Sprint(got)
}

func eventually(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// startCluster starts three masters with one replica each.
func startCluster(tb testing.TB) []*server {
	tb.Helper()
	var nodes []*server
	args := []string{"--cluster", "create"}
	for range 6 {
		n := startServer(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--repl-diskless-sync-delay", "0", "--appendonly", "yes")
		nodes = append(nodes, n)
		args = append(args, n.addr)
	}
	out, err := exec.Command("redis-cli", append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
	require.NoError(tb, err, string(out))
	for _, n := range nodes {
		eventually(tb, 20*time.Second, "the cluster is whole", func() bool {
			repl := n.do(tb, "info", "replication")
			return strings.Contains(n.do(tb, "cluster", "info"), "cluster_state:ok") &&
				strings.Count(n.do(tb, "cluster", "nodes"), "slave") == 3 &&
				(strings.Contains(repl, "master_link_status:up") || strings.Contains(repl, "state=online"))
		})
	}
	return nodes
}

func clusterOf(nodes []*server) backend {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.addr)
	}
	return backendOf(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: true}).alone()
}

// sentinels watch a master and its replica.
type sentinels struct {
	master, replica *server
	agreed          func(addr string) bool // all of them name this master
}

// startSentinel starts a master, a replica and three sentinels.
func startSentinel(tb testing.TB) (*sentinels, backend) {
	tb.Helper()
	master := startServer(tb, "--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--appendfsync", "always")
	host, port, _ := net.SplitHostPort(master.addr)
	replica := startServer(tb, "--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--appendfsync", "always", "--replicaof", host+" "+port)
	eventually(tb, 10*time.Second, "the replica is connected", func() bool {
		return strings.Contains(master.do(tb, "info", "replication"), "state=online")
	})
	var addrs []string
	for range 3 {
		conf := filepath.Join(tb.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor main %s %s 2\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n", host, port)
		require.NoError(tb, os.WriteFile(conf, []byte(text), 0o600))
		addrs = append(addrs, startSentinelProcess(tb, conf).addr)
	}
	for _, addr := range addrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		eventually(tb, 10*time.Second, "the sentinels know each other and the replica", func() bool {
			others, _ := c.Sentinels(context.Background(), "main").Result()
			replicas, _ := c.Replicas(context.Background(), "main").Result()
			return len(others) == 2 && len(replicas) == 1
		})
		c.Close()
	}
	agreed := func(addr string) bool {
		for _, a := range addrs {
			c := redis.NewSentinelClient(&redis.Options{Addr: a})
			got, _ := c.GetMasterAddrByName(context.Background(), "main").Result()
			c.Close()
			if len(got) != 2 || net.JoinHostPort(got[0], got[1]) != addr {
				return false
			}
		}
		return true
	}
	return &sentinels{master, replica, agreed}, backendOf(&redis.UniversalOptions{Addrs: addrs, MasterName: "main"}).alone()
}

func startSentinelProcess(tb testing.TB, conf string) *server {
	tb.Helper()
	s := &server{addr: freeAddr(tb), dir: filepath.Dir(conf)}
	_, port, _ := net.SplitHostPort(s.addr)
	s.args = []string{conf, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir}
	tb.Cleanup(s.kill)
	s.start(tb)
	return s
}
