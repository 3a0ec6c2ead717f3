package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sessionstore/sessionstore"
)

// Benchmark measures a store. The names of the sub-benchmarks say how many
// entries of which size one operation moves, or how many sessions it lists.
// ReportAllocs is on, and SetBytes counts the bytes of the entries.
func Benchmark(b *testing.B, h Harness) {
	b.Run("Append/20x2KB", func(b *testing.B) { benchmarkAppend(b, h, 20) })
	b.Run("Append/1x2KB", func(b *testing.B) { benchmarkAppend(b, h, 1) })
	b.Run("Load/5000x2KB", func(b *testing.B) {
		benchmarkRead(b, h, 5_000, func(s sessionstore.SessionStore, k key) (int, error) {
			got, err := s.Load(b.Context(), k)
			return len(got), err
		})
	})
	b.Run("Stream/5000x2KB", func(b *testing.B) {
		benchmarkRead(b, h, 5_000, func(s sessionstore.SessionStore, k key) (int, error) {
			n := 0
			for _, err := range sessionstore.Stream(b.Context(), s, k) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		})
	})
	b.Run("ListSessions/200", func(b *testing.B) { benchmarkList(b, h, 200) })
}

const benchmarkEntryLen = 2_000

// benchmarkEntries returns entries of 2 KB that all start with their uuid, so
// that the next batch only has to overwrite it.
func benchmarkEntries(n int) []entry {
	batch := make([]entry, n)
	for i := range batch {
		head := fmt.Sprintf(`{"uuid":"%036d","type":"assistant","message":{"role":"assistant","content":"`, i)
		text := strings.Repeat(`some text \"of\" an agent\n`, benchmarkEntryLen/26)
		batch[i] = entry(head + text[:benchmarkEntryLen-len(head)-3-20] + strings.Repeat("x", 20) + `"}}`)
	}
	return batch
}

func renumber(batch []entry, from int) {
	for i, e := range batch {
		copy(e[len(`{"uuid":"`):], fmt.Sprintf("%036d", from+i))
	}
}

func totalLen(batch []entry) int64 {
	var n int64
	for _, e := range batch {
		n += int64(len(e))
	}
	return n
}

func benchmarkAppend(b *testing.B, h Harness, perBatch int) {
	const batchesPerKey = 250 // real sessions end at some time
	s := h.Open(b)
	batch := benchmarkEntries(perBatch)
	b.SetBytes(totalLen(batch))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		renumber(batch, n*perBatch)
		k := session(mainKey, fmt.Sprint("session-", n/batchesPerKey))
		if n > 0 && n%batchesPerKey == 0 {
			// Room for stores in memory.
			b.StopTimer()
			last := session(mainKey, fmt.Sprint("session-", n/batchesPerKey-1))
			if err := sessionstore.Delete(b.Context(), s, last); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if err := s.Append(b.Context(), k, batch); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkRead(b *testing.B, h Harness, entries int, read func(sessionstore.SessionStore, key) (int, error)) {
	s := h.Open(b)
	const perBatch = 100
	batch := benchmarkEntries(perBatch)
	for n := 0; n < entries; n += perBatch {
		renumber(batch, n)
		if err := s.Append(b.Context(), mainKey, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(totalLen(batch) * int64(entries/perBatch))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := read(s, mainKey); err != nil || n != entries {
			b.Fatalf("read %d entries, %v, want %d", n, err, entries)
		}
	}
}

func benchmarkList(b *testing.B, h Harness, sessions int) {
	s := h.Open(b)
	ctx := b.Context()
	if !h.has(ctx, s, Lister) {
		b.Skip("missing: ", Lister)
	}
	for n := range sessions {
		k := session(mainKey, fmt.Sprint("session-", n))
		if err := s.Append(ctx, k, []entry{user("1"), title("t")}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := sessionstore.ListSessions(ctx, s, mainKey.ProjectKey); err != nil || len(got) != sessions {
			b.Fatalf("listed %d sessions, %v, want %d", len(got), err, sessions)
		}
	}
}
