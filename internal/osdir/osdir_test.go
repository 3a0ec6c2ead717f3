package osdir

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockKeepsOthersOutUntilItIsReleased(t *testing.T) {
	dir := t.TempDir()
	open := func() *os.File {
		f, err := os.Open(dir)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	require.NoError(t, Lock(t.Context(), first, true))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, Lock(ctx, second, false), context.DeadlineExceeded)
	require.NoError(t, Unlock(first))
	require.NoError(t, Lock(t.Context(), second, true))
}

func TestFoldsCaseAgreesWithTheDisk(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.WriteFile("name", nil, 0o600))
	_, err = root.Stat("NAME")
	require.Equal(t, err == nil, FoldsCase(root, dir))
}
