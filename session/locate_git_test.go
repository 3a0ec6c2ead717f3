package session_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/session"
)

// A hook of git tells its children of the repository that it is for.
func TestWorktreesAreThoseOfTheDirectory(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	here, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{here, other} {
		require.NoError(t, exec.Command("git", "-C", dir, "init", "-q").Run())
	}
	want, err := session.Worktrees(t.Context(), here)
	require.NoError(t, err)
	require.Len(t, want, 1)
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_WORK_TREE", other)
	t.Setenv("GIT_COMMON_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other, "index"))
	got, err := session.Worktrees(t.Context(), here)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWorktreesDoNotWaitForWhatGitHasStarted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	bin := t.TempDir()
	fake := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n"+script), 0o700))
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	started := filepath.Join(bin, "started")
	fake("sleep 60 & echo > " + started + "; sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel()
			}
		}
	}()
	_, err := session.Worktrees(ctx, bin)
	require.ErrorIs(t, err, context.Canceled)
	fake(`sleep 60 & printf 'worktree /x\000HEAD 1\000\000'`)
	got, err := session.Worktrees(t.Context(), bin)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.FromSlash("/x")}, got)
}

func TestAPlaceThatIsNamedTwiceCountsOnce(t *testing.T) {
	const id = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
	store := inmemory.New()
	key := sessionstore.Key{ProjectKey: "a", SessionID: id}
	require.NoError(t, store.Append(t.Context(), key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"1"}`), sessionstore.Entry(`{"type":"custom-title","customTitle":"T"}`),
	}))
	got, err := session.Joined(store, key, []sessionstore.Key{key, key}).Load(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, got, 2)
}
