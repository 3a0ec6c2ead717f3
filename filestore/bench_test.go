package filestore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

// Each benchmark has its floor beside it: what the file system alone takes for
// the same bytes.

const benchProject = "-home-dev-bench"

func benchKey(n int) sessionstore.Key {
	return sessionstore.Key{ProjectKey: benchProject, SessionID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)}
}

// benchEntry is 2 KB long and starts with its uuid.
func benchEntry(n int) sessionstore.Entry {
	const text = `some text \"of\" an agent\n`
	head := fmt.Sprintf(`{"uuid":"%036d","type":"assistant","message":{"role":"assistant","content":"`, n)
	return sessionstore.Entry(head + strings.Repeat(text, (2000-len(head))/len(text)) + `"}}`)
}

func benchEntries(from, n int) []sessionstore.Entry {
	entries := make([]sessionstore.Entry, n)
	for i := range entries {
		entries[i] = benchEntry(from + i)
	}
	return entries
}

func joinLines(entries []sessionstore.Entry) []byte {
	var text []byte
	for _, e := range entries {
		text = append(append(text, e...), '\n')
	}
	return text
}

func BenchmarkAppend(b *testing.B) {
	b.Run("20x2KB", func(b *testing.B) { benchmarkAppend(b, false) })
	b.Run("20x2KB-fsync", func(b *testing.B) { benchmarkAppend(b, true) })
}

func benchmarkAppend(b *testing.B, fsync bool) {
	const batchLen = 20
	batch := benchEntries(0, batchLen)
	renumber := func(i int) { // fast enough not to count
		for j, e := range batch {
			uuid := e[len(`{"uuid":"`):][:36]
			for n, k := i*batchLen+j, len(uuid)-1; n > 0; n, k = n/10, k-1 {
				uuid[k] = '0' + byte(n%10)
			}
		}
	}
	b.Run("op", func(b *testing.B) {
		s, err := filestore.Open(b.TempDir(), &filestore.Options{Fsync: fsync})
		require.NoError(b, err)
		defer s.Close()
		b.SetBytes(int64(len(joinLines(batch))))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			renumber(i)
			if err := s.Append(b.Context(), benchKey(0), batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		f, err := os.OpenFile(filepath.Join(b.TempDir(), "f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(b, err)
		defer f.Close()
		text := joinLines(batch)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_, err := f.Write(text)
			if err == nil && fsync {
				err = f.Sync()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	const n = 5000
	dir := b.TempDir()
	s, err := filestore.Open(dir, nil)
	require.NoError(b, err)
	defer s.Close()
	entries := benchEntries(0, n)
	text := joinLines(entries)
	require.NoError(b, s.Append(b.Context(), benchKey(0), entries))
	file := filepath.Join(dir, benchProject, benchKey(0).SessionID+".jsonl")

	b.Run("5000x2KB/op", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			got, err := s.Load(b.Context(), benchKey(0))
			if err != nil || len(got) != n {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("5000x2KB/floor", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			data, err := os.ReadFile(file)
			if lines := bytes.Split(data, []byte("\n")); err != nil || len(lines) != n+1 {
				b.Fatal(len(lines), err)
			}
		}
	})
	b.Run("5000x2KB/stream", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			for _, err := range s.Stream(b.Context(), benchKey(0)) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkListSessions(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	makeSessions(b, dir, n)
	s, err := filestore.Open(dir, &filestore.Options{ReadOnly: true})
	require.NoError(b, err)
	defer s.Close()
	b.Run("10000/op", func(b *testing.B) {
		for b.Loop() {
			list, err := s.ListSessions(b.Context(), benchProject)
			if err != nil || len(list) != n {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("10000/floor", func(b *testing.B) {
		for b.Loop() {
			entries, err := os.ReadDir(filepath.Join(dir, benchProject))
			if err != nil || len(entries) != n {
				b.Fatal(len(entries), err)
			}
			for _, e := range entries {
				if _, err := e.Info(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func makeSessions(tb testing.TB, dir string, n int) {
	project := filepath.Join(dir, benchProject)
	require.NoError(tb, os.MkdirAll(project, 0o700))
	for i := range n {
		name := filepath.Join(project, benchKey(i).SessionID+".jsonl")
		require.NoError(tb, os.WriteFile(name, []byte("{}\n"), 0o600))
	}
}

// BenchmarkListSessionSummaries lists titles with the summaries on disk, in
// memory, and with none, as in a directory that only the agent has written.
func BenchmarkListSessionSummaries(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	s, err := filestore.Open(dir, nil)
	require.NoError(b, err)
	defer s.Close()
	for i := range n {
		require.NoError(b, s.Append(b.Context(), benchKey(i), append(benchEntries(i, 1), title("a title"))))
	}
	list := func(b *testing.B, s *filestore.Store) {
		list, err := s.ListSessionSummaries(b.Context(), benchProject)
		if err != nil || len(list) != n {
			b.Fatal(len(list), err)
		}
	}
	reopen := func(b *testing.B) *filestore.Store {
		s, err := filestore.Open(dir, &filestore.Options{ReadOnly: true})
		require.NoError(b, err)
		return s
	}
	b.Run("10000/kept", func(b *testing.B) {
		for b.Loop() {
			s := reopen(b)
			list(b, s)
			s.Close()
		}
	})
	b.Run("10000/op", func(b *testing.B) {
		s := reopen(b)
		defer s.Close()
		for b.Loop() {
			list(b, s)
		}
	})
	b.Run("10000/floor", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.ListSessions(b.Context(), benchProject); err != nil {
				b.Fatal(err)
			}
		}
	})
	require.NoError(b, os.RemoveAll(filepath.Join(dir, filestore.PrivateDir)))
	b.Run("10000/none", func(b *testing.B) {
		for b.Loop() {
			s := reopen(b)
			list(b, s)
			s.Close()
		}
	})
}
