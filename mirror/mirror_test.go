package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

func TestFramesOfOneFileBecomeOneAppendAtAFlush(t *testing.T) {
	s := newFake()
	m := open(t, s, nil)
	require.NoError(t, m.Frame(mainPath, numbered(0, 2)))
	require.NoError(t, m.Frame(subPath, entries(metadata("a"))))
	require.NoError(t, m.Frame(mainPath, numbered(2, 3)))
	require.Zero(t, s.count(), "nothing is appended before a flush")
	require.NoError(t, m.Flush(t.Context()))
	require.Equal(t, [][]string{texts(numbered(0, 3))}, s.batches(mainKey))
	require.Equal(t, [][]string{{string(metadata("a"))}}, s.batches(subKey))
	require.NoError(t, m.Flush(t.Context()))
	require.Equal(t, 2, s.count(), "an empty flush appends nothing")
	require.NoError(t, m.Close(t.Context()))
}

func TestEagerModeAppendsEveryFrameByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(time.Second); return nil }
		m := open(t, s, &mirror.Options{Mode: mirror.Eager})
		for i := range 10 {
			require.NoError(t, m.Frame(mainPath, numbered(i*2, i*2+2)))
		}
		synctest.Wait()
		require.Equal(t, 1, s.count(), "the first is under way without a flush")
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, s.batches(mainKey), 10)
		require.Equal(t, texts(numbered(0, 20)), load(t, s, mainKey))
		require.False(t, s.overlap)
	})
}

func TestLimitsStartAnAppendWithoutAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		m := open(t, s, &mirror.Options{MaxEntries: 10, MaxBytes: 1000})
		require.NoError(t, m.Frame(mainPath, numbered(0, 6)))
		require.NoError(t, m.Frame(subPath, numbered(0, 4)))
		synctest.Wait()
		require.Zero(t, s.count(), "the limit is reached but not exceeded")
		require.NoError(t, m.Frame(mainPath, numbered(6, 7)))
		synctest.Wait()
		require.Equal(t, 2, s.count(), "what is pending is appended, whatever its key")
		require.NoError(t, m.Frame(mainPath, entries(mode(strings.Repeat("x", 1000)))))
		synctest.Wait()
		require.Equal(t, 3, s.count())
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestFailedAppendIsTriedThreeTimesInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		var log errorLog
		opts := log.options()
		m := open(t, s, &opts)
		start := time.Now()
		require.NoError(t, m.Frame(mainPath, entries(user("a"), mode("b"))))
		err := m.Flush(t.Context())
		var given *mirror.Error
		require.ErrorAs(t, err, &given)
		require.ErrorIs(t, err, errDown)
		require.Len(t, s.calls, 3)
		require.Equal(t, 200*time.Millisecond, s.calls[1].at.Sub(start))
		require.Equal(t, time.Second, s.calls[2].at.Sub(start))
		require.Len(t, log.all(), 1)
		require.Same(t, given, log.errs[0])
		require.Equal(t, mainKey, given.Key)
		require.Equal(t, 3, given.Attempts)
		require.Equal(t, texts(entries(user("a"), mode("b"))), texts(given.Entries))
		require.True(t, m.Failed())

		s.before = nil // the agent goes on, and so does the mirror
		require.NoError(t, m.Frame(mainPath, entries(user("c"))))
		var loss *mirror.LossError
		require.ErrorAs(t, m.Close(t.Context()), &loss)
		require.Equal(t, []string{string(user("c"))}, load(t, s, mainKey))
		require.Equal(t, mainKey, loss.Losses[0].Key)
		require.Equal(t, 2, loss.Losses[0].Entries)
		require.ErrorContains(t, loss, "2 entries: store is down")
		require.ErrorIs(t, loss, errDown)
		require.Same(t, m.Close(t.Context()), error(loss), "closing again says the same")
	})
}

func TestLostReplyStoresTheBatchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.AfterAppend = func(context.Context, sessionstore.Key) error { // the reply is lost
			if s.count() < 3 {
				return errDown
			}
			return nil
		}
		m := open(t, s, nil)
		require.NoError(t, m.Frame(mainPath, entries(mode("a"), mode("a"))))
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 2)
		require.EqualValues(t, 2, m.Stats().Retries)
	})
}

