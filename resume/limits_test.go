package resume_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

// The context ends at the k-th thing that the store does, for every k.
func TestCancellationAtAnyMomentLeavesNothing(t *testing.T) {
	for k := 1; ; k++ {
		h := newHome(t)
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		store := &hooked{Store: filled(t), before: func(context.Context, string) error {
			if calls.Add(1) == int64(k) {
				cancel()
			}
			return nil
		}}
		opts := h.options()
		opts.SessionID, opts.Continue, opts.Concurrency = "", true, 1
		s, err := resume.Materialize(ctx, store, opts)
		cancel()
		if calls.Load() < int64(k) {
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.Greater(t, k, 10, "the test has seen every call")
			return
		}
		require.ErrorIs(t, err, context.Canceled, "k=%d", k)
		require.Nil(t, s)
		h.requireNothingLeft()
	}
}

func TestACancelledContextCallsNothing(t *testing.T) {
	h := newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := resume.Materialize(ctx, filled(t), h.options())
	require.ErrorIs(t, err, context.Canceled)
	h.requireNothingLeft()
}

// 207 subagents of 500 KB each, and 50 ms for every call.
func TestManySubagentsAreReadSeveralAtATime(t *testing.T) {
	const n, size = 207, 500_000
	line := sessionstore.Entry(`{"type":"user","text":"` + strings.Repeat("x", 10_000-25) + `"}`)
	store := inmemory.New()
	put(t, store, mainKey, entry(1))
	for i := range n {
		list := make([]sessionstore.Entry, size/len(line))
		for j := range list {
			list[j] = line
		}
		put(t, store, sub(fmt.Sprintf("subagents/agent-%d", i)), list...)
	}
	for _, concurrency := range []int{0, 3} {
		h := newHome(t)
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			slow := &slowStore{Store: store, wait: func() {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(50 * time.Millisecond)
				now.Add(-1)
			}}
			opts := h.options()
			opts.Concurrency = concurrency
			start := time.Now()
			s, err := resume.Materialize(t.Context(), slow, opts)
			require.NoError(t, err)
			workers := int64(concurrency)
			if workers == 0 {
				workers = resume.DefaultConcurrency
			}
			require.Equal(t, workers, most.Load())
			rounds := (n + int(workers) - 1) / int(workers)
			require.Equal(t, time.Duration(2+rounds)*50*time.Millisecond, time.Since(start), "the clock is synctest's")
			require.NoError(t, s.Close())
		})
		h.requireNothingLeft()
	}
}

type slowStore struct {
	*inmemory.Store
	wait func()
}

func (s *slowStore) ListSubkeys(ctx context.Context, p, id string) ([]string, error) {
	s.wait()
	return s.Store.ListSubkeys(ctx, p, id)
}

func (s *slowStore) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		s.wait()
		s.Store.Stream(ctx, key)(yield)
	}
}

// Every call of the store has a limit, whether or not the store minds contexts.
func TestACallThatHangsEndsAtTheLimit(t *testing.T) {
	for _, what := range []string{"list sessions", "stream ", "entry ", "list subkeys", "stream subagents/agent-1", "entry subagents/agent-1"} {
		for _, minds := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", what, minds), func(t *testing.T) {
				h := newHome(t)
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					store := &hooked{Store: filled(t), before: func(ctx context.Context, w string) error {
						if w != what {
							return nil
						}
						if !minds {
							<-release
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					}}
					opts := h.options()
					opts.SessionID, opts.Continue = "", true
					start := time.Now()
					_, err := resume.Materialize(t.Context(), store, opts)
					took := time.Since(start)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, "within 1m0s")
					require.GreaterOrEqual(t, took, resume.DefaultCallTimeout)
					require.LessOrEqual(t, took, resume.DefaultCallTimeout+2*resume.Grace)
					h.requireNothingLeft()
					close(release)
					synctest.Wait() // what was left behind ends when the store returns
				})
			})
		}
	}
}

