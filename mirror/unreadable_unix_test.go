//go:build unix

package mirror_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testuser"
	"github.com/sessionstore/sessionstore/mirror"
)

func TestWhatCannotBeReadIsAnErrorAndDoesNotStopTheRest(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, lines(user("a")), dir, mainFile)
		secret := write(t, lines(user("b")), dir, project, "secret.jsonl")
		require.NoError(t, os.Chmod(secret, 0))
		locked := filepath.Join(dir, "locked")
		require.NoError(t, os.Mkdir(locked, 0))
		s := newFake()
		_, err := mirror.Watch(t.Context(), dir, s, &mirror.WatchOptions{Once: true})
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, "locked")
		require.ErrorContains(t, err, "secret")
		require.Len(t, load(t, s, mainKey), 1)

		require.NoError(t, os.Chmod(secret, 0o600))
		require.NoError(t, os.Chmod(locked, 0o700))
		once(t, dir, s)
		require.Len(t, load(t, s, sessionstore.Key{ProjectKey: project, SessionID: "secret"}), 1)
	})
}

func TestSpillDirectoryWithoutPermissionHoldsTheKey(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		s := newFake()
		dir := keep(t, s, 0, nil, numbered(0, 3))
		sub := filepath.Dir(spilled(t, dir)[0])
		require.NoError(t, os.Chmod(sub, 0))
		m := open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, numbered(3, 4)))
		err := m.Close(t.Context())
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Empty(t, load(t, s, mainKey), "it must not overtake what cannot be read")
		require.NoError(t, os.Chmod(sub, 0o700))
		_, err = mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.Len(t, load(t, s, mainKey), 3)
	})
}