func TestTimedOutCallIsTriedAgainOnceItHasReturned(t *testing.T) {
	for _, noRetry := range []bool{false, true} {
		t.Run(fmt.Sprint("NoRetryAfterTimeout=", noRetry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake()
				s.before = func(ctx context.Context, _ sessionstore.Key, n int) error {
					if n == 1 {
						<-ctx.Done()
						time.Sleep(time.Second) // it returns a little later
						return ctx.Err()
					}
					return nil
				}
				m := open(t, s, &mirror.Options{NoRetryAfterTimeout: noRetry})
				start := time.Now()
				require.NoError(t, m.Frame(mainPath, entries(user("a"))))
				err := m.Flush(t.Context())
				require.EqualValues(t, 1, m.Stats().Timeouts)
				require.False(t, s.overlap)
				if noRetry {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Len(t, s.calls, 1)
				} else {
					require.NoError(t, err)
					require.Equal(t, 61*time.Second+200*time.Millisecond, s.calls[1].at.Sub(start))
				}
				_ = m.Close(t.Context())
			})
		})
	}
}

func TestCallThatNeverReturnsDoesNotStopTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.late = true
		release := make(chan struct{})
		s.before = func(_ context.Context, key sessionstore.Key, n int) error {
			if n == 1 {
				<-release // it ignores its context
			}
			return nil
		}
		var log errorLog
		opts := log.options()
		m := open(t, s, &opts)
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.Error(t, m.Flush(t.Context()))
		require.NoError(t, m.Frame(subPath, entries(user("x"))))
		require.NoError(t, m.Flush(t.Context()), "other keys go on")
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		require.Error(t, m.Flush(t.Context()), "the key waits for the call, but not for ever")
		require.Len(t, s.batches(mainKey), 1)
		require.NoError(t, m.Frame(mainPath, entries(user("c"))))
		time.AfterFunc(time.Second, func() { close(release) })
		require.NoError(t, m.Flush(t.Context()))
		require.False(t, s.overlap)
		require.Equal(t, texts(entries(user("a"), user("c"))), load(t, s, mainKey))
		require.Len(t, log.all(), 2)
		require.Error(t, m.Close(t.Context()))
	})
}

func TestKeysAreAppendedInParallelWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(time.Second); return nil }
		m := open(t, s, &mirror.Options{Concurrency: 3})
		start := time.Now()
		for i := range 7 {
			path := fmt.Sprintf("%s/%s/%s/subagents/agent-%d.jsonl", projectsDir, project, session, i)
			require.NoError(t, m.Frame(path, entries(user("a"))))
		}
		require.NoError(t, m.Flush(t.Context()))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 3, s.most)
		require.NoError(t, m.Close(t.Context()))
	})
}

// 10,000 frames come in 10 ms, faster than any store takes them.
func TestBurstIntoASlowStoreLosesNothing(t *testing.T) {
	for _, mode := range []mirror.Mode{mirror.Batched, mirror.Eager} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(50 * time.Millisecond); return nil }
			m := open(t, s, &mirror.Options{Mode: mode})
			var want []string
			for i := range 10_000 {
				e := user(fmt.Sprintf("u%d", i))
				want = append(want, string(e))
				require.NoError(t, m.Frame([]string{mainPath, subPath}[i%2], entries(e)))
				time.Sleep(time.Microsecond)
			}
			require.NoError(t, m.Close(t.Context()))
			for k, key := range []sessionstore.Key{mainKey, subKey} {
				var mine []string
				for i := k; i < len(want); i += 2 {
					mine = append(mine, want[i])
				}
				require.Equal(t, mine, load(t, s, key))
			}
			require.False(t, s.overlap)
			if mode == mirror.Eager {
				require.Equal(t, 10_000, s.count())
			} else {
				require.Less(t, s.count(), 100)
				for _, c := range s.calls {
					require.LessOrEqual(t, len(c.entries), mirror.DefaultMaxEntries+1)
				}
			}
		})
	}
}

func TestFrameWaitsWhenMemoryIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(time.Second); return nil }
		m := open(t, s, &mirror.Options{MaxPending: 10_000, MaxBytes: 1 << 30, MaxEntries: 1 << 30})
		large := mode(strings.Repeat("x", 3000))
		start := time.Now()
		for range 3 {
			require.NoError(t, m.Frame(mainPath, entries(large)))
		}
		require.Zero(t, time.Since(start))
		require.NoError(t, m.Frame(mainPath, entries(large)))
		require.Equal(t, time.Second, time.Since(start), "the fourth waited for an append")
		require.NoError(t, m.Frame(subPath, entries(mode(strings.Repeat("x", 50_000)))))
		require.Equal(t, 2*time.Second, time.Since(start), "one larger than the bound is taken alone")
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 4)
		require.Zero(t, m.Stats().PendingBytes)
	})
}

