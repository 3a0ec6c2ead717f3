package redisstore

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/internal/testenv"
)

func TestMain(m *testing.M) {
	// A client behind Sentinel looks up a host called "FailoverClient", in the
	// background and for as long as the resolver takes.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func2"),
		goleak.IgnoreAnyFunction("net.(*Resolver).goLookupIPCNAMEOrder.func3.1"),
		goleak.IgnoreAnyFunction("internal/singleflight.(*Group).doCall"))
}

// backend is a server or cluster that a test talks to.
type backend struct {
	private bool // nobody else's: nothing has to be cleaned up
	connect func(w *wire, change func(*redis.UniversalOptions)) redis.UniversalClient
}

func single(t testing.TB) backend {
	return backendOf(&redis.UniversalOptions{Addrs: []string{testenv.Redis(t)}})
}
func cluster(t testing.TB) backend {
	return backendOf(&redis.UniversalOptions{Addrs: testenv.RedisCluster(t), IsClusterMode: true})
}

func backendOf(o *redis.UniversalOptions) backend {
	return backend{connect: func(w *wire, change func(*redis.UniversalOptions)) redis.UniversalClient {
		opts := *o
		opts.Dialer = w.dial
		if change != nil {
			change(&opts)
		}
		return redis.NewUniversalClient(&opts)
	}}
}

// alone marks the backend as private to the test.
func (b backend) alone() backend {
	b.private = true
	return b
}

// onBackends runs a test on one server and on a cluster.
func onBackends(t *testing.T, f func(t *testing.T, b backend)) {
	t.Run("Single", func(t *testing.T) { f(t, single(t)) })
	t.Run("Cluster", func(t *testing.T) { f(t, cluster(t)) })
}

// wires finds the wire of a store.
var wires sync.Map

func wireOf(s sessionstore.SessionStore) *wire {
	w, _ := wires.Load(s)
	return w.(*wire)
}

// open returns a store of its own on the backend. Its keys go with the test.
func (b backend) open(tb testing.TB, o Options, change func(*redis.UniversalOptions)) *Store {
	tb.Helper()
	if o.Prefix == "" {
		o.Prefix = "test-" + rand.Text() + ":"
		if !b.private {
			tb.Cleanup(func() { b.wipe(tb, o.Prefix) })
		}
	}
	w := &wire{}
	client := b.connect(w, change)
	s, err := New(client, &o)
	require.NoError(tb, err)
	wires.Store(s, w)
	tb.Cleanup(func() {
		wires.Delete(s)
		require.NoError(tb, client.Close())
	})
	return s
}

// again opens another handle on the data of s.
func (b backend) again(tb testing.TB, s *Store, o Options, change func(*redis.UniversalOptions)) *Store {
	tb.Helper()
	o.Prefix = s.prefix
	return b.open(tb, o, change)
}

// keys returns all keys that start with a prefix.
func (b backend) keys(tb testing.TB, prefix string) []string {
	tb.Helper()
	client := b.connect(&wire{}, nil)
	defer client.Close()
	s := &Store{client: client}
	var mu sync.Mutex
	var all []string
	require.NoError(tb, s.eachMaster(context.Background(), func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, escapeGlob(prefix)+"*", 1000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			all = append(all, it.Val())
			mu.Unlock()
		}
		return it.Err()
	}))
	return all
}

func (b backend) wipe(tb testing.TB, prefix string) {
	keys := b.keys(tb, prefix)
	client := b.connect(&wire{}, nil)
	defer client.Close()
	pipe := client.Pipeline()
	for _, k := range keys {
		pipe.Unlink(context.Background(), k)
	}
	_, err := pipe.Exec(context.Background())
	require.NoError(tb, err)
}

// harness disturbs the connections of the client. It leaves out all retries, so
// that a lost answer is an error.
func (b backend) harness() conformance.Harness {
	impatient := Options{RetryFor: -1}
	noRetries := func(o *redis.UniversalOptions) { o.MaxRetries, o.MaxRedirects = -1, 3 }
	reopen := func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore {
		return b.again(tb, s.(*Store), impatient, noRetries)
	}
	return conformance.Harness{
		Open:   func(tb testing.TB) sessionstore.SessionStore { return b.open(tb, impatient, noRetries) },
		Reopen: reopen,
		// The store never looks at the clock of its host.
		ReopenBehind: func(tb testing.TB, s sessionstore.SessionStore, _ time.Duration) sessionstore.SessionStore {
			return reopen(tb, s)
		},
		LoseReply: func(_ testing.TB, s sessionstore.SessionStore) { wireOf(s).lose.Store(1) },
		Outage:    func(_ testing.TB, s sessionstore.SessionStore) { wireOf(s).cut(true) },
		Damage: func(tb testing.TB, s sessionstore.SessionStore, key sessionstore.Key) {
			st := s.(*Store)
			require.NoError(tb, st.client.LPop(tb.Context(), st.names(key).list).Err())
		},
		Require: conformance.All | conformance.Handover | conformance.HandoverBehind | conformance.LostReply |
			conformance.Outage | conformance.Damage | conformance.CommitOrder,
		CommitOrder: true,
	}
}

func TestConformance(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) { conformance.Run(t, b.harness()) })
}
