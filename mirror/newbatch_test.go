package mirror_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

// landsAndFails makes appends land and fail until the returned function is
// called.
func landsAndFails(s *fakeStore) (recover func()) {
	var failing atomic.Bool
	failing.Store(true)
	s.AfterAppend = func(context.Context, sessionstore.Key) error {
		if failing.Load() {
			return errDown
		}
		return nil
	}
	return func() { failing.Store(false) }
}

// The store's handle remembers a batch that failed. An equal one that comes
// later, from whoever, is not that batch.
func TestNextMirrorOnTheSameHandleStoresAnEqualBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		spill := t.TempDir()
		first := open(t, s, &mirror.Options{Spill: spill})
		require.NoError(t, first.Frame(mainPath, entries(user("u"))))
		require.NoError(t, first.Flush(t.Context()))
		up := landsAndFails(s)
		require.NoError(t, first.Frame(mainPath, entries(mode("m"))))
		require.Error(t, first.Close(t.Context()))
		up()
		next := open(t, s, &mirror.Options{Spill: spill})
		require.NoError(t, next.Frame(mainPath, entries(mode("m"))))
		require.NoError(t, next.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 3)
	})
}

func TestReplayOnTheHandleThatFailedStoresEqualBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		spill := t.TempDir()
		m := open(t, s, &mirror.Options{Mode: mirror.Eager, Spill: spill})
		require.NoError(t, m.Frame(mainPath, entries(user("u"))))
		require.NoError(t, m.Flush(t.Context()))
		up := landsAndFails(s)
		for range 2 {
			require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		}
		require.Error(t, m.Close(t.Context()))
		up()
		_, err := mirror.Replay(t.Context(), spill, s, nil)
		require.NoError(t, err)
		require.Len(t, load(t, s, mainKey), 3)
	})
}

func TestWatchStoresAnEqualLineBehindOneThatLandedAndFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		dir := t.TempDir()
		path := filepath.Join(dir, mainKey.ProjectKey, mainKey.SessionID+".jsonl")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		line := string(mode("m")) + "\n"
		require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
		up := landsAndFails(s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := mirror.Watch(ctx, dir, s, nil)
			done <- err
		}()
		time.Sleep(10 * time.Second)
		up()
		time.Sleep(5 * time.Minute) // it has found out that the line is there
		require.NoError(t, os.WriteFile(path, []byte(line+line), 0o600))
		time.Sleep(5 * time.Minute)
		cancel()
		require.NoError(t, <-done)
		require.Len(t, load(t, s, mainKey), 2)
	})
}

// What the store holds from before says nothing about a batch that only equals
// it: rather twice than never.
func TestReplayStoresABatchThatOnlyEqualsTheEndOfTheTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		require.NoError(t, s.Append(t.Context(), mainKey, entries(user("u"), mode("m"))))
		spill := t.TempDir()
		down := true
		s.before = func(context.Context, sessionstore.Key, int) error {
			if down {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Spill: spill})
		require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		require.Error(t, m.Close(t.Context()))
		down = false
		_, err := mirror.Replay(t.Context(), spill, s, nil)
		require.NoError(t, err)
		require.Equal(t, texts(entries(user("u"), mode("m"), mode("m"))), load(t, s, mainKey))
	})
}

// afterAnEqualBatch is a store that holds a batch whose mirror has seen it fail.
func afterAnEqualBatch(t *testing.T) *fakeStore {
	s := newFake()
	old := open(t, s, &mirror.Options{Attempts: 1})
	up := landsAndFails(s)
	require.NoError(t, old.Frame(mainPath, entries(mode("m"))))
	require.Error(t, old.Close(t.Context()))
	up()
	return s
}

// unreachableFor makes calls from now on end before the store
// has seen them.
func unreachableFor(s *fakeStore, calls int) {
	var n atomic.Int64
	s.mu.Lock() // calls may be under way
	defer s.mu.Unlock()
	s.before = func(context.Context, sessionstore.Key, int) error {
		if n.Add(1) <= int64(calls) {
			return errDown
		}
		return nil
	}
}

// The first try of a batch may fail on its way, so that the store never hears
// that the batch is a new one. The next try is no repetition of an older batch.
func TestAFurtherTryIsNoRepetitionOfAnOlderEqualBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := afterAnEqualBatch(t)
		unreachableFor(s, 2)
		m := open(t, s, nil)
		require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 2)
	})
}

func TestARedeliveryIsNoRepetitionOfAnOlderEqualBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := afterAnEqualBatch(t)
		unreachableFor(s, 3)
		m := open(t, s, &mirror.Options{Spill: t.TempDir()})
		require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		require.Error(t, m.Flush(t.Context()))
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 2)
	})
}

func TestWatchKnowsAFurtherTryFromAnOlderEqualBatch(t *testing.T) {
	for _, calls := range []int{1, mirror.DefaultAttempts} { // within a turn, and in the next one
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			dir := t.TempDir()
			write(t, lines(mode("m")), dir, mainFile)
			up := landsAndFails(s)
			w := watch(t, dir, s, nil)
			time.Sleep(10 * time.Second)
			up()
			time.Sleep(5 * time.Minute) // it has found out that the line is there
			unreachableFor(s, calls)
			write(t, lines(mode("m")), dir, mainFile)
			time.Sleep(5 * time.Minute)
			require.NoError(t, w.end())
			require.Len(t, load(t, s, mainKey), 2)
		})
	}
}
