package testenv

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// These tests speak to the servers by hand, so that a failure here means a
// server that is not what it should be, and not a client library.

func TestRedisKeepsAValue(t *testing.T) {
	r := dialRedis(t, Redis(t))
	key := "testenv:" + rand.Text()
	if got := r.do("PING"); got != "PONG" {
		t.Fatalf("PING = %q, want PONG", got)
	}
	if got := r.do("SET", key, "a value\r\n"); got != "OK" {
		t.Fatalf("SET = %q, want OK", got)
	}
	if got := r.do("GET", key); got != "a value\r\n" {
		t.Fatalf("GET = %q, want what was set", got)
	}
	r.do("DEL", key)
}

func TestRedisSyncsEveryWrite(t *testing.T) {
	for name, addr := range map[string]string{"Single": Redis(t), "Cluster": RedisCluster(t)[0]} {
		t.Run(name, func(t *testing.T) {
			r := dialRedis(t, addr)
			for option, want := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
				if got := r.do("CONFIG", "GET", option); got != option+" "+want {
					t.Errorf("CONFIG GET %s = %q, want %s", option, got, want)
				}
			}
		})
	}
}

func TestRedisClusterHasAReplicaForEachOfThreeMasters(t *testing.T) {
	nodes := RedisCluster(t)
	if len(nodes) != 6 {
		t.Fatalf("RedisCluster() = %v, want six nodes", nodes)
	}
	for _, addr := range nodes {
		r := dialRedis(t, addr)
		if info := r.do("CLUSTER", "INFO"); !strings.Contains(info, "cluster_state:ok") {
			t.Errorf("%s: CLUSTER INFO has no cluster_state:ok:\n%s", addr, info)
		}
		replicas := make(map[string]int) // by the id of their master
		for _, line := range strings.Split(strings.TrimSpace(r.do("CLUSTER", "NODES")), "\n") {
			f := strings.Fields(line) // id address flags master …
			if strings.Contains(f[2], "master") {
				replicas[f[0]] += 0
			} else {
				replicas[f[3]]++
			}
		}
		if len(replicas) != 3 {
			t.Errorf("%s: CLUSTER NODES lists %d masters, want 3", addr, len(replicas))
		}
		for id, n := range replicas {
			if n != 1 {
				t.Errorf("%s: master %s has %d replicas, want 1", addr, id, n)
			}
		}
	}
}

func TestPostgresAnswersAQuery(t *testing.T)  { postgresAnswers(t, Postgres(t)) }
func TestPgBouncerAnswersAQuery(t *testing.T) { postgresAnswers(t, PgBouncer(t)) }

func postgresAnswers(t *testing.T, dsn string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		t.Skip("only URLs of a server without a password are tried here")
	}
	if _, has := u.User.Password(); has {
		t.Skip("only URLs of a server without a password are tried here")
	}
	addr, _ := hostPort(u.String())
	conn := dial(t, addr)
	startup := binary.BigEndian.AppendUint32(nil, 3<<16) // protocol 3.0
	startup = fmt.Appendf(startup, "user\x00%s\x00database\x00%s\x00\x00", u.User.Username(), strings.Trim(u.Path, "/"))
	conn.Write(frame(startup))
	in := bufio.NewReader(conn)
	postgresUntilReady(t, in)
	conn.Write(append([]byte{'Q'}, frame([]byte("select 20 + 1\x00"))...))
	if got := postgresUntilReady(t, in); got != "21" {
		t.Fatalf("select 20 + 1 = %q, want 21", got)
	}
}

// frame puts a PostgreSQL message behind its length, which counts itself.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

