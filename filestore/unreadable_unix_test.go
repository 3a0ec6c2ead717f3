//go:build unix

package filestore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/internal/testuser"
)

// lock takes rights away until the test ends.
func lock(t *testing.T, mode fs.FileMode, elem ...string) (unlock func()) {
	name := filepath.Join(elem...)
	require.NoError(t, os.Chmod(name, mode))
	unlock = func() { os.Chmod(name, 0o700) }
	t.Cleanup(unlock)
	return unlock
}

func TestUnreadableProjectIsListed(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		for _, mode := range []fs.FileMode{0, 0o400, 0o100} {
			dir := t.TempDir()
			var seen skips
			s := open(t, dir, seen.options())
			appendAll(t, s, mainKey, user("a"))
			appendAll(t, s, sessionstore.Key{ProjectKey: "-other", SessionID: "x"}, user("a"))
			lock(t, mode, dir, project)
			projects, err := s.ListProjects(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{project, "-other"}, projects)
			_, err = s.ListSessions(t.Context(), project)
			require.ErrorIs(t, err, fs.ErrPermission, "mode %o", mode)
			_, err = s.ListOrphans(t.Context(), project)
			require.ErrorIs(t, err, fs.ErrPermission, "mode %o", mode)
			if mode != 0o100 { // the session is found by its name
				_, err = s.ListSubkeys(t.Context(), project, session)
				require.ErrorIs(t, err, fs.ErrPermission, "mode %o", mode)
			}
			require.Empty(t, seen)
		}
	})
}

func TestUnreadableRootIsAnError(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, mainKey, user("a"))
		lock(t, 0, dir)
		_, err := s.ListProjects(t.Context())
		require.ErrorIs(t, err, fs.ErrPermission)
		_, err = s.Load(t.Context(), mainKey)
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}

func TestUnreadableDirectoryOfASession(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		var seen skips
		s := open(t, dir, seen.options())
		appendAll(t, s, mainKey, user("a"))
		appendAll(t, s, subKey, user("a"))
		appendAll(t, s, sub("subagents/closed"), user("a"))
		appendAll(t, s, sub("locked/x"), user("a"))
		appendAll(t, s, sub("too/x"), user("a"))
		lock(t, 0, dir, project, session, "subagents", "closed.jsonl")
		lock(t, 0, dir, project, session, "locked")
		lock(t, 0o400, dir, project, session, "too")

		subpaths, err := s.ListSubkeys(t.Context(), project, session)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Regexp(t, session+"/(locked|too): permission denied", err.Error())
		require.ErrorContains(t, err, "the first of 2 errors")
		require.Equal(t, []string{subKey.Subpath, "subagents/closed"}, subpaths, "the others are there")
		require.Empty(t, seen)
		for _, path := range []string{"subagents/closed", "locked/x", "too/x"} {
			_, err = s.Load(t.Context(), sub(path))
			require.ErrorIs(t, err, fs.ErrPermission, "not unknown")
		}
		_, err = sessionstore.Copy(t.Context(), open(t, t.TempDir(), nil), s, mainKey, nil)
		require.ErrorIs(t, err, fs.ErrPermission, "a copy without it is none")
	})
}

func TestSessionThatCannotBeReadMayHoldSomething(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, sub("locked/x"), user("a"))
		lock(t, 0, dir, project, session, "locked")
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{project}, projects)
		orphans, err := s.ListOrphans(t.Context(), project)
		require.NoError(t, err)
		require.Equal(t, []string{session}, orphans)
	})
}

func TestLinkIntoWhatCannotBeReadIsAnError(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, subKey, user("a"))
		symlink(t, "../-closed/s", dir, project, session, "link")
		symlink(t, "../-closed/s.jsonl", dir, "-other", "s.jsonl")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "-closed", "s"), 0o700))
		lock(t, 0, dir, "-closed")
		require.NoError(t, os.Remove(filepath.Join(dir, project, session, "link")))
		symlink(t, "../../-closed/s", dir, project, session, "link")
		_, err := s.ListSubkeys(t.Context(), project, session)
		require.ErrorIs(t, err, fs.ErrPermission)
		_, err = s.ListSessions(t.Context(), "-other")
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}

func TestPurgeTellsWhatItCannotRead(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		key := func(project, session, subpath string) sessionstore.Key {
			return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: subpath}
		}
		for _, k := range []sessionstore.Key{
			key("-a", "x", ""), key("-b", "x", ""), key("-b", "y", ""), key("-b", "y", "locked/z"), key("-c", "x", ""),
		} {
			appendAll(t, s, k, user("a"))
		}
		unlock := lock(t, 0, dir, "-a")
		unlockSub := lock(t, 0, dir, "-b", "y", "locked")
		later := time.Now().Add(time.Hour)
		report, err := s.Purge(t.Context(), later)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Equal(t, sessionstore.PurgeReport{Sessions: 2, Transcripts: 2}, report, "the others go all the same")
		unlock()
		unlockSub()
		report, err = s.Purge(t.Context(), later)
		require.NoError(t, err)
		require.Equal(t, sessionstore.PurgeReport{Sessions: 2, Transcripts: 3}, report)
		require.Empty(t, files(t, dir))
	})
}

func TestUnreadableSidecarIsAnError(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, subKey, metadata("m"), user("a"))
		lock(t, 0, dir, project, session, strings.TrimPrefix(subKey.Subpath, session)+".meta.json")
		_, err := s.Load(t.Context(), subKey)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorIs(t, s.Append(t.Context(), subKey, numbered(1)), fs.ErrPermission, "it may hold this uuid")
	})
}

func TestUnreadableTranscriptHidesNoOtherSummary(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, line(title("one")), mainFile(dir))
		s := open(t, dir, nil)
		appendAll(t, s, benchKeyIn(project, 1), title("two"))
		lock(t, 0, mainFile(dir))
		list, err := s.ListSessionSummaries(t.Context(), project)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Len(t, list, 1)
		require.Equal(t, benchKeyIn(project, 1).SessionID, list[0].SessionID)
		_, _, err = s.SessionSummary(t.Context(), mainKey)
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}

func TestSummariesWithoutPlaceAreMadeEachTime(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, mainKey, title("one"))
		lock(t, 0o500, dir, filestore.PrivateDir, "summaries", project)
		lock(t, 0o400, dir, filestore.SummaryFile(mainKey))
		appendAll(t, s, mainKey, title("two"))
		require.Equal(t, "two", titleOf(t, open(t, dir, nil)))
		require.ErrorIs(t, s.Delete(t.Context(), mainKey), fs.ErrPermission, "it must not stay behind")
	})
}
