package session

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// generated is a store of one transcript that is made while it is read: a chain
// of old entries, a compaction, and a chain of new ones.
type generated struct {
	sessionstore.SessionStore
	old, oldSize, new int

	readings int
	base     uint64
	peak     uint64 // live bytes above base
	sampleAt int    // every so many entries
}

func (s *generated) Stream(context.Context, sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	s.readings++
	padding := strings.Repeat("x", s.oldSize)
	return func(yield func(sessionstore.Entry, error) bool) {
		emit := func(i int, e string) bool {
			if i%s.sampleAt == 0 {
				s.sample()
			}
			return yield(sessionstore.Entry(e), nil)
		}
		for i := range s.old {
			id, parent := fmt.Sprintf("00000000-0000-4000-8000-%012d", i), ""
			if i > 0 {
				parent = fmt.Sprintf("00000000-0000-4000-8000-%012d", i-1)
			}
			if !emit(i, entry("user", id, parent, `,"message":{"content":"`+padding+`"}`)) {
				return
			}
		}
		more := `,"subtype":"compact_boundary","compactMetadata":{"preservedMessages":{"anchorUuid":"s","uuids":["00000000-0000-4000-8000-000000000007"]}}`
		ok := emit(1, entry("system", "b", "", more)) && emit(1, user("s", "b")) && emit(1, user("e0", "s"))
		for i := 1; ok && i < s.new; i++ {
			ok = emit(i, assistant(fmt.Sprint("e", i), fmt.Sprint("e", i-1)))
		}
		s.sample()
	}
}

func (s *generated) sample() {
	if live := liveHeap(); s.base == 0 {
		s.base = live
	} else if live > s.base {
		s.peak = max(s.peak, live-s.base)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestMemoryOfACompactedGibibyte(t *testing.T) {
	s := &generated{old: 4096, oldSize: 256 << 10, new: 100, sampleAt: 48}
	if raceEnabled {
		s.old = 256 // 64 MiB are slow enough with the race detector
	}
	c := messages(t, s, nil)
	require.Equal(t, 102, c.Total)
	require.Equal(t, "00000000-0000-4000-8000-000000000007", c.Messages[1].UUID)
	require.Equal(t, 2, s.readings)
	t.Logf("%d MiB read twice, %d KiB live at most", s.old*s.oldSize>>20, s.peak>>10)
	require.Less(t, s.peak, uint64(keepBytes+4<<20))
}

func TestMemoryOfManyEntries(t *testing.T) {
	s := &generated{old: 100_000, oldSize: 1, new: 10, sampleAt: 20_000}
	if raceEnabled {
		s.old, s.sampleAt = 30_000, 5_000
	}
	readTwice(t, s, nil)
	perEntry := float64(s.peak) / float64(s.old)
	t.Logf("%.1f bytes an entry", perEntry)
	require.Equal(t, 2, s.readings)
	require.Less(t, perEntry, 100.0)
}
