package s3store

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// appendMuch appends parts of so many entries of 256 KiB each.
func appendMuch(tb testing.TB, s *Store, parts, perPart int) (size int) {
	tb.Helper()
	text := strings.Repeat("x", 256<<10)
	for p := range parts {
		var batch []sessionstore.Entry
		for i := range perPart {
			batch = append(batch, entryOf(`{"uuid":"%d","part":%d,"text":%q}`, p*perPart+i, perPart, text))
		}
		mustAppend(tb, s, sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: fmt.Sprint(perPart)}, batch...)
		size += int(sizeOf(batch))
	}
	return size
}

func TestStreamHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 300 MiB")
	}
	b := newBucket(t)
	s := b.store(t, manual)
	// Some parts are fetched whole and ahead, others piece by piece.
	for _, shape := range []struct{ parts, perPart int }{{40, 20}, {2, 250}} {
		appendMuch(t, s, shape.parts, shape.perPart)
		n := 0
		before, most := liveHeap(), uint64(0) // tests before this one have left something
		for e, err := range s.Stream(t.Context(), sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: fmt.Sprint(shape.perPart)}) {
			require.NoError(t, err)
			require.Greater(t, len(e), 256<<10)
			if n++; n%50 == 0 {
				most = max(most, liveHeap())
			}
		}
		require.Equal(t, shape.parts*shape.perPart, n)
		require.Less(t, most, before+64<<20)
	}
}

func TestLoadHoldsLittleMoreThanTheTranscript(t *testing.T) {
	b := newBucket(t)
	size := uint64(appendMuch(t, b.store(t, manual), 10, 20))
	s := b.store(t, manual)
	before := liveHeap()
	got, err := s.Load(t.Context(), sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "20"})
	require.NoError(t, err)
	require.Len(t, got, 200)
	require.Less(t, liveHeap(), before+size*13/10)
	runtime.KeepAlive(got)
}

// Parts that are read piece by piece are put together like the others.
func TestStreamOfLargeAndSmallParts(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	var want []string
	add := func(n, size int) {
		e := entryOf(`{"uuid":"%d","text":%q}`, n, strings.Repeat("x", size))
		mustAppend(t, s, testKey, e, entryOf(`{"n":%d}`, n))
		want = append(want, string(e), fmt.Sprintf(`{"n":%d}`, n))
	}
	for n := range 4 {
		add(10*n, 10)
		add(10*n+1, streamPiece+n)
		add(10*n+2, 10)
		mustAppend(t, s, testKey, entryOf(`{"uuid":"%d","text":"a repeat"}`, 10*n+1))
	}
	for range 2 {
		var got []string
		for e, err := range s.Stream(t.Context(), testKey) {
			require.NoError(t, err)
			got = append(got, string(e))
		}
		require.Len(t, got, len(want))
		for i := range got {
			require.True(t, want[i] == got[i], i)
		}
		require.NoError(t, s.Compact(t.Context(), testKey))
	}
}