// A transcript may take longer than the limit as long as entries come.
func TestASlowStreamIsNoHangingOne(t *testing.T) {
	h := newHome(t)
	synctest.Test(t, func(t *testing.T) {
		store := inmemory.New()
		for i := range 10 {
			put(t, store, mainKey, entry(i))
		}
		s, err := resume.Materialize(t.Context(), &hooked{Store: store, before: func(_ context.Context, what string) error {
			if what == "entry " {
				time.Sleep(59 * time.Second)
			}
			return nil
		}}, h.options())
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}

// The time that a slow disk takes is not the store's.
func TestASlowReaderIsNoHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, n := inmemory.New(), 0
		for i := range 1000 {
			put(t, store, mainKey, entry(i))
		}
		for _, err := range resume.Limited(store, time.Second).Stream(t.Context(), mainKey) {
			require.NoError(t, err)
			if n++; n%100 == 0 {
				time.Sleep(time.Minute)
			}
		}
		require.Equal(t, 1000, n)
	})
}

func TestRemovingIsTriedAgain(t *testing.T) {
	busy := errors.New("device or resource busy")
	for name, failures := range map[string]int{"a little": 3, "always": 1000} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				on := resume.NewMachine("linux", "", func(dir string) error {
					if tries++; tries <= failures {
						return busy
					}
					return os.RemoveAll(dir)
				})
				s, err := resume.MaterializeOn(t.Context(), filled(t), h.options(), on)
				require.NoError(t, err)
				err = s.Close()
				if failures > 100 {
					require.ErrorIs(t, err, busy)
					require.ErrorContains(t, err, s.ConfigDir)
					require.Equal(t, resume.RemoveTries, tries)
					failures = 0
				}
				require.NoError(t, s.Close(), "Close tries again")
				require.NoError(t, s.Close())
			})
			h.requireNothingLeft()
		})
	}
}

func TestARemovalThatFailsAfterAnErrorIsReported(t *testing.T) {
	h := newHome(t)
	broken, busy := errors.New("broken"), errors.New("busy")
	synctest.Test(t, func(t *testing.T) {
		_, err := resume.MaterializeOn(t.Context(), &hooked{Store: filled(t), before: func(context.Context, string) error { return broken }},
			h.options(), resume.NewMachine("linux", "", func(string) error { return busy }))
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, busy)
		require.ErrorContains(t, err, h.temp)
	})
}

func TestCloseByManyAtOnce(t *testing.T) {
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h.requireNothingLeft()
}

// madeUp is a session of any size that lies nowhere.
type madeUp struct {
	onlyMain
	bytes    int
	subpaths []string
	live     *atomic.Int64 // the largest heap seen
	before   uint64
}

func (m madeUp) ListSubkeys(context.Context, string, string) ([]string, error) {
	return m.subpaths, nil
}

func (m madeUp) Stream(_ context.Context, _ sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		text := strings.Repeat("some words ", 200)
		measured := 0
		for n, i := 0, 0; n < m.bytes; i++ {
			e := sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"%d","text":"%s"}`, i, text))
			n += len(e)
			if n > measured {
				measured += m.bytes / 8
				m.measure()
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m madeUp) measure() {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	grown := int64(s.HeapAlloc) - int64(m.before)
	for old := m.live.Load(); grown > old && !m.live.CompareAndSwap(old, grown); old = m.live.Load() {
	}
}

func TestMemoryDoesNotGrowWithTheSession(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 256 MB")
	}
	h := newHome(t)
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m := madeUp{bytes: 64 << 20, subpaths: []string{"a", "b", "c"}, live: new(atomic.Int64), before: s.HeapAlloc}
	got, err := resume.Materialize(t.Context(), m, h.options())
	require.NoError(t, err)
	require.NoError(t, got.Close())
	t.Logf("%d KiB", m.live.Load()>>10)
	require.Less(t, m.live.Load(), int64(32<<20))
}
