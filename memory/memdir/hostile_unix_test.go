//go:build unix

package memdir

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

// A file and a directory are exchanged for links that lead out, again and
// again, while the store is used.
func TestLinksThatAreSwappedInNeverLeadOut(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1_000
	}
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o600))
	s := open(t, dir, "scope")
	scope := filepath.Join(dir, "scope")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Remove(filepath.Join(scope, "f"))
			_ = os.Symlink(filepath.Join(outside, "f"), filepath.Join(scope, "f"))
			_ = os.RemoveAll(filepath.Join(scope, "d"))
			_ = os.Symlink(outside, filepath.Join(scope, "d"))
			_ = os.Remove(filepath.Join(scope, "f"))
			_ = os.WriteFile(filepath.Join(scope, "f"), []byte("inside"), 0o600)
			_ = os.Remove(filepath.Join(scope, "d"))
			_ = os.Mkdir(filepath.Join(scope, "d"), 0o700)
		}
	})
	for i := range rounds {
		for _, path := range []string{"/memories/f", "/memories/d/f"} {
			if f, err := s.Read(t.Context(), path, 0); err == nil {
				require.NotContains(t, string(f.Data), "secret")
			}
		}
		if i%10 == 0 {
			_ = s.Write(t.Context(), "/memories/f", []byte("inside"), "", memory.Limits{})
			_ = s.Write(t.Context(), "/memories/d/new", []byte("inside"), "", memory.Limits{})
			_ = s.Delete(t.Context(), "/memories/d/f")
			_, err := s.List(t.Context(), memory.Root)
			require.NoError(t, err)
		}
	}
	close(stop)
	wg.Wait()
	names, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, names, 1, "something was written or deleted outside")
	got, err := os.ReadFile(filepath.Join(outside, "f"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(got))
}

func TestOneBadEntryDoesNotHideTheOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "scope")
	scope := filepath.Join(dir, "scope")
	require.NoError(t, s.Write(t.Context(), "/memories/good", []byte("text"), "", memory.Limits{}))
	require.NoError(t, s.Write(t.Context(), "/memories/unreadable", nil, "", memory.Limits{}))
	require.NoError(t, os.Chmod(filepath.Join(scope, "unreadable"), 0))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(scope, "dangling")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(scope, "outside")))
	require.NoError(t, os.Symlink("loop", filepath.Join(scope, "loop")))
	require.NoError(t, os.Symlink("good", filepath.Join(scope, "inside")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(scope, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(scope, "not an encoded name"), nil, 0o600))
	large, err := os.Create(filepath.Join(scope, "large"))
	require.NoError(t, err)
	require.NoError(t, large.Truncate(1<<30))
	require.NoError(t, large.Close())
	require.NoError(t, os.Mkdir(filepath.Join(scope, "closed"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(scope, "closed"), 0o700) })

	list, err := s.List(t.Context(), memory.Root)
	require.NoError(t, err)
	sizes := map[string]int64{}
	for _, f := range list {
		sizes[f.Path] = f.Size
	}
	require.Equal(t, map[string]int64{"/memories/good": 4, "/memories/inside": 4, "/memories/large": 1 << 30, "/memories/unreadable": 0}, sizes)

	_, err = s.Read(t.Context(), "/memories/large", 1<<20)
	require.ErrorIs(t, err, memory.ErrTooLarge)
	for _, path := range []string{"dangling", "loop", "pipe", "outside"} {
		_, err := s.Read(t.Context(), "/memories/"+path, 0)
		require.Error(t, err, path)
	}
	tool, err := memory.New(s, nil)
	require.NoError(t, err)
	r := tool.Run(t.Context(), []byte(`{"command":"view","path":"/memories/outside"}`))
	require.True(t, r.IsError)
	require.NotContains(t, r.Text(), dir)
	require.NotContains(t, r.Text(), "root")
}

// A pipe without another end in the place of a file or directory stops nobody.
func TestAPipeInThePlaceOfAFileBlocksNobody(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "scope")
	require.NoError(t, s.Write(t.Context(), "/memories/good", []byte("text"), "", memory.Limits{}))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "scope", "pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "scope", "link")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range []string{"/memories/pipe", "/memories/link"} {
			assert.ErrorIs(t, s.Write(ctx, p, nil, "", memory.Limits{}), memory.ErrExists)
			assert.ErrorIs(t, s.Write(ctx, p, nil, "version", memory.Limits{}), memory.ErrConflict)
			assert.ErrorIs(t, s.Write(ctx, p+"/below", nil, "", memory.Limits{}), memory.ErrNotDirectory)
			assert.ErrorIs(t, s.Rename(ctx, "/memories/good", p), memory.ErrExists)
			assert.ErrorIs(t, s.Rename(ctx, "/memories/good", p+"/below"), memory.ErrNotDirectory)
			assert.ErrorIs(t, s.Rename(ctx, p, "/memories/other"), memory.ErrNotFound)
			assert.ErrorIs(t, s.Delete(ctx, p), memory.ErrNotFound)
		}
		assert.NoError(t, s.Write(ctx, "/memories/next", nil, "", memory.Limits{}))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		// Let them go, so that the test ends.
		f, err := os.OpenFile(filepath.Join(dir, "scope", "pipe"), os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		<-done
		t.Fatal("a pipe blocked a writer")
	}
}

func TestADeletedScopeIsAnOutage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "scope")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "scope")))
	_, err := s.Read(t.Context(), "/memories/f", 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, memory.ErrNotFound)
	_, err = s.List(t.Context(), memory.Root)
	require.Error(t, err)
	require.Error(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}))
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, "scope", &Options{ReadOnly: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	writer := open(t, dir, "scope")
	require.NoError(t, writer.Write(t.Context(), "/memories/f", []byte("text"), "", memory.Limits{}))
	old := time.Now().Add(-30 * 24 * time.Hour).Truncate(time.Second)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "scope", "f"), old, old))
	s, err := Open(dir, "scope", &Options{ReadOnly: true})
	require.NoError(t, err)
	defer s.Close()
	f, err := s.Read(t.Context(), "/memories/f", 0)
	require.NoError(t, err)
	require.ErrorIs(t, s.Write(t.Context(), "/memories/f", nil, f.Version, memory.Limits{}), os.ErrPermission)
	require.ErrorIs(t, s.Delete(t.Context(), "/memories/f"), os.ErrPermission)
	info, err := os.Stat(filepath.Join(dir, "scope", "f"))
	require.NoError(t, err)
	require.Equal(t, old, info.ModTime())
}

func TestNamesThatDifferInCaseAreRefusedOnADiskThatFoldsThem(t *testing.T) {
	s := open(t, t.TempDir(), "scope")
	s.folds = true // as it would be there
	require.NoError(t, s.Write(t.Context(), "/memories/d/a.md", []byte("text"), "", memory.Limits{}))
	require.ErrorIs(t, s.Write(t.Context(), "/memories/d/A.md", nil, "", memory.Limits{}), memory.ErrExists)
	require.ErrorIs(t, s.Write(t.Context(), "/memories/D/b", nil, "", memory.Limits{}), memory.ErrExists)
	require.ErrorIs(t, s.Rename(t.Context(), "/memories/d/a.md", "/memories/d/A.md"), memory.ErrExists)
	_, err := s.Read(t.Context(), "/memories/D/a.md", 0)
	require.ErrorIs(t, err, memory.ErrNotFound)
}
