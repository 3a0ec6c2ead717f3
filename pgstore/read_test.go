package pgstore_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

func TestConnectionLostMidwayIsAnError(t *testing.T) {
	l := &link{}
	s := newStore(t, newPool(t, l.through(relaxed)), nil)
	entries := benchEntries(3000)
	require.NoError(t, s.Append(t.Context(), mainKey, entries))
	for _, n := range []int{100, 64 << 10, 1 << 20, 5 << 20} {
		l.HaltAfter(n)
		got, err := s.Load(t.Context(), mainKey)
		require.Error(t, err, "after %d bytes", n)
		require.Nil(t, got)

		l.HaltAfter(n)
		seen := 0
		err = nil
		for e, streamErr := range s.Stream(t.Context(), mainKey) {
			if err = streamErr; err == nil {
				require.Equal(t, string(entries[seen]), string(e))
				seen++
			}
		}
		require.Error(t, err, "after %d bytes", n)
		require.Less(t, seen, len(entries))
		l.HaltAfter(0)
	}
	requireLoad(t, s, mainKey, entries...)
}

// A stream is what the transcript held when it began, whatever the sizes of the
// entries, and it holds no connection while its consumer is at work.
func TestStreamReadsInWindows(t *testing.T) {
	pool := newPool(t, func(c *pgxpool.Config) { relaxed(c); c.MaxConns = 1 })
	s := newStore(t, pool, nil)
	var entries []sessionstore.Entry
	for i := range 2500 {
		size := 10
		if i%100 == 7 {
			size = 3 << 20 // two of them make a window
		}
		entries = append(entries, entry(`{"uuid":"%d","text":%q}`, i, strings.Repeat("x", size)))
	}
	for i := 0; i < len(entries); i += 100 {
		require.NoError(t, s.Append(t.Context(), mainKey, entries[i:i+100]))
	}
	seen := 0
	var peak uint64
	for e, err := range s.Stream(t.Context(), mainKey) {
		require.NoError(t, err)
		require.Equal(t, string(entries[seen]), string(e))
		seen++
		if seen%500 == 0 {
			require.NoError(t, s.Append(t.Context(), mainKey, numbered(fmt.Sprint("late ", seen), 3)))
			require.NoError(t, pool.Ping(t.Context()), "the connection is free")
			peak = max(peak, liveHeap())
		}
	}
	require.Equal(t, len(entries), seen)
	require.Less(t, peak, liveHeap()+32<<20)
	runtime.KeepAlive(entries)
}

func TestStreamNoticesADeletion(t *testing.T) {
	s := newStore(t, newPool(t, relaxed), nil)
	for _, again := range []bool{false, true} {
		require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3000)))
		var last error
		first := true
		for _, err := range s.Stream(t.Context(), mainKey) {
			if last = err; !first {
				continue
			}
			first = false
			require.NoError(t, s.Delete(t.Context(), mainKey))
			if again {
				require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3000)))
			}
		}
		require.ErrorContains(t, last, "deleted while it was being read")
		require.NoError(t, s.Delete(t.Context(), mainKey))
	}
}

func TestLoadNeedsLittleMoreThanTheTranscript(t *testing.T) {
	s := newStore(t, newPool(t, relaxed), nil)
	entries := benchEntries(5000)
	for i := 0; i < len(entries); i += 500 {
		require.NoError(t, s.Append(t.Context(), mainKey, entries[i:i+500]))
	}
	size := totalBytes(entries)
	entries = nil
	_, err := s.Load(t.Context(), subKey("warm"))
	require.NoError(t, err)
	before := allocated()
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	used := allocated() - before // all that was ever allocated is an upper bound of the peak
	require.Len(t, got, 5000)
	require.Less(t, float64(used), 1.3*float64(size))
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Every row of a transcript but its own may be gone.
func TestTranscriptWithoutEntriesIsCorrupt(t *testing.T) {
	pool := newPool(t, relaxed)
	s, tables := newTestStore(t, pool)
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3)))
	_, err := pool.Exec(t.Context(), "DELETE FROM "+tables+"entries")
	require.NoError(t, err)
	_, err = s.Load(t.Context(), mainKey)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	err = nil
	for _, err = range s.Stream(t.Context(), mainKey) {
	}
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.ErrorContains(t, err, "pgstore: stream p/s: ")
}

func TestListsOfManySessions(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of sessions")
	}
	s := newStore(t, newPool(t, relaxed), nil)
	const sessions = 2000
	fillSessions(t, s, sessions)
	list, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, list, sessions)
	sorted := append([]sessionstore.SessionInfo(nil), list...)
	sessionstore.SortSessions(sorted)
	require.Equal(t, sorted, list)
	summaries, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	for i, sum := range summaries {
		require.Equal(t, list[i], sessionstore.SessionInfo{SessionID: sum.SessionID, Mtime: sum.Mtime})
	}
}

var _ sessionstore.SessionStore = (*pgstore.Store)(nil)
