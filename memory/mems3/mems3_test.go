package mems3

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(tb testing.TB, endpoint, region, access, secret string) *s3.Client {
	transport := awshttp.NewBuildableClient().GetTransport()
	tb.Cleanup(transport.CloseIdleConnections)
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
		HTTPClient:  &http.Client{Transport: transport},
		Retryer:     aws.NopRetryer{},
	})
}

// bucket is a bucket on the test server that goes with the test.
type bucket struct {
	client *s3.Client
	name   string
}

func newBucket(tb testing.TB) bucket {
	tb.Helper()
	return newBucketOn(tb, testenv.S3(tb))
}

func newBucketOn(tb testing.TB, server testenv.S3Server) bucket {
	tb.Helper()
	b := bucket{newClient(tb, server.Endpoint, server.Region, server.AccessKey, server.SecretKey), "mems3-" + strings.ToLower(rand.Text())}
	ctx := context.Background()
	_, err := b.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.name})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		var objects []s3util.Object
		require.NoError(tb, s3util.List(ctx, b.client, b.name, "", func(rest string, _ types.Object) { objects = append(objects, s3util.Object{Key: rest}) }, nil))
		var d s3util.Deleter
		require.NoError(tb, d.Delete(ctx, b.client, b.name, parallel, objects))
		_, err := b.client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &b.name})
		require.NoError(tb, err)
	})
	return b
}

// mortal is a transport that dies after some requests.
type mortal struct {
	http.RoundTripper
	left *atomic.Int64
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.left.Add(-1) < 0 {
		return nil, errors.New("dead")
	}
	return m.RoundTripper.RoundTrip(r)
}

const immortal = 1 << 30

// open opens a store on a host that knows the server, and dies after some
// requests.
func (b bucket) open(tb testing.TB, scope string, requests int) *Store {
	options := b.client.Options()
	m := mortal{options.HTTPClient.(*http.Client).Transport, &atomic.Int64{}}
	m.left.Store(int64(requests))
	options.HTTPClient = &http.Client{Transport: m}
	s, err := New(s3.New(options), b.name, scope, nil)
	require.NoError(tb, err)
	s.heeded.Store(true)
	return s
}

// later is a store on a host whose clock is ahead. Servers put their own time on
// objects, so it notes the time of its writes as that of a use.
type later struct{ *Store }

func (s later) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	err := s.Store.Write(ctx, path, data, ifVersion, limits)
	if err == nil {
		s.touch(ctx, path)
	}
	return err
}

func storeOf(s memory.Store) *Store {
	if l, ok := s.(later); ok {
		return l.Store
	}
	return s.(*Store)
}

func harness(newBucket func(tb testing.TB) bucket) memorytest.Harness {
	buckets := map[testing.TB]bucket{}
	bucketOf := func(tb testing.TB) bucket {
		if buckets[tb].client == nil {
			buckets[tb] = newBucket(tb)
		}
		return buckets[tb]
	}
	open := func(tb testing.TB, scope string) (*Store, error) {
		b := bucketOf(tb)
		return New(b.client, b.name, scope, &Options{Prefix: "some/prefix"})
	}
	reopen := func(tb testing.TB, s memory.Store) *Store {
		other, err := open(tb, storeOf(s).scope)
		require.NoError(tb, err)
		return other
	}
	return memorytest.Harness{
		Open: func(tb testing.TB, scope string) (memory.Store, error) {
			s, err := open(tb, scope)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Reopen: func(tb testing.TB, s memory.Store) memory.Store { return reopen(tb, s) },
		Later: func(tb testing.TB, s memory.Store, d time.Duration) memory.Store {
			other := reopen(tb, s)
			other.now = func() time.Time { return time.Now().Add(d) }
			return later{other}
		},
		Outage: func(tb testing.TB, s memory.Store) {
			storeOf(s).client = newClient(tb, "http://127.0.0.1:1", "us-east-1", "a", "b")
		},
		Require: memorytest.All,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	memorytest.Run(t, harness(newBucket))
}

// rclone heeds no conditions, so its users are told.
func TestARealServerThatIgnoresConditionsIsRefused(t *testing.T) {
	b := newBucketOn(t, testenv.S3Rclone(t))
	s, err := New(b.client, b.name, "scope", nil)
	require.NoError(t, err)
	require.ErrorIs(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}), errors.ErrUnsupported)
	list, err := s.List(t.Context(), memory.Root)
	require.NoError(t, err)
	require.Empty(t, list)
}
