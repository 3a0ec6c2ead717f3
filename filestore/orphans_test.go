package filestore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestOrphansAreSessionsWithoutMain(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	orphans := func() []string {
		t.Helper()
		list, err := s.ListOrphans(t.Context(), project)
		require.NoError(t, err)
		require.NotNil(t, list)
		return list
	}
	require.Empty(t, orphans(), "an unknown project")
	key := func(session, subpath string) sessionstore.Key {
		return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: subpath}
	}
	appendAll(t, s, mainKey, user("a"))
	appendAll(t, s, subKey, user("a"))
	appendAll(t, s, key("z", "deep/er/x"), user("a"))
	appendAll(t, s, key("a b", "x"), metadata("m"))
	write(t, "", dir, project, "b.jsonl") // an empty file is nothing
	appendAll(t, s, key("b", "x"), user("a"))
	write(t, "x", dir, project, "files", "tool-results", "1.txt")
	write(t, "", dir, project, "nothing", "x.jsonl")
	write(t, "{}\n", dir, project, "bad name", "x.jsonl")
	require.Equal(t, []string{"a b", "b", "z"}, orphans())
	require.Empty(t, seen)

	appendAll(t, s, key("z", ""), user("a"))
	require.NoError(t, s.Delete(t.Context(), key("b", "x")))
	require.Equal(t, []string{"a b"}, orphans())
	symlink(t, "nowhere", dir, project, "link")
	require.Equal(t, []string{"a b"}, orphans())
	require.Equal(t, []string{project + "/link"}, seen.paths())

	_, err := s.ListOrphans(t.Context(), "")
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
}
