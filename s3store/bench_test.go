package s3store

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/internal/idset"
)

func BenchmarkStore(b *testing.B) {
	conformance.Benchmark(b, newBucket(b).harness(Options{Prefix: "bench/"}))
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

// BenchmarkAppend compares a warm append with one PutObject of the same bytes.
// Where parts are put together in the background, that takes its share of the
// processor from both the client and the server.
func BenchmarkAppend(b *testing.B) {
	back := newBucket(b)
	for _, size := range []int{1, 20} {
		appends := func(o Options) func(b *testing.B) {
			return func(b *testing.B) {
				s := back.store(b, o)
				project := rand.Text()
				benchmarkAppends(b, size, func(session int, batch []sessionstore.Entry) error {
					return s.Append(b.Context(), sessionstore.Key{ProjectKey: project, SessionID: fmt.Sprint("s", session)}, batch)
				})
			}
		}
		b.Run(fmt.Sprintf("%dx2KB/op", size), appends(manual))
		b.Run(fmt.Sprintf("%dx2KB/compacting", size), appends(Options{}))
		b.Run(fmt.Sprintf("%dx2KB/floor", size), func(b *testing.B) {
			s := back.store(b, Options{})
			n := 0
			benchmarkAppends(b, size, func(session int, batch []sessionstore.Entry) error {
				n++
				key := fmt.Sprintf("floor/%d/%d", session, n)
				body := make([]byte, 0, sizeOf(batch)+int64(len(batch)))
				for _, e := range batch {
					body = append(append(body, e...), '\n')
				}
				_, err := s.client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &back.bucket, Key: &key, Body: bytes.NewReader(body)})
				return err
			})
		})
	}
}

func benchmarkAppends(b *testing.B, size int, push func(session int, batch []sessionstore.Entry) error) {
	const perSession = 1000
	batch := benchEntries(size)
	require.NoError(b, push(0, benchEntries(1))) // warm
	b.SetBytes(sizeOf(batch))
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		renumber(batch, n*size)
		if err := push(n/perSession, batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad loads a session after 10,000 appends. The floor fetches the
// same bytes in objects of 8 MiB, as many at a time.
func BenchmarkLoad(b *testing.B) {
	const appends = 10_000
	back := newBucket(b)
	s := back.store(b, Options{})
	batch := benchEntries(1)
	for n := range appends {
		renumber(batch, n)
		require.NoError(b, s.Append(b.Context(), testKey, batch))
	}
	s.jobs.Wait()
	total := (sizeOf(batch) + 1) * appends
	var objects []string
	for left := total; left > 0; left -= min(left, closedSize) {
		name := fmt.Sprint("floor/", len(objects))
		objects = append(objects, name)
		_, err := s.client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &back.bucket, Key: &name, Body: bytes.NewReader(make([]byte, min(left, closedSize)))})
		require.NoError(b, err)
	}
	b.Run("10000x2KB/op", func(b *testing.B) {
		reader := back.store(b, manual)
		b.SetBytes(total)
		b.ReportAllocs()
		loads := 0
		for b.Loop() {
			loads++
			if got, err := reader.Load(b.Context(), testKey); len(got) != appends || err != nil {
				b.Fatal(len(got), err)
			}
		}
		b.ReportMetric(float64(wireOf(reader).reset().total())/float64(loads), "requests/op")
	})
	b.Run("10000x2KB/floor", func(b *testing.B) {
		reader := back.store(b, manual)
		b.SetBytes(total)
		b.ReportAllocs()
		for b.Loop() {
			if err := fetchAll(b.Context(), reader, objects); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("10000x2KB/stream", func(b *testing.B) {
		reader := back.store(b, manual)
		b.SetBytes(total)
		for b.Loop() {
			n := 0
			for _, err := range reader.Stream(b.Context(), testKey) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != appends {
				b.Fatal(n)
			}
		}
	})
}

func fetchAll(ctx context.Context, s *Store, objects []string) error {
	return s.eachOf(ctx, len(objects), func(ctx context.Context, i int) error {
		out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &objects[i]})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		_, err = io.ReadFull(out.Body, make([]byte, *out.ContentLength))
		return err
	})
}

// BenchmarkList lists 10,000 sessions. The floor is the same number of requests
// for directories and for index objects.
func BenchmarkList(b *testing.B) {
	const sessions = 10_000
	back := newBucket(b)
	s := back.store(b, manual)
	require.NoError(b, fillSessions(b.Context(), s, sessions))
	lists := func(b *testing.B, list func(ctx context.Context, s *Store) (int, error)) {
		s := back.store(b, manual)
		n := 0
		for b.Loop() {
			n++
			if got, err := list(b.Context(), s); got != sessions || err != nil {
				b.Fatal(got, err)
			}
		}
		c := wireOf(s).reset()
		b.ReportMetric(float64(c.list)/float64(n), "LISTs/op")
		b.ReportMetric(float64(c.get)/float64(n), "GETs/op")
	}
	b.Run("10000Sessions/op", func(b *testing.B) {
		lists(b, func(ctx context.Context, s *Store) (int, error) {
			got, err := s.ListSessions(ctx, "p")
			return len(got), err
		})
	})
	b.Run("10000Sessions/floor", func(b *testing.B) {
		lists(b, func(ctx context.Context, s *Store) (n int, err error) {
			err = s.eachOf(ctx, 2, func(ctx context.Context, i int) error {
				if i == 0 {
					_, dirs, err := s.listAll(ctx, "p/", true)
					n = len(dirs)
					return err
				}
				_, _, err := s.listAll(ctx, "!index/p/", false)
				return err
			})
			return n, err
		})
	})
	b.Run("10000Summaries/first", func(b *testing.B) {
		for b.Loop() {
			s := back.store(b, manual)
			if got, err := s.ListSessionSummaries(b.Context(), "p"); len(got) != sessions || err != nil {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("10000Summaries/again", func(b *testing.B) {
		lists(b, func(ctx context.Context, s *Store) (int, error) {
			got, err := s.ListSessionSummaries(ctx, "p")
			return len(got), err
		})
	})
}

// fillSessions writes sessions with a part and an index object each.
func fillSessions(ctx context.Context, s *Store, n int) error {
	return s.eachOf(ctx, n, func(ctx context.Context, i int) error {
		key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint("session-", i)}
		name := partName{1_700_000_000_000 + int64(i), 1}
		lines, err := sessionstore.Check(key, []sessionstore.Entry{
			entryOf(`{"type":"user","uuid":"u%d","timestamp":"2026-02-03T04:05:06.789Z","cwd":"/home/user","gitBranch":"main","message":{"role":"user","content":"question %d"}}`, i, i),
			entryOf(`{"type":"custom-title","customTitle":"title of session %d"}`, i),
		})
		if err != nil {
			return err
		}
		var f fields
		kept := withoutRepeats(lines)
		f.add(new(idset.Set), name, foldAll(kept))
		if err := s.putPart(ctx, s.dir(key)+name.String(), bodyOf(kept), ""); err != nil {
			return err
		}
		return s.putIndex(ctx, s.indexObject(key), f.encode(false))
	})
}
