//go:build unix

package mirror_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

// nobodyEnv makes the test process an ordinary user before it does anything.
const nobodyEnv = "MIRROR_TEST_NOBODY"

func init() {
	if os.Getenv(nobodyEnv) == "" {
		return
	}
	const nobody = 65534
	err := syscall.Setgid(nobody)
	if err == nil {
		err = syscall.Setuid(nobody)
	}
	if err != nil {
		panic(err)
	}
}

// asOrdinaryUser runs a test, because permissions do not stop root, in a
// process of its own if need be.
func asOrdinaryUser(t *testing.T, test func(t *testing.T)) {
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	temp, err := os.MkdirTemp("/tmp", "mirror-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(temp) })
	require.NoError(t, os.Chmod(temp, 0o777))
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), nobodyEnv+"=1", "TMPDIR="+temp)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func TestWhatCannotBeReadIsAnErrorAndDoesNotStopTheRest(t *testing.T) {
	asOrdinaryUser(t, func(t *testing.T) {
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
	asOrdinaryUser(t, func(t *testing.T) {
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