func TestUnusableEntryIsReportedAndTheRestAppended(t *testing.T) {
	var log errorLog
	opts := log.options()
	s := newFake()
	m := open(t, s, &opts)
	bad := entries(
		user("a"), sessionstore.Entry("null"), sessionstore.Entry(`{"a":"`+"\xff"+`"}`), user("b"),
		sessionstore.Entry(`{"a":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+`}`), user("c"), nil)
	require.NoError(t, m.Frame(mainPath, bad))
	require.ErrorIs(t, m.Flush(t.Context()), sessionstore.ErrInvalidEntry)
	require.Equal(t, texts(entries(user("a"), user("b"), user("c"))), load(t, s, mainKey))
	require.Len(t, log.all(), 4)
	for _, e := range log.all() {
		require.ErrorIs(t, e, sessionstore.ErrInvalidEntry)
		require.Len(t, e.Entries, 1)
	}
	require.EqualValues(t, 4, m.Stats().Unusable)
	require.Zero(t, m.Stats().Retries, "the same batch would be refused again")
	require.Error(t, m.Close(t.Context()))
}

// refusing is a store with a rule of its own.
type refusing struct{ *inmemory.Store }

func (s refusing) Append(ctx context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	for _, e := range list {
		if e.UUID() == "u7" {
			return fmt.Errorf("%w: unlucky", sessionstore.ErrInvalidEntry)
		}
	}
	return s.Store.Append(ctx, key, list)
}

func TestEntryThatOnlyThisStoreRefusesIsFound(t *testing.T) {
	var log errorLog
	opts := log.options()
	s := refusing{inmemory.New()}
	m := open(t, s, &opts)
	require.NoError(t, m.Frame(mainPath, numbered(0, 20)))
	require.Error(t, m.Close(t.Context()))
	require.Equal(t, texts(append(numbered(0, 7), numbered(8, 20)...)), load(t, s, mainKey))
	require.Len(t, log.all(), 1)
	require.Equal(t, "u7", log.errs[0].Entries[0].UUID())
}

func TestKeyThatTheStoreRefusesIsNotTriedAgain(t *testing.T) {
	s := newFake()
	s.before = func(context.Context, sessionstore.Key, int) error {
		return fmt.Errorf("%w: this disk folds case", sessionstore.ErrInvalidKey)
	}
	m := open(t, s, nil)
	require.NoError(t, m.Frame(mainPath, entries(user("a"))))
	require.ErrorIs(t, m.Close(t.Context()), sessionstore.ErrInvalidKey)
	require.Equal(t, 1, s.count())
}

func TestPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n <= 4 {
				panic("oops")
			}
			return nil
		}
		m := open(t, s, &mirror.Options{
			OnError:   func(*mirror.Error) { panic("callback") },
			OnForeign: func(*mirror.ForeignError) { panic("callback") },
			OnAppend:  func(mirror.AppendInfo) { panic("callback") },
		})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.ErrorContains(t, m.Flush(t.Context()), "panic: oops")
		require.Error(t, m.Frame("/elsewhere/x.jsonl", nil))
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		require.NoError(t, m.Flush(t.Context()))
		require.Equal(t, []string{string(user("b"))}, load(t, s, mainKey))
		require.EqualValues(t, 4+1+1+5, m.Stats().Panics)
		require.Error(t, m.Close(t.Context()))
	})
}

func TestFlushEndsWithItsContextAndTheAppendGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(time.Minute / 2); return nil }
		m := open(t, s, nil)
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, m.Flush(ctx), context.DeadlineExceeded)
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 1)
	})
}

func TestCloseNamesWhatCouldNotBeDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(ctx context.Context, key sessionstore.Key, _ int) error {
			if key == subKey {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Mode: mirror.Eager})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		for i := range 5 {
			require.NoError(t, m.Frame(subPath, numbered(i, i+1)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := m.Close(ctx)
		require.Less(t, time.Since(start), 5*time.Second)
		var loss *mirror.LossError
		require.ErrorAs(t, err, &loss)
		require.Len(t, loss.Losses, 1)
		require.Equal(t, subKey, loss.Losses[0].Key)
		require.Equal(t, 5, loss.Losses[0].Entries)
		require.ErrorIs(t, m.Frame(mainPath, entries(user("b"))), mirror.ErrClosed)
		require.Equal(t, []string{string(user("a"))}, load(t, s, mainKey))
	})
}

func TestCloseEndsAFrameThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(ctx context.Context, _ sessionstore.Key, _ int) error { <-ctx.Done(); return ctx.Err() }
		m := open(t, s, &mirror.Options{MaxPending: 10})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		waited := make(chan error)
		go func() { waited <- m.Frame(mainPath, entries(user("b"))) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, m.Close(ctx))
		require.ErrorIs(t, <-waited, mirror.ErrClosed)
	})
}

func TestEmptyFramesAndAnotherSessionInTheSameProcess(t *testing.T) {
	s := newFake()
	m := open(t, s, nil)
	require.NoError(t, m.Frame(mainPath, nil))
	require.NoError(t, m.Frame(subPath, entries(user("s")))) // before its main transcript
	require.NoError(t, m.Frame(mainPath, entries(user("a"))))
	other := projectsDir + "/" + project + "/99999999-2222-4333-8444-555555555555.jsonl" // /clear
	require.NoError(t, m.Frame(other, entries(user("a"))))
	worktree := projectsDir + "/-home-dev-worktree/" + session + ".jsonl"
	require.NoError(t, m.Frame(worktree, entries(user("w"))))
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, 4, s.count())
	require.Equal(t, []string{string(user("w"))}, load(t, s, sessionstore.Key{ProjectKey: "-home-dev-worktree", SessionID: session}))
	require.False(t, m.Failed())
	require.Empty(t, m.Losses())
}

func TestFrameCopiesWhatItIsGiven(t *testing.T) {
	s := newFake()
	m := open(t, s, nil)
	e := user("a")
	require.NoError(t, m.Frame(mainPath, entries(e)))
	copy(e, strings.Repeat("x", len(e)))
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, []string{string(user("a"))}, load(t, s, mainKey))
}

func TestManyWritersKeepTheirOrder(t *testing.T) {
	s := newFake()
	m := open(t, s, &mirror.Options{MaxEntries: 7, Concurrency: 3, MaxPending: 2000})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			path := fmt.Sprintf("%s/%s/%s/subagents/agent-%d.jsonl", projectsDir, project, session, w)
			for i := range 200 {
				if err := m.Frame(path, numbered(i*3, i*3+3)); err != nil {
					t.Error(err)
				}
				if i%50 == w {
					_ = m.Flush(t.Context())
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, m.Close(t.Context()))
	for w := range 8 {
		key := sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: fmt.Sprintf("subagents/agent-%d", w)}
		require.Equal(t, texts(numbered(0, 600)), load(t, s, key))
	}
	require.False(t, s.overlap)
}

func TestKeysWithNothingToDoAreForgotten(t *testing.T) {
	s := newFake()
	m := open(t, s, nil)
	for i := range 10_000 {
		require.NoError(t, m.Frame(fmt.Sprintf("%s/p/s%d.jsonl", projectsDir, i), entries(user("a"))))
	}
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, 10_000, s.count())
}

func TestStats(t *testing.T) {
	s := newFake()
	var calls []mirror.AppendInfo
	m := open(t, s, &mirror.Options{OnAppend: func(i mirror.AppendInfo) { calls = append(calls, i) }})
	require.NoError(t, m.Frame(mainPath, entries(user("a"), user("b"))))
	require.Error(t, m.Frame("/x", nil))
	st := m.Stats()
	require.Equal(t, 2, st.PendingEntries)
	require.Equal(t, len(user("a"))*2, st.PendingBytes)
	require.Error(t, m.Close(t.Context()))
	st = m.Stats()
	require.EqualValues(t, 2, st.Frames)
	require.EqualValues(t, 1, st.Foreign)
	require.EqualValues(t, 1, st.Batches)
	require.EqualValues(t, 2, st.Entries)
	require.EqualValues(t, len(user("a"))*2, st.Bytes)
	require.Zero(t, st.PendingEntries)
	require.Len(t, calls, 1)
	require.Equal(t, mainKey, calls[0].Key)
	require.Equal(t, 2, calls[0].Entries)
	require.Equal(t, 1, calls[0].Attempt)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	_, err := mirror.New(nil, projectsDir, nil)
	require.ErrorContains(t, err, "no store")
	_, err = mirror.New(inmemory.New(), "", nil)
	require.ErrorContains(t, err, "empty")
	require.False(t, errors.Is(err, errDown))
}

func TestLoggerAndCountersForMonitoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n == 1 {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.NoError(t, m.Flush(t.Context()))
		require.Contains(t, text.String(), `level=WARN msg="mirror: append failed, trying again" key=`+mainKey.String()+` entries=1 error="store is down"`)
		require.NoError(t, m.Frame(mainPath, entries(sessionstore.Entry("null"))))
		require.Error(t, m.Flush(t.Context()))
		require.Contains(t, text.String(), `level=ERROR msg="mirror: entries not stored"`)
		for range 2 {
			require.Error(t, m.Frame("/elsewhere", nil))
		}
		require.Equal(t, 1, strings.Count(text.String(), "frame of no transcript"))
		v := expvar.Func(func() any { return m.Stats() })
		require.Contains(t, v.String(), `"batches":1,"entries":1,"bytes":26,"retries":1`)
		require.Error(t, m.Close(t.Context()))
	})
}
