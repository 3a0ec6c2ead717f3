package filestore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/filestore"
)

// liveHeap is what is still in use after a collection.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// writeLarge writes n entries of entryLen bytes and one of 40 MB in the middle.
func writeLarge(t testing.TB, name string, n, entryLen int) (size int64) {
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	text := strings.Repeat("x", entryLen-60)
	for i := range n {
		fmt.Fprintf(w, `{"type":"user","uuid":"%012d","t":"%s"}`+"\n", i, text)
		if i == n/2 {
			fmt.Fprintf(w, `{"image":"%s"}`+"\n", strings.Repeat("A", 40<<20))
		}
	}
	require.NoError(t, w.Flush())
	info, err := f.Stat()
	require.NoError(t, err)
	return info.Size()
}

func TestLargeTranscriptIsStreamedInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1 GiB")
	}
	dir := t.TempDir()
	n, least := 100_000, int64(1<<30)
	if raceDetector {
		n, least = 15_000, 180<<20 // what is slow is the detector, not the disk
	}
	size := writeLarge(t, mainFile(dir), n, 10_500)
	require.Greater(t, size, least)
	s := open(t, dir, nil)

	base, peak, count := liveHeap(), int64(0), 0
	for _, err := range s.Stream(t.Context(), mainKey) {
		require.NoError(t, err)
		if count++; count%5_000 == 0 || count == n/2+2 {
			peak = max(peak, liveHeap()-base)
		}
	}
	require.Equal(t, n+1, count)
	t.Logf("stream: %d MB of heap for %d MB", peak>>20, size>>20)
	require.LessOrEqual(t, peak, int64(64<<20+48*n))

	// To append, the store has to know every uuid.
	base = liveHeap()
	appendAll(t, s, mainKey, user("000000000007"), user("new"))
	appendAll(t, s, mainKey, user("new"))
	kept := liveHeap() - base
	t.Logf("append: %.1f bytes an entry are kept", float64(kept)/float64(n))
	require.LessOrEqual(t, kept, int64(1<<20+48*n))
	info, err := os.Stat(mainFile(dir))
	require.NoError(t, err)
	require.Equal(t, size+int64(len(user("new")))+1, info.Size())
}

func TestLoadNeedsLittleMoreThanTheTranscript(t *testing.T) {
	cases := []struct{ n, entryLen int }{{20_000, 2_000}, {800, 150_000}}
	if raceDetector {
		cases[1].n = 200
	}
	for _, tc := range cases {
		dir := t.TempDir()
		size := writeLarge(t, mainFile(dir), tc.n, tc.entryLen)
		s := open(t, dir, nil)
		base := liveHeap()
		// The peak is reached before Load returns, so look at it with the
		// collector running all the time.
		old := debug.SetGCPercent(5)
		peak, stop := watchHeap()
		entries, err := s.Load(t.Context(), mainKey)
		stop()
		debug.SetGCPercent(old)
		require.NoError(t, err)
		require.Len(t, entries, tc.n+1)
		t.Logf("%d MB of transcript, heap %d MB, peak %d MB", size>>20, (liveHeap()-base)>>20, (*peak-base)>>20)
		require.LessOrEqual(t, liveHeap()-base, size*13/10)
		require.LessOrEqual(t, *peak-base, size*14/10, "with what is not collected yet")
		runtime.KeepAlive(entries)
	}
}

func watchHeap() (peak *int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	peak = new(int64)
	go func() {
		defer close(done)
		var m runtime.MemStats
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			*peak = max(*peak, int64(m.HeapAlloc))
			runtime.Gosched()
		}
	}()
	return peak, func() { cancel(); <-done }
}

func TestListingManySessionsReadsNoFile(t *testing.T) {
	dir := t.TempDir()
	const n = 10_000
	makeSessions(t, dir, n)
	s := open(t, dir, &filestore.Options{ReadOnly: true})
	opened := s.Opened()
	before, counted := bytesRead()
	list, err := s.ListSessions(t.Context(), benchProject)
	require.NoError(t, err)
	require.Len(t, list, n)
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{benchProject}, projects)
	require.Empty(t, *opened)
	if after, ok := bytesRead(); ok && counted {
		// The files hold 3 bytes each; asking for the number reads a little too.
		require.Less(t, after-before, int64(4096))
	}
}

// bytesRead is how much this process has read, on Linux.
func bytesRead() (int64, bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	var n int64
	_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
	return n, err == nil
}
