package redisstore

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// A reader with small windows, against writers and deletions: what it sees is
// always the beginning of one generation.
func TestWindowsFitTogether(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		reader := b.again(t, s, Options{}, nil)
		reader.windowBytes = 300
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(done)
			for generation := range 15 {
				for n := range 8 {
					var batch []sessionstore.Entry
					for i := range 5 {
						batch = append(batch, user(fmt.Sprintf("%d-%d", generation, 5*n+i)))
					}
					if err := s.Append(t.Context(), mainKey, batch); err != nil {
						t.Error(err)
						return
					}
				}
				if err := s.Delete(t.Context(), mainKey); err != nil {
					t.Error(err)
					return
				}
			}
		})
		longest := 0
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			got, err := reader.Load(t.Context(), mainKey)
			if err != nil {
				require.ErrorIs(t, err, errReplaced) // again and again; never data of two
				continue
			}
			longest = max(longest, len(got))
			for i, e := range got {
				generation, _, _ := strings.Cut(got[0].UUID(), "-")
				require.Equal(t, fmt.Sprintf("%s-%d", generation, i), e.UUID())
			}
		}
		wg.Wait()
		require.Greater(t, longest, 10)
	})
}

func TestStreamEndsWithAnErrorWhenTheTranscriptGoes(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	s.windowBytes = 50
	appendTo(t, s, mainKey, user("1"), user("2"), user("3"), user("4"), user("5"))
	n := 0
	var last error
	for _, err := range s.Stream(t.Context(), mainKey) {
		if n++; n == 1 {
			require.NoError(t, s.Delete(t.Context(), mainKey))
			appendTo(t, s, mainKey, user("a"), user("b"), user("c"), user("d"), user("e"))
		}
		last = err
	}
	require.ErrorIs(t, last, errReplaced)
}

func TestWindowsFollowTheLengths(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	s.windowBytes = 10_000
	sizes := []int{1, 2, 30_000, 5, 9_000, 900, 300, 20_000, 20_000, 3}
	var want []sessionstore.Entry
	for _, n := range sizes {
		want = append(want, bare(strings.Repeat("x", n)))
	}
	appendTo(t, s, mainKey, want...)
	r, err := s.open(t.Context(), mainKey)
	require.NoError(t, err)
	var windows []int
	var got []string
	for r.next < r.row.count {
		w, err := r.window(t.Context())
		require.NoError(t, err)
		windows = append(windows, len(w))
		got = append(got, w...)
	}
	require.Equal(t, []int{2, 1, 2, 2, 1, 1, 1}, windows)
	require.Equal(t, texts(want), got)
}

func TestManySmallEntriesNeedSeveralLengthReads(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	var want []sessionstore.Entry
	for n := range 2*windowEntries + 100 {
		want = append(want, user(fmt.Sprint(n)))
	}
	appendTo(t, s, mainKey, want...)
	requireLoad(t, s, mainKey, want...)
}

func TestStreamHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 200 MiB")
	}
	s := startServer(t).backend().open(t, Options{}, nil)
	const entries, size = 800, 256 << 10
	text := strings.Repeat("x", size)
	for n := 0; n < entries; n += 20 {
		var batch []sessionstore.Entry
		for i := range 20 {
			batch = append(batch, sessionstore.Entry(fmt.Sprintf(`{"uuid":"%d","text":%q}`, n+i, text)))
		}
		appendTo(t, s, mainKey, batch...)
	}
	n := 0
	before, most := liveHeap(), uint64(0) // tests before this one have left something
	for e, err := range s.Stream(t.Context(), mainKey) {
		require.NoError(t, err)
		require.Greater(t, len(e), size)
		if n++; n%50 == 0 {
			most = max(most, liveHeap())
		}
	}
	require.Equal(t, entries, n)
	require.Less(t, most, before+32<<20)
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestEntriesAreTheCallersOwn(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	appendTo(t, s, mainKey, user("1"), user("2"))
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	clear(got[0])
	got[0] = append(got[0], "more"...)
	require.Equal(t, string(user("2")), string(got[1]))
	for e, err := range s.Stream(t.Context(), mainKey) {
		require.NoError(t, err)
		clear(e)
	}
	requireLoad(t, s, mainKey, user("1"), user("2"))
}
