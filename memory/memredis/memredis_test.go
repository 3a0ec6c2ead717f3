package memredis

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func single(tb testing.TB) redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: testenv.Redis(tb)})
}

func cluster(tb testing.TB) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(tb)})
}

// place is where the stores of one test are.
type place struct {
	client redis.UniversalClient
	prefix string
	scopes map[string]bool
}

func newPlace(tb testing.TB, client func(tb testing.TB) redis.UniversalClient) *place {
	p := &place{client: client(tb), prefix: "test:" + rand.Text() + ":", scopes: map[string]bool{}}
	tb.Cleanup(func() {
		for key := range p.scopes {
			_ = p.client.Unlink(context.Background(), key, key+":ops").Err()
		}
		p.client.Close()
	})
	return p
}

func (p *place) open(scope string) (*Store, error) {
	s, err := New(p.client, scope, &Options{Prefix: p.prefix})
	if err == nil {
		p.scopes[s.key] = true
	}
	return s, err
}

func harness(client func(tb testing.TB) redis.UniversalClient) memorytest.Harness {
	places := map[testing.TB]*place{}
	placeOf := func(tb testing.TB) *place {
		if places[tb] == nil {
			places[tb] = newPlace(tb, client)
		}
		return places[tb]
	}
	reopen := func(tb testing.TB, s memory.Store) *Store {
		other, err := placeOf(tb).open(s.(*Store).scope)
		require.NoError(tb, err)
		return other
	}
	return memorytest.Harness{
		Open: func(tb testing.TB, scope string) (memory.Store, error) {
			s, err := placeOf(tb).open(scope)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Reopen: func(tb testing.TB, s memory.Store) memory.Store { return reopen(tb, s) },
		Later: func(tb testing.TB, s memory.Store, d time.Duration) memory.Store {
			later := reopen(tb, s)
			later.now = func() time.Time { return time.Now().Add(d) }
			return later
		},
		Outage: func(tb testing.TB, s memory.Store) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
			tb.Cleanup(func() { client.Close() })
			s.(*Store).client, s.(*Store).retryFor = client, -1
		},
		Require: memorytest.All,
	}
}

func TestConformance(t *testing.T) {
	t.Run("Single", func(t *testing.T) { memorytest.Run(t, harness(single)) })
	t.Run("Cluster", func(t *testing.T) {
		h := harness(cluster)
		h.Short = true
		memorytest.Run(t, h)
	})
}

// swallow makes replies get lost after the command was carried out.
type swallow struct {
	redis.Hook
	left int
}

func (h *swallow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if h.left > 0 && err == nil {
			h.left--
			err = errors.New("connection reset by peer")
			cmd.SetErr(err)
		}
		return err
	}
}
func (h *swallow) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *swallow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAChangeWhoseReplyIsLostCountsOnce(t *testing.T) {
	p := newPlace(t, single)
	s, err := p.open("scope")
	require.NoError(t, err)
	ctx := t.Context()
	hook := &swallow{}
	p.client.AddHook(hook)
	require.NoError(t, s.Write(ctx, "/memories/warm", nil, "", memory.Limits{}))

	hook.left = 2
	require.NoError(t, s.Write(ctx, "/memories/d/f", []byte("1"), "", memory.Limits{Files: 2}))
	f, err := s.Read(ctx, "/memories/d/f", 0)
	require.NoError(t, err)
	hook.left = 1
	require.NoError(t, s.Write(ctx, "/memories/d/f", []byte("2"), f.Version, memory.Limits{}))
	hook.left = 1
	require.NoError(t, s.Rename(ctx, "/memories/d", "/memories/e"))
	hook.left = 1
	require.NoError(t, s.Delete(ctx, "/memories/e"))
	list, err := s.List(ctx, memory.Root)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestAnEditWhoseReplyIsLostIsNotUndoneByTheNext(t *testing.T) {
	p := newPlace(t, single)
	s, err := p.open("scope")
	require.NoError(t, err)
	other, err := New(single(t), "scope", &Options{Prefix: p.prefix})
	require.NoError(t, err)
	defer other.client.Close()
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", []byte("1"), "", memory.Limits{}))
	f, err := s.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	// Between the attempt whose reply is lost and the next, others edit a lot.
	p.client.AddHook(&meddle{func() {
		g, err := other.Read(ctx, "/memories/f", 0)
		require.NoError(t, err)
		require.NoError(t, other.Write(ctx, "/memories/f", append(g.Data, '3'), g.Version, memory.Limits{}))
		for range 400 {
			require.NoError(t, other.Write(ctx, "/memories/g", nil, "", memory.Limits{}))
			require.NoError(t, other.Delete(ctx, "/memories/g"))
		}
	}})
	require.NoError(t, s.Write(ctx, "/memories/f", []byte("12"), f.Version, memory.Limits{}))
	f, err = other.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	require.Equal(t, "123", string(f.Data))
}

type meddle struct{ f func() }

func (h *meddle) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if f := h.f; f != nil && err == nil {
			h.f = nil
			f()
			err = errors.New("connection reset by peer")
			cmd.SetErr(err)
		}
		return err
	}
}
func (h *meddle) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *meddle) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAFileIsAnOrdinaryField(t *testing.T) {
	p := newPlace(t, single)
	s, err := p.open("user 1")
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), "/memories/notes.md", []byte("text"), "", memory.Limits{}))
	got, err := p.client.HGet(t.Context(), p.prefix+"{user!201}", "/memories/notes.md").Result()
	require.NoError(t, err)
	require.Equal(t, "text", got)
	require.NoError(t, s.Delete(t.Context(), "/memories/notes.md"))
	left, err := p.client.HKeys(t.Context(), s.key).Result()
	require.NoError(t, err)
	require.Equal(t, []string{"v"}, left)
	ttl, err := p.client.TTL(t.Context(), s.key+":ops").Result()
	require.NoError(t, err)
	require.Positive(t, ttl)
}

func TestLaterFormatsAndLostPartsAreErrors(t *testing.T) {
	p := newPlace(t, single)
	s, err := p.open("scope")
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", []byte("text"), "", memory.Limits{}))
	require.NoError(t, p.client.HSet(ctx, s.key, "/memories/f", "cut").Err())
	_, err = s.Read(ctx, "/memories/f", 0)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.NoError(t, p.client.HDel(ctx, s.key, "/memories/f").Err())
	_, err = s.Read(ctx, "/memories/f", 0)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.NoError(t, p.client.HSet(ctx, s.key, "v", "2").Err())
	_, err = s.Read(ctx, "/memories/g", 0)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.ErrorIs(t, s.Write(ctx, "/memories/g", nil, "", memory.Limits{}), sessionstore.ErrCorrupt)
}

func TestNewRefuses(t *testing.T) {
	_, err := New(nil, "scope", nil)
	require.ErrorContains(t, err, "the client is nil")
	client := single(t)
	defer client.Close()
	_, err = New(client, "", nil)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	_, err = New(client, "scope", &Options{Prefix: "{a}"})
	require.ErrorContains(t, err, "brace")
}
