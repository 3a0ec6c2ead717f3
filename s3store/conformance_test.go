package s3store

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a bucket that a test works in.
type backend struct {
	server testenv.S3Server
	bucket string
	// flaky: the server fails where it should not, as one over a file system
	// does when a directory goes that is just being written to.
	flaky bool
}

// newBucket makes a bucket that goes with the test.
func newBucket(tb testing.TB) backend {
	tb.Helper()
	return newBucketOn(tb, testenv.S3(tb))
}

func newBucketOn(tb testing.TB, server testenv.S3Server) backend {
	tb.Helper()
	b := backend{server: server, bucket: "s3store-" + strings.ToLower(rand.Text())}
	client := b.client(tb, newWire(tb))
	_, err := client.CreateBucket(context.Background(), &s3.CreateBucketInput{Bucket: &b.bucket})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		s := b.store(tb, Options{})
		require.NoError(tb, s.sweep(context.Background(), "", nil))
		if _, err := client.DeleteBucket(context.Background(), &s3.DeleteBucketInput{Bucket: &b.bucket}); err != nil {
			tb.Log(err) // over a file system a directory may still be about to go; the server's data goes anyway
		}
	})
	return b
}

func newWire(tb testing.TB) *wire {
	transport := awshttp.NewBuildableClient().GetTransport()
	tb.Cleanup(transport.CloseIdleConnections)
	return &wire{next: transport}
}

// client never repeats a request whose answer was lost, so that this is an error.
func (b backend) client(tb testing.TB, w *wire) *s3.Client {
	tb.Helper()
	var retryer aws.Retryer = aws.NopRetryer{}
	if b.flaky {
		retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff = 100 * time.Millisecond
			o.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: map[string]struct{}{"InternalError": {}}}}
		})
	}
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(b.server.Endpoint), Region: b.server.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(b.server.AccessKey, b.server.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: w},
		Retryer:     retryer,
	})
}

// wires finds the wire of a store.
var wires sync.Map

func wireOf(s sessionstore.SessionStore) *wire {
	w, _ := wires.Load(s)
	return w.(*wire)
}

// store opens a handle on the bucket.
func (b backend) store(tb testing.TB, o Options) *Store {
	tb.Helper()
	w := newWire(tb)
	s, err := New(b.client(tb, w), b.bucket, &o)
	require.NoError(tb, err)
	wires.Store(s, w)
	tb.Cleanup(func() {
		wires.Delete(s)
		s.timing.closeWait = time.Second
		if err := s.Close(); !w.down.Load() {
			require.NoError(tb, err)
		}
	})
	return s
}

// harness gives each store a prefix of its own below that of options, or a
// bucket of its own.
func (b backend) harness(o Options) conformance.Harness {
	reopen := func(tb testing.TB, s sessionstore.SessionStore) *Store {
		st := s.(*Store)
		opts := o
		opts.Prefix = st.prefix
		return backend{b.server, st.bucket, b.flaky}.store(tb, opts)
	}
	return conformance.Harness{
		Open: func(tb testing.TB) sessionstore.SessionStore {
			if o.Prefix == "" {
				return newBucketOn(tb, b.server).store(tb, o)
			}
			opts := o
			opts.Prefix += rand.Text()
			return b.store(tb, opts)
		},
		Reopen: func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore { return reopen(tb, s) },
		ReopenBehind: func(tb testing.TB, s sessionstore.SessionStore, d time.Duration) sessionstore.SessionStore {
			other := reopen(tb, s)
			other.timing.now = func() time.Time { return time.Now().Add(-d) }
			return other
		},
		LoseReply: func(_ testing.TB, s sessionstore.SessionStore) { wireOf(s).lose.Store(1) },
		Outage:    func(_ testing.TB, s sessionstore.SessionStore) { wireOf(s).down.Store(true) },
		Damage:    damage,
		Require: conformance.All | conformance.Handover | conformance.HandoverBehind | conformance.LostReply |
			conformance.Outage | conformance.Damage,
	}
}

// damage cuts off the end of a part: the network cannot do that, but a copy
// that was interrupted can.
func damage(tb testing.TB, s sessionstore.SessionStore, key sessionstore.Key) {
	st := s.(*Store)
	ctx := context.Background()
	parts, err := st.parts(ctx, st.dir(key))
	require.NoError(tb, err)
	name := st.dir(key) + parts[0].name.String()
	_, err = st.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &st.bucket, Key: &name, Body: strings.NewReader(`{"type":"us`), StorageClass: types.StorageClassStandard})
	require.NoError(tb, err)
}

func TestConformance(t *testing.T) {
	conformance.Run(t, newBucket(t).harness(Options{Prefix: "some/prefix/"}))
}

func TestConformanceWithoutPrefix(t *testing.T) {
	t.Parallel()
	h := newBucket(t).harness(Options{})
	h.Short = true // the heavy cases run with a prefix
	conformance.Run(t, h)
}
