package memorytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sessionstore/sessionstore/memory"
)

// BenchPath is the file of [Bench].
const BenchPath = memory.Root + "/notes.md"

// Bench measures the tool on an empty store: a view of a file of 4 KB, and an
// edit of it, which reads and writes. Beside each it measures the least that
// these can cost: read fetches the file at [BenchPath] with the bare client of
// the backend, and write stores data of the same length. It runs the benchmarks
// View/4KB/op, View/4KB/floor, Edit/4KB/op and Edit/4KB/floor.
func Bench(b *testing.B, s memory.Store, read func() error, write func(data []byte) error) {
	b.Helper()
	text := []byte(strings.Repeat("- a line of notes about something\n", 4<<10/34))
	tool, err := memory.New(s, nil)
	if err == nil {
		err = s.Write(b.Context(), BenchPath, text, "", memory.Limits{})
	}
	if err != nil {
		b.Fatal(err)
	}
	command := func(b *testing.B, input string) error {
		if r := tool.Run(b.Context(), []byte(input)); r.IsError {
			return fmt.Errorf("%s: %w", r.Text(), r.Err)
		}
		return nil
	}
	edits := 0
	for _, bench := range []struct {
		name string
		run  func(b *testing.B) error
	}{
		{"View/4KB/op", func(b *testing.B) error { return command(b, `{"command":"view","path":"`+BenchPath+`"}`) }},
		{"View/4KB/floor", func(*testing.B) error { return read() }},
		{"Edit/4KB/op", func(b *testing.B) error { edits++; return command(b, benchEdit(edits)) }},
		{"Edit/4KB/floor", func(*testing.B) error { return write(text) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.run(b); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchEdit is the n-th edit: after the first one it exchanges one letter.
func benchEdit(n int) string {
	before, after := "x", "y"
	switch {
	case n == 1:
		return `{"command":"insert","path":"` + BenchPath + `","insert_line":0,"insert_text":"first: x"}`
	case n%2 == 1:
		before, after = after, before
	}
	return fmt.Sprintf(`{"command":"str_replace","path":%q,"old_str":"first: %s","new_str":"first: %s"}`, BenchPath, before, after)
}
