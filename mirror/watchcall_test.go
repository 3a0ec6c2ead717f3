package mirror_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

func copyAll(t *testing.T, m *mirror.Mirror, output string) {
	t.Helper()
	var out strings.Builder
	_, err := m.Reader(strings.NewReader(output)).WriteTo(&out)
	require.NoError(t, err)
}

// slowStream is a store that takes its time between entries.
type slowStream struct {
	*fakeStore
	pause func(n int) time.Duration
}

func (s slowStream) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		n := 0
		for e, err := range s.Store.Stream(ctx, key) {
			n++
			select {
			case <-time.After(s.pause(n)):
			case <-ctx.Done():
				yield(nil, fmt.Errorf("read: %w", ctx.Err()))
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A store that gives no answer when it is read holds up one transcript, and no
// longer than a call may take.
func TestWatchLimitsHowLongItWaitsForWhatTheStoreHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		all := numbered(0, 20)
		write(t, lines(all...), dir, mainFile)
		s := slowStream{newFake(), func(int) time.Duration { return 40 * time.Second }}
		require.NoError(t, s.Append(t.Context(), mainKey, all[:10]))
		opts := &mirror.WatchOptions{Once: true}
		report, err := mirror.Watch(t.Context(), dir, s, opts)
		require.NoError(t, err, "each entry comes in time")
		require.EqualValues(t, 10, report.Entries)

		s.pause = func(n int) time.Duration {
			if n == 5 {
				return time.Hour
			}
			return 0
		}
		start := time.Now()
		_, err = mirror.Watch(t.Context(), dir, s, opts)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no further entry within 1m0s")
		require.LessOrEqual(t, time.Since(start), 2*time.Minute)
	})
}

func TestCallbacksThatPanicDoNotStopTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, lines(user("a"))+"null\n", dir, mainFile)
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n == 1 {
				return errDown
			}
			return nil
		}
		var log strings.Builder
		opts := &mirror.WatchOptions{
			Attempts: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnAppend: func(mirror.WatchAppend) { panic("append") },
			OnSkip:   func(mirror.WatchSkip) { panic("skip") },
			OnError:  func(*mirror.Error) { panic("error") },
		}
		w := watch(t, dir, s, opts)
		time.Sleep(time.Minute)
		require.NoError(t, w.end())
		require.Len(t, load(t, s, mainKey), 1)
		require.Equal(t, 2, s.count(), "what was stored is not taken for a failure")
		for _, name := range []string{"append", "skip", "error"} {
			require.Contains(t, log.String(), name)
		}
	})
}

// A store that ends its goroutine, as a test's FailNow does, has not stored.
func TestAStoreThatEndsItsGoroutineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n%2 == 1 {
				runtime.Goexit()
			}
			return nil
		}
		start := time.Now()
		m := open(t, s, nil)
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.NoError(t, m.Close(t.Context()))
		dir := t.TempDir()
		write(t, lines(user("b")), dir, mainFile)
		once(t, dir, s)
		require.Equal(t, texts(numberless("a", "b")), load(t, s, mainKey))
		require.Less(t, time.Since(start), 10*time.Second)
	})
}

func TestWatchTellsALineThatWasNotFinished(t *testing.T) {
	dir := t.TempDir()
	write(t, lines(user("a"))+"null\n"+`{"type":"us`, dir, mainFile)
	unfinished := map[int64]bool{}
	_, err := mirror.Watch(t.Context(), dir, newFake(), &mirror.WatchOptions{Once: true, OnSkip: func(s mirror.WatchSkip) {
		unfinished[s.Line] = s.Unfinished
	}})
	require.NoError(t, err)
	require.Equal(t, map[int64]bool{2: false, 3: true}, unfinished)
}

// What is long is read for long: only a pause is an error.
func TestKeptBatchesAreDeliveredBehindATranscriptThatIsReadSlowly(t *testing.T) {
	for _, replay := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			pause := 40 * time.Second
			s := slowStream{newFake(), func(int) time.Duration { return pause }}
			require.NoError(t, s.Append(t.Context(), mainKey, numbered(0, 10)))
			spill, down := t.TempDir(), true
			s.before = func(context.Context, sessionstore.Key, int) error {
				if down {
					return errDown
				}
				return nil
			}
			m := open(t, s, &mirror.Options{Spill: spill})
			require.NoError(t, m.Frame(mainPath, numbered(10, 12)))
			require.Error(t, m.Flush(t.Context()))
			if replay {
				require.Error(t, m.Close(t.Context()))
			}
			down = false
			pause = time.Hour
			if replay {
				_, err := mirror.Replay(t.Context(), spill, s, nil)
				require.ErrorContains(t, err, "no further entry")
				pause = 40 * time.Second
				_, err = mirror.Replay(t.Context(), spill, s, nil)
				require.NoError(t, err)
			} else {
				time.Sleep(time.Minute) // until the files are due
				require.NoError(t, m.Frame(mainPath, numbered(12, 13)))
				require.ErrorContains(t, m.Flush(t.Context()), "no further entry")
				require.EqualValues(t, 1, m.Stats().Timeouts)
				pause = 40 * time.Second
				require.NoError(t, m.Close(t.Context()))
			}
			want := numbered(0, 12)
			if !replay {
				want = numbered(0, 13)
			}
			require.Equal(t, texts(want), load(t, s, mainKey))
		})
	}
}

func TestWatchTellsOfEachThingThatItPassesOverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i := range 1100 { // more than a mirror remembers of foreign paths
			write(t, "", dir, fmt.Sprintf("no-transcript-%d.jsonl", i))
		}
		told := 0
		w := watch(t, dir, newFake(), &mirror.WatchOptions{OnSkip: func(mirror.WatchSkip) { told++ }})
		time.Sleep(time.Minute)
		require.NoError(t, w.end())
		require.Equal(t, 1100, told)
		require.EqualValues(t, 1100, w.report.Skipped)
	})
}

func TestReplayEndsThoughACallOfTheStoreDoesNot(t *testing.T) {
	for _, loads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			dir := keep(t, s, 0, entries(user("u")), entries(user("a"), mode("m")))
			release := make(chan struct{})
			hang := func(sessionstore.Key) { <-release }
			var store sessionstore.SessionStore = hangingLoad{s, hang}
			if !loads {
				store = s
				s.before = func(_ context.Context, key sessionstore.Key, _ int) error { hang(key); return nil }
			}
			start := time.Now()
			_, err := mirror.Replay(t.Context(), dir, store, nil)
			require.ErrorContains(t, err, "has not returned")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(start), 70*time.Second)
			_, err = mirror.Replay(t.Context(), dir, store, nil)
			require.ErrorIs(t, err, mirror.ErrBusy, "what comes behind it must not overtake it")
			close(release)
			synctest.Wait()
			_, err = mirror.Replay(t.Context(), dir, store, nil)
			require.NoError(t, err)
			require.Equal(t, texts(entries(user("u"), user("a"), mode("m"))), load(t, s, mainKey))
		})
	}
}

func TestPanicOfTheStoreIsAnErrorOfReplay(t *testing.T) {
	s := newFake()
	dir := keep(t, s, 0, entries(user("u")), entries(user("a")))
	s.before = func(context.Context, sessionstore.Key, int) error { panic("oops") }
	_, err := mirror.Replay(t.Context(), dir, s, nil)
	require.ErrorContains(t, err, "panic: oops")
	s.before = nil
	_, err = mirror.Replay(t.Context(), dir, s, nil)
	require.NoError(t, err)
	require.Len(t, load(t, s, mainKey), 2)
}
