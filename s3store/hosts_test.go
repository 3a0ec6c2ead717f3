package s3store

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/s3fake"
)

// world is a fake server and the hosts that share it.
type world struct {
	*s3fake.Server
	tb testing.TB
}

const fakeBucket = "sessions"

var fakeKey = sessionstore.Key{ProjectKey: "proj", SessionID: "sess"}

func newWorld(tb testing.TB, opts *s3fake.Options) world {
	w := world{s3fake.New(tb, opts), tb}
	w.CreateBucket(fakeBucket)
	return w
}

// client signs as one host. It does not retry.
func (w world) client(name string, set ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(w.URL),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(name, "secret", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   w.HTTPClient(),
		// As a loaded configuration has it.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
	}, set...)
}

// retries makes a client try again at once.
func retries(o *s3.Options) {
	o.Retryer = retryer{}
}

type retryer struct{ aws.NopRetryer }

func (retryer) MaxAttempts() int                             { return 3 }
func (retryer) IsErrorRetryable(error) bool                  { return true }
func (retryer) RetryDelay(int, error) (time.Duration, error) { return 0, nil }
func (retryer) GetRetryToken(context.Context, error) (func(error) error, error) {
	return func(error) error { return nil }, nil
}

// host opens a handle that compacts only when told to.
func (w world) host(name string) *Store {
	return w.hostWith(name, w.client(name), Options{CompactAfter: -1})
}

func (w world) hostWith(name string, c *s3.Client, o Options) *Store {
	w.tb.Helper()
	s, err := New(c, fakeBucket, &o)
	require.NoError(w.tb, err)
	w.tb.Cleanup(func() { s.Close() })
	return s
}

// hostAt opens a handle whose clock differs from the real one.
func (w world) hostAt(name string, shift time.Duration) *Store {
	s := w.host(name)
	s.timing.now = func() time.Time { return time.Now().Add(shift) }
	return s
}

// entry has a uuid when n is even.
func numbered(n int) sessionstore.Entry {
	if n%2 == 0 {
		return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"u%d","n":%d}`, n, n))
	}
	return sessionstore.Entry(fmt.Sprintf(`{"type":"mode","n":%d}`, n))
}

func numberedList(from, to int) []sessionstore.Entry {
	var list []sessionstore.Entry
	for n := from; n < to; n++ {
		list = append(list, numbered(n))
	}
	return list
}

// appendEach appends entries from ≤ n < to in batches of one.
func appendEach(tb testing.TB, s *Store, from, to int) {
	tb.Helper()
	for n := from; n < to; n++ {
		require.NoError(tb, s.Append(tb.Context(), fakeKey, numberedList(n, n+1)))
	}
}

func lines(entries []sessionstore.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = string(e)
	}
	return list
}

// requireHolds loads and streams.
func requireHolds(tb testing.TB, s *Store, want []sessionstore.Entry, why string, args ...any) {
	tb.Helper()
	why = fmt.Sprintf(why, args...)
	got, err := s.Load(tb.Context(), fakeKey)
	require.NoError(tb, err, why)
	require.Equal(tb, lines(want), lines(got), "Load %s", why)
	streamed, err := drain(tb.Context(), s)
	require.NoError(tb, err, why)
	require.Equal(tb, lines(want), lines(streamed), "Stream %s", why)
}

func drain(ctx context.Context, s *Store) ([]sessionstore.Entry, error) {
	var list []sessionstore.Entry
	for e, err := range s.Stream(ctx, fakeKey) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// asReference reads as the official adapters do: the parts of the directory,
// sorted by name, one line after the other.
func (w world) asReference() []sessionstore.Entry {
	var list []sessionstore.Entry
	dir := "proj/sess/"
	for _, key := range w.Keys(fakeBucket, dir) {
		name := strings.TrimPrefix(key, dir)
		if strings.Contains(name, "/") || !strings.HasPrefix(name, "part-") {
			continue
		}
		for line := range strings.Lines(string(w.Body(fakeBucket, key))) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, sessionstore.Entry(line))
			}
		}
	}
	return list
}

// parts returns the names of the objects of the transcript.
func (w world) parts() []string {
	var names []string
	for _, key := range w.Keys(fakeBucket, "proj/sess/part-") {
		names = append(names, strings.TrimPrefix(key, "proj/sess/"))
	}
	return names
}

// atStep has f run when the host sends its n-th request from now on, before
// the request takes effect. The result waits for f, and says whether it ran.
func (w world) atStep(account string, n int, f func()) (reached func() bool) {
	return w.atMatch(func(r s3fake.Request) bool { return r.Account == account }, n, f)
}

// atList is atStep for pages of lists alone.
func (w world) atList(account string, n int, f func()) (reached func() bool) {
	return w.atMatch(func(r s3fake.Request) bool { return r.Account == account && r.Op == "ListObjectsV2" }, n, f)
}

func (w world) atMatch(match func(s3fake.Request) bool, n int, f func()) (reached func() bool) {
	seen, done := &counter{}, make(chan struct{})
	w.Intercept(func(r s3fake.Request) *s3fake.Fault {
		if match(r) && seen.next() == n {
			return &s3fake.Fault{Before: func() { defer close(done); f() }}
		}
		return nil
	})
	return func() bool {
		if seen.value() < n {
			return false
		}
		<-done // the host may have given up waiting
		return true
	}
}

func isOp(op string) func(s3fake.Request) bool {
	return func(r s3fake.Request) bool { return r.Op == op }
}

var slowDown = s3fake.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}

// counter counts from several goroutines.
type counter struct{ n atomic.Int64 }

func (c *counter) next() int  { return int(c.n.Add(1)) }
func (c *counter) value() int { return int(c.n.Load()) }
