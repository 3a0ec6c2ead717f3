package inmemory

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
)

func BenchmarkStore(b *testing.B) { conformance.Benchmark(b, harness) }

// BenchmarkAppend compares an append with a bare copy of the same bytes.
func BenchmarkAppend(b *testing.B) {
	var batch []sessionstore.Entry
	size := 0
	renumber := func(n int) {
		for i, e := range batch {
			copy(e[len(`{"uuid":"`):], fmt.Sprintf("%012d-%02d", n, i))
		}
	}
	for range 20 {
		e := sessionstore.Entry(`{"uuid":"000000000000-00","type":"user","message":{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor ", 108) + `"}}`)
		batch = append(batch, e)
		size += len(e)
	}
	b.Run("20x2KB/op", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		s := New()
		k := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
		for n := 0; b.Loop(); n++ {
			if n%1000 == 0 { // what is stored must fit in memory
				b.StopTimer()
				if err := s.Delete(ctx, k); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			renumber(n)
			if err := s.Append(ctx, k, batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("20x2KB/floor", func(b *testing.B) {
		b.SetBytes(int64(size))
		var kept [][]byte
		for n := 0; b.Loop(); n++ {
			if n%1000 == 0 {
				kept = nil
			}
			renumber(n)
			slab := make([]byte, 0, size)
			for _, e := range batch {
				slab = append(slab, e...)
			}
			kept = append(kept, slab)
		}
		runtime.KeepAlive(kept)
	})
}
