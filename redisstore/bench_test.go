package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
)

func BenchmarkStore(b *testing.B) { conformance.Benchmark(b, single(b).harness()) }

// eachBackend runs a benchmark on a server with appendfsync always, on one
// without persistence, and on a cluster.
func eachBackend(b *testing.B, f func(b *testing.B, back backend)) {
	f(b, single(b))
	b.Run("NoAOF", func(b *testing.B) { f(b, startServer(b).backend()) })
	b.Run("Cluster", func(b *testing.B) { f(b, cluster(b)) })
}

func benchEntries(n int) []sessionstore.Entry {
	batch := make([]sessionstore.Entry, n)
	for i := range batch {
		batch[i] = sessionstore.Entry(fmt.Sprintf(`{"uuid":"%036d","type":"assistant","sessionId":"5f0c9e0e-0000-4000-8000-000000000000",`+
			`"timestamp":"2026-02-03T04:05:06.789Z","cwd":"/home/user/project","gitBranch":"main","message":{"role":"assistant","content":"%s"}}`,
			i, strings.Repeat(`some text \"of\" an agent\n`, 66)))
	}
	return batch
}

func renumber(batch []sessionstore.Entry, from int) {
	for i, e := range batch {
		copy(e[len(`{"uuid":"`):], fmt.Sprintf("%036d", from+i))
	}
}

func sizeOf(batch []sessionstore.Entry) (n int64) {
	for _, e := range batch {
		n += int64(len(e))
	}
	return n
}

// BenchmarkAppend compares an append with one RPUSH of the same bytes.
func BenchmarkAppend(b *testing.B) {
	eachBackend(b, func(b *testing.B, back backend) {
		b.Run("20x2KB/op", func(b *testing.B) {
			s := back.open(b, Options{}, nil)
			key := func(n int) sessionstore.Key { return sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint("s", n)} }
			benchmarkPushes(b, func(session int, batch []sessionstore.Entry) error {
				return s.Append(b.Context(), key(session), batch)
			}, func(session int) error { return s.Delete(b.Context(), key(session)) })
		})
		b.Run("20x2KB/floor", func(b *testing.B) {
			s := back.open(b, Options{}, nil)
			benchmarkPushes(b, func(session int, batch []sessionstore.Entry) error {
				args := make([]any, len(batch))
				for i, e := range batch {
					args[i] = []byte(e)
				}
				return s.client.RPush(b.Context(), fmt.Sprint(s.prefix, session), args...).Err()
			}, func(session int) error { return s.client.Unlink(b.Context(), fmt.Sprint(s.prefix, session)).Err() })
		})
	})
}

func benchmarkPushes(b *testing.B, push func(session int, batch []sessionstore.Entry) error, drop func(session int) error) {
	const perSession = 250
	batch := benchEntries(20)
	b.SetBytes(sizeOf(batch))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		renumber(batch, n*len(batch))
		if n%perSession == 0 && n > 0 {
			b.StopTimer()
			require.NoError(b, drop(n/perSession-1))
			b.StartTimer()
		}
		if err := push(n/perSession, batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad compares a load with LRANGE of the whole list.
func BenchmarkLoad(b *testing.B) {
	eachBackend(b, func(b *testing.B, back backend) {
		s := back.open(b, Options{}, nil)
		key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
		batch := benchEntries(100)
		for n := 0; n < 5000; n += len(batch) {
			renumber(batch, n)
			require.NoError(b, s.Append(b.Context(), key, batch))
		}
		read := func(f func(ctx context.Context) (int, error)) func(b *testing.B) {
			return func(b *testing.B) {
				b.SetBytes(sizeOf(batch) * 50)
				b.ReportAllocs()
				for b.Loop() {
					if n, err := f(b.Context()); n != 5000 || err != nil {
						b.Fatal(n, err)
					}
				}
			}
		}
		b.Run("5000x2KB/op", read(func(ctx context.Context) (int, error) {
			got, err := s.Load(ctx, key)
			return len(got), err
		}))
		b.Run("5000x2KB/floor", read(func(ctx context.Context) (int, error) {
			got, err := s.client.LRange(ctx, s.names(key).list, 0, -1).Result()
			return len(got), err
		}))
		b.Run("5000x2KB/stream", read(func(ctx context.Context) (int, error) {
			n := 0
			for _, err := range s.Stream(ctx, key) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}))
	})
}

// BenchmarkList lists 10,000 sessions with titles. The floor reads as many
// values with one MGET.
func BenchmarkList(b *testing.B) {
	eachBackend(b, func(b *testing.B, back backend) {
		const sessions = 10_000
		s := back.open(b, Options{}, nil)
		require.NoError(b, fill(b.Context(), s, sessions))
		b.Run("10000Sessions/op", func(b *testing.B) {
			for b.Loop() {
				got, err := s.ListSessionSummaries(b.Context(), "p")
				if len(got) != sessions || err != nil {
					b.Fatal(len(got), err)
				}
			}
		})
		b.Run("10000Sessions/floor", func(b *testing.B) {
			for b.Loop() {
				pipe := s.client.Pipeline()
				for n := range sessions {
					pipe.HGet(b.Context(), s.metaKey("p", fmt.Sprint("session-", n)), "s")
				}
				if _, err := pipe.Exec(b.Context()); err != nil && err != redis.Nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// fill writes sessions with a prompt and a title, by several writers at once.
func fill(ctx context.Context, s *Store, sessions int) error {
	errs := make(chan error)
	const writers = 8
	for w := range writers {
		go func() {
			var err error
			for n := w; n < sessions && err == nil; n += writers {
				key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint("session-", n)}
				err = s.Append(ctx, key, []sessionstore.Entry{
					sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"u%d","timestamp":"2026-02-03T04:05:06.789Z","cwd":"/home/user","gitBranch":"main","message":{"role":"user","content":"question %d"}}`, n, n)),
					sessionstore.Entry(fmt.Sprintf(`{"type":"custom-title","customTitle":"title of session %d"}`, n)),
				})
			}
			errs <- err
		}()
	}
	var first error
	for range writers {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}
