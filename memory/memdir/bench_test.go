package memdir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func BenchmarkTool(b *testing.B) {
	dir := b.TempDir()
	memorytest.Bench(b, open(b, dir, "scope"), func() error {
		_, err := os.ReadFile(filepath.Join(dir, "scope", "notes.md"))
		return err
	}, func(data []byte) error {
		f, err := os.Create(filepath.Join(dir, "floor"))
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Sync(), f.Close())
	})
}
