package mirror_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

// nullStore takes everything and keeps nothing.
type nullStore struct{}

func (nullStore) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error { return nil }

func (nullStore) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return nil, nil
}

// onlyWriter hides that io.Discard can read by itself.
type onlyWriter struct{ io.Writer }

// BenchmarkReader compares reading an agent's output through the mirror with
// copying it.
func BenchmarkReader(b *testing.B) {
	long := strings.Repeat("lorem ipsum dolor ", 108)
	message := `{"type":"assistant","message":{"role":"assistant","content":"` + long + `"}}` + "\n"
	short := `{"type":"stream_event","event":{"delta":"word"}}` + "\n"
	entry := func(i int) sessionstore.Entry {
		return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"u%d","message":{"role":"user","content":"%s"}}`, i, long))
	}
	for name, stream := range map[string]string{
		"messages2KB":  strings.Repeat(message, 5000),
		"messages50B":  strings.Repeat(short, 200_000),
		"message10MB":  `{"type":"user","text":"` + strings.Repeat(long, 5000) + `"}` + "\n",
		"halfFrames":   strings.Repeat(message+frameLine(mainPath, entry(1)), 2500),
		"onlyFrames2M": strings.Repeat(frameLine(mainPath, slicesOf(entry, 20)...), 250),
	} {
		b.Run(name+"/op", func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			m, err := mirror.New(nullStore{}, projectsDir, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := m.Reader(strings.NewReader(stream)).WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
			if err := m.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			buf := make([]byte, 64<<10)
			for b.Loop() {
				if _, err := io.CopyBuffer(onlyWriter{io.Discard}, struct{ io.Reader }{strings.NewReader(stream)}, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func slicesOf(entry func(int) sessionstore.Entry, n int) (list []sessionstore.Entry) {
	for i := range n {
		list = append(list, entry(i))
	}
	return list
}

// BenchmarkFrame compares a frame of 20 entries, flushed, with a bare append.
func BenchmarkFrame(b *testing.B) {
	ctx := context.Background()
	var batch []sessionstore.Entry
	size := 0
	for range 20 {
		e := sessionstore.Entry(`{"uuid":"000000000000-00","type":"user","message":{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor ", 108) + `"}}`)
		batch = append(batch, e)
		size += len(e)
	}
	run := func(b *testing.B, once func(n int)) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			for i, e := range batch {
				copy(e[len(`{"uuid":"`):], fmt.Sprintf("%012d-%02d", n, i))
			}
			once(n)
		}
	}
	empty := func(b *testing.B, s *inmemory.Store, n int) {
		if n%1000 == 0 { // what is stored must fit in memory
			b.StopTimer()
			if err := s.Delete(ctx, mainKey); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("20x2KB/op", func(b *testing.B) {
		s := inmemory.New()
		m, err := mirror.New(s, projectsDir, nil)
		if err != nil {
			b.Fatal(err)
		}
		run(b, func(n int) {
			empty(b, s, n)
			if err := m.Frame(mainPath, batch); err != nil {
				b.Fatal(err)
			}
			if err := m.Flush(ctx); err != nil {
				b.Fatal(err)
			}
		})
		if err := m.Close(ctx); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("20x2KB/floor", func(b *testing.B) {
		s := inmemory.New()
		run(b, func(n int) {
			empty(b, s, n)
			if err := s.Append(ctx, mainKey, batch); err != nil {
				b.Fatal(err)
			}
		})
	})
}
