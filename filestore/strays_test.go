package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	sessions "github.com/sessionstore/sessionstore/session"
)

// Summaries hold prompts. Each of these must drop those of deleted transcripts.
func TestSummariesOfWhatOthersHaveDeletedGo(t *testing.T) {
	first, other, gone := benchKeyIn(project, 1), benchKeyIn(project, 2), benchKeyIn("-gone", 1)
	for name, c := range map[string]struct {
		do      func(s *filestore.Store) error
		project bool // the summaries of the project that is gone go too
		session bool // and those of the session that is gone
	}{
		"ListSessions": {func(s *filestore.Store) error { _, err := s.ListSessions(t.Context(), project); return err }, false, true},
		"ShortList": {func(s *filestore.Store) error {
			_, err := sessions.List(t.Context(), s, project, &sessions.ListOptions{Limit: 1})
			return err
		}, false, true},
		"ListOfTheGoneProject": {func(s *filestore.Store) error { _, err := s.ListSessions(t.Context(), "-gone"); return err }, true, false},
		"ListProjects":         {func(s *filestore.Store) error { _, err := s.ListProjects(t.Context()); return err }, true, false},
		"Purge": {func(s *filestore.Store) error {
			_, err := s.Purge(t.Context(), time.Now().Add(-time.Hour))
			return err
		}, true, true},
		"Delete": {func(s *filestore.Store) error { return s.Delete(t.Context(), gone) }, true, false},
		"DropStrays": {func(s *filestore.Store) error {
			n, err := s.DropStrays(t.Context())
			require.Equal(t, 2, n)
			return err
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			for _, key := range []sessionstore.Key{first, other, gone} {
				appendAll(t, s, key, title("secret"))
			}
			require.NoError(t, os.Remove(filepath.Join(dir, project, first.SessionID+".jsonl")))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "-gone")))
			require.NoError(t, c.do(s))
			kept := func(key sessionstore.Key) bool {
				_, err := os.Lstat(filepath.Join(dir, filestore.SummaryFile(key)))
				return err == nil
			}
			require.True(t, kept(other), "that of a session that is there")
			require.Equal(t, !c.session, kept(first))
			require.Equal(t, !c.project, kept(gone))
			_, err := open(t, dir, &filestore.Options{ReadOnly: true}).ListProjects(t.Context())
			require.NoError(t, err)
			require.Equal(t, !c.project, kept(gone), "a store for reading changes nothing")
		})
	}
}

// replaceWithSameInode deletes a file and makes another one, until it has the
// inode of the first.
func replaceWithSameInode(t *testing.T, file, text string) {
	t.Helper()
	before, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Remove(file))
	for i := range 100 {
		candidate := write(t, text, fmt.Sprint(file, ".", i))
		info, err := os.Stat(candidate)
		require.NoError(t, err)
		if os.SameFile(before, info) {
			require.NoError(t, os.Rename(candidate, file))
			return
		}
	}
	t.Skip("this file system does not use inodes again at once")
}

// The third of three files gets the inode of the first one again on some file
// systems, and has its end.
func TestAFileThatTakesTheInodeOfItsPredecessorIsReadAnew(t *testing.T) {
	for _, name := range []string{"Beginning", "Middle"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			filler := func(x string) sessionstore.Entry { return user(strings.Repeat(x, 400)) } // more than is compared
			if name == "Middle" && filestore.Birth(t, s, ".") == 0 {
				t.Skip("this system does not tell when a file was made")
			}
			if name == "Beginning" {
				appendAll(t, s, mainKey, title("one"), filler("a"))
			} else {
				appendAll(t, s, mainKey, filler("a"), title("one"), filler("b"))
			}
			file := mainFile(dir)
			text := read(t, file)
			require.Equal(t, "one", titleOf(t, s))
			replaceWithSameInode(t, file, strings.ReplaceAll(text, `"one"`, `"two"`)+line(sessionstore.Entry(`{"type":"assistant","uuid":"z"}`)))
			require.Equal(t, "two", titleOf(t, s))
			appendAll(t, s, mainKey, user("c"))
			requireFold(t, s, mainKey)
			requireFold(t, open(t, dir, nil), mainKey)
		})
	}
}
