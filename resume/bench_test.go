package resume_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/resume"
)

// 64 MiB in entries of 2 KB, in a main transcript and eight subagents, against
// io.Copy of the same files.
func BenchmarkMaterialize(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	line := `{"type":"user","uuid":"00000000-0000-4000-8000-000000000000","message":"` + strings.Repeat("some words ", 180) + "\"}\n"
	names := []string{id}
	for _, n := range strings.Split("1 2 3 4 5 6 7 8", " ") {
		names = append(names, filepath.Join(id, "subagents", "agent-"+n))
	}
	for _, name := range names {
		path := filepath.Join(dir, project, name+".jsonl")
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o700))
		text := strings.Repeat(line, size/len(names)/len(line))
		require.NoError(b, os.WriteFile(path, []byte(strings.ReplaceAll(text, `"uuid"`, `"uuid_"`)), 0o600))
	}
	store, err := filestore.Open(dir, nil)
	require.NoError(b, err)
	defer store.Close()

	b.Run("op", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			s, err := resume.Materialize(b.Context(), store, resume.Options{SessionID: id, ProjectKey: project})
			require.NoError(b, err)
			b.StopTimer()
			require.NoError(b, s.Close())
			b.StartTimer()
		}
	})
	b.Run("validated", func(b *testing.B) { // what reading the store costs
		b.SetBytes(size)
		for b.Loop() {
			for _, name := range names {
				key := mainKey
				if name != id {
					key = sub(filepath.ToSlash(strings.TrimPrefix(name, id+"/")))
				}
				for _, err := range sessionstore.Stream(b.Context(), store, key) {
					require.NoError(b, err)
				}
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			to := b.TempDir()
			b.StartTimer()
			for i, name := range names {
				copyFile(b, filepath.Join(dir, project, name+".jsonl"), filepath.Join(to, string(rune('a'+i))))
			}
			b.StopTimer()
			require.NoError(b, os.RemoveAll(to))
			b.StartTimer()
		}
	})
}

func copyFile(b *testing.B, from, to string) {
	src, err := os.Open(from)
	require.NoError(b, err)
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	require.NoError(b, err)
	_, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
	require.NoError(b, err)
	require.NoError(b, dst.Close())
}
