// Package testenv tells tests where the real servers are: Redis, Redis
// Cluster, PostgreSQL and S3.
//
// Each address comes from an environment variable (SESSIONSTORE_TEST_REDIS,
// _REDIS_CLUSTER, _POSTGRES, _PGBOUNCER, _S3_ENDPOINT, _S3_REGION, _S3_ACCESS_KEY,
// _S3_SECRET_KEY, the same four with _S3_RCLONE), else from the file .testenv at the module root, which
// "./scripts/services start" writes.
//
// A test whose server is named nowhere is skipped, with a sentence that says
// what to run. It fails instead where CI is set or SESSIONSTORE_REQUIRE_BACKENDS=1,
// so that a run meant to be complete cannot pass by skipping. A server that is
// named but does not answer is always a failure.
//
// The servers are shared by all tests of a run: each test uses names of its own
// (a key prefix, a schema, a bucket) and cleans up after itself.
package testenv

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// S3Server is an S3 endpoint, used path-style, and an account that may create
// buckets there.
type S3Server struct {
	Endpoint  string // a URL without a path
	Region    string
	AccessKey string
	SecretKey string
}

// Redis returns host:port of a single Redis server with appendfsync always.
func Redis(t testing.TB) string {
	t.Helper()
	addr := need(t, "Redis server", "REDIS")["REDIS"]
	mustAnswer(t, "Redis server", addr)
	return addr
}

// RedisCluster returns host:port of every node of a Redis Cluster of three
// masters and three replicas.
func RedisCluster(t testing.TB) []string {
	t.Helper()
	var nodes []string
	for _, addr := range strings.Split(need(t, "Redis Cluster", "REDIS_CLUSTER")["REDIS_CLUSTER"], ",") {
		nodes = append(nodes, strings.TrimSpace(addr))
	}
	mustAnswer(t, "Redis Cluster", nodes...)
	return nodes
}

// Postgres returns a connection URL of a PostgreSQL superuser.
func Postgres(t testing.TB) string {
	t.Helper()
	dsn := need(t, "PostgreSQL server", "POSTGRES")["POSTGRES"]
	if addr, ok := hostPort(dsn); ok { // else in the "host=… port=…" form: pass it on
		mustAnswer(t, "PostgreSQL server", addr)
	}
	return dsn
}

// PgBouncer returns a connection URL that leads to the server of [Postgres]
// through PgBouncer in transaction mode, with fewer connections behind it than
// clients before it.
func PgBouncer(t testing.TB) string {
	t.Helper()
	dsn := need(t, "PgBouncer", "PGBOUNCER")["PGBOUNCER"]
	if addr, ok := hostPort(dsn); ok {
		mustAnswer(t, "PgBouncer", addr)
	}
	return dsn
}

// S3 returns an S3 server.
func S3(t testing.TB) S3Server {
	t.Helper()
	return s3Server(t, "S3 server", "S3")
}

// S3Rclone returns an S3 server of another kind. It keeps the metadata of
// objects in memory only, and has no conditional writes.
func S3Rclone(t testing.TB) S3Server {
	t.Helper()
	return s3Server(t, "S3 server of rclone", "S3_RCLONE")
}

func s3Server(t testing.TB, what, name string) S3Server {
	t.Helper()
	names := []string{name + "_ENDPOINT", name + "_REGION", name + "_ACCESS_KEY", name + "_SECRET_KEY"}
	v := need(t, what, names...)
	addr, ok := hostPort(v[names[0]])
	if !ok {
		t.Fatalf("testenv: %s: endpoint %q is not a URL", what, v[names[0]])
	}
	mustAnswer(t, what, addr)
	return S3Server{v[names[0]], v[names[1]], v[names[2]], v[names[3]]}
}

// need returns the settings of one server, or ends the test.
func need(t testing.TB, what string, names ...string) map[string]string {
	t.Helper()
	file, err := readStateFile()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	values, err := settings(os.Getenv, file, names)
	if err != nil {
		t.Fatalf("testenv: %s: %v", what, err)
	}
	if values == nil {
		message := missing(what)
		if required(os.Getenv) {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return values
}

func missing(what string) string {
	return fmt.Sprintf("testenv: no %s is listed; run ./scripts/services start at the module root to have one", what)
}

// required reports whether a missing server is a failure.
func required(getenv func(string) string) bool {
	if getenv("SESSIONSTORE_REQUIRE_BACKENDS") == "1" {
		return true
	}
	switch strings.ToLower(getenv("CI")) {
	case "", "false", "0":
		return false
	}
	return true
}

// settings collects the named settings, all from the environment or all from
// the file: a mixture of two servers would be worse than none. The first name
// decides which; nil means that neither has it.
func settings(getenv func(string) string, file map[string]string, names []string) (map[string]string, error) {
	const prefix = "SESSIONSTORE_TEST_"
	get, where := getenv, "the environment"
	if get(prefix+names[0]) == "" {
		get, where = func(name string) string { return file[name] }, stateFile
	}
	if get(prefix+names[0]) == "" {
		return nil, nil
	}
	values := make(map[string]string, len(names))
	for _, name := range names {
		if values[name] = get(prefix + name); values[name] == "" {
			return nil, fmt.Errorf("%s has %s%s but no %s%s", where, prefix, names[0], prefix, name)
		}
	}
	return values, nil
}

// hostPort returns what to dial for a URL.
func hostPort(rawURL string) (string, bool) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "5432"
	}
	return net.JoinHostPort(u.Hostname(), port), true
}

func mustAnswer(t testing.TB, what string, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatalf("testenv: %s is listed but does not answer: %v (see ./scripts/services status)", what, err)
		}
		conn.Close()
	}
}