// postgresUntilReady reads until the server waits for a query, and returns the
// last column it sent.
func postgresUntilReady(t *testing.T, in *bufio.Reader) (column string) {
	t.Helper()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err != nil {
			t.Fatalf("read message: %v", err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(in, body); err != nil {
			t.Fatalf("read message: %v", err)
		}
		switch head[0] {
		case 'E':
			t.Fatalf("server error: %q", body)
		case 'D': // two bytes of count, four of length, the column
			column = string(body[6:])
		case 'Z':
			return column
		}
	}
}

func TestS3KeepsAnObject(t *testing.T)       { s3KeepsAnObject(t, S3(t)) }
func TestS3RcloneKeepsAnObject(t *testing.T) { s3KeepsAnObject(t, S3Rclone(t)) }

func s3KeepsAnObject(t *testing.T, s S3Server) {
	t.Helper()
	bucket := "/testenv-" + strings.ToLower(rand.Text())
	s.do(t, "PUT", bucket, "", "", 200)
	t.Cleanup(func() {
		s.do(t, "DELETE", bucket+"/dir/object", "", "", 204)
		s.do(t, "DELETE", bucket, "", "", 204)
	})
	s.do(t, "PUT", bucket+"/dir/object", "", "the content", 200)
	if got := s.do(t, "GET", bucket+"/dir/object", "", "", 200); got != "the content" {
		t.Errorf("GET = %q, want what was put", got)
	}
	list := s.do(t, "GET", bucket, "list-type=2&prefix=dir%2F", "", 200)
	if !strings.Contains(list, "<Key>dir/object</Key>") {
		t.Errorf("list has no dir/object: %s", list)
	}
}

func TestS3RefusesAWrongKey(t *testing.T)       { s3RefusesAWrongKey(t, S3(t)) }
func TestS3RcloneRefusesAWrongKey(t *testing.T) { s3RefusesAWrongKey(t, S3Rclone(t)) }

func s3RefusesAWrongKey(t *testing.T, s S3Server) {
	t.Helper()
	s.SecretKey += "x"
	got := s.do(t, "GET", "/", "", "", 403)
	if !strings.Contains(got, "SignatureDoesNotMatch") {
		t.Errorf("GET / with a wrong key = %s, want SignatureDoesNotMatch", got)
	}
}

// do sends one request, signed as AWS Signature Version 4 describes, and
// returns the body of the answer. Path and query must need no escaping.
func (s S3Server) do(t *testing.T, method, path, query, body string, status int) string {
	t.Helper()
	req, err := http.NewRequest(method, s.Endpoint+path+"?"+query, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Format("20060102T150405Z")
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	req.Header.Set("X-Amz-Date", now)
	req.Header.Set("X-Amz-Content-Sha256", hash)
	const signed = "host;x-amz-content-sha256;x-amz-date"
	canonical := strings.Join([]string{
		method, path, query, "host:" + req.URL.Host, "x-amz-content-sha256:" + hash, "x-amz-date:" + now, "", signed, hash,
	}, "\n")
	scope := now[:8] + "/" + s.Region + "/s3/aws4_request"
	toSign := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", now, scope, sha256.Sum256([]byte(canonical)))
	key := []byte("AWS4" + s.SecretKey)
	for _, part := range append(strings.Split(scope, "/"), toSign) {
		mac := hmac.New(sha256.New, key)
		io.WriteString(mac, part)
		key = mac.Sum(nil)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		s.AccessKey, scope, signed, hex.EncodeToString(key)))
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s = %s (%v), want status %d: %s", method, path, resp.Status, err, status, got)
	}
	return string(got)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// redisConn speaks just enough of Redis' protocol.
type redisConn struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t *testing.T, addr string) redisConn {
	t.Helper()
	conn := dial(t, addr)
	return redisConn{t, conn, bufio.NewReader(conn)}
}

func (r redisConn) do(args ...string) string {
	r.t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	r.conn.Write(out.Bytes())
	reply, err := r.reply()
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// reply reads one reply. The elements of an array come joined by blanks.
func (r redisConn) reply() (string, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	n, _ := strconv.Atoi(rest)
	switch kind {
	case '-':
		return "", errors.New(rest)
	case '$':
		text := make([]byte, max(n, 0)+2)
		_, err := io.ReadFull(r.in, text)
		return string(text[:len(text)-2]), err
	case '*':
		var elements []string
		for range n {
			e, err := r.reply()
			if err != nil {
				return "", err
			}
			elements = append(elements, e)
		}
		return strings.Join(elements, " "), nil
	}
	return rest, nil
}
