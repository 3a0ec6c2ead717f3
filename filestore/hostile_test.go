package filestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

func symlink(t testing.TB, target string, elem ...string) {
	t.Helper()
	name := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	if err := os.Symlink(target, name); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

func TestLinksOutOfTheStoreLeadNowhere(t *testing.T) {
	outside := t.TempDir()
	secret := write(t, string(user("secret"))+"\n", outside, "secret.jsonl")
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, mainKey, user("a"))
	up, err := filepath.Rel(filepath.Join(dir, project), secret)
	require.NoError(t, err)
	symlink(t, secret, dir, project, "absolute.jsonl")
	symlink(t, up, dir, project, "relative.jsonl")
	symlink(t, "nothing", dir, project, "dangling.jsonl")
	symlink(t, outside, dir, project, "dir")
	symlink(t, outside, dir, "-other")
	symlink(t, secret, dir, project, session, "x.meta.json")

	key := func(project, session, subpath string) sessionstore.Key {
		return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: subpath}
	}
	for _, k := range []sessionstore.Key{
		key(project, "absolute", ""), key(project, "relative", ""), key(project, "dangling", ""),
		key(project, "dir", "secret"), key("-other", "secret", ""), sub("x"),
	} {
		_, err := s.Load(t.Context(), k)
		require.Error(t, err, "%v", k)
	}
	for _, k := range []sessionstore.Key{
		key(project, "absolute", ""), key(project, "relative", ""), key(project, "dangling", ""),
		key(project, "dir", "secret"), key(project, "dir", "new"), key("-other", "new", ""),
	} {
		require.Error(t, s.Append(t.Context(), k, numbered(1)), "%v", k)
		require.Error(t, s.Append(t.Context(), k, []sessionstore.Entry{user("z")}), "%v", k)
	}

	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{project + "/absolute.jsonl", project + "/dangling.jsonl", project + "/relative.jsonl"}, seen.paths())
	seen = nil
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{project}, projects)
	require.Equal(t, []string{"-other"}, seen.paths())
	seen = nil
	for _, id := range []string{session, "dir"} {
		subpaths, err := s.ListSubkeys(t.Context(), project, id)
		require.NoError(t, err)
		require.Empty(t, subpaths)
	}
	require.Equal(t, []string{project + "/" + session + "/x.meta.json", project + "/dir"}, seen.paths())

	for _, id := range []string{"absolute", "relative", "dir"} {
		require.NoError(t, s.Delete(t.Context(), key(project, id, "")))
	}
	_, err = s.Purge(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, []string{"secret.jsonl"}, files(t, outside), "nothing outside is deleted or made")
	require.Equal(t, string(user("secret"))+"\n", read(t, secret))
}

func TestLinksInsideTheStoreAreFollowed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	symlink(t, project, dir, "-linked")
	symlink(t, "../"+project+"/"+session+".jsonl", dir, "-file", "copy.jsonl")
	linked := mainKey
	linked.ProjectKey = "-linked"
	appendAll(t, s, linked, user("b"))
	appendAll(t, s, sessionstore.Key{ProjectKey: "-file", SessionID: "copy"}, user("c"))
	require.Equal(t, texts(user("a"), user("b"), user("c")), load(t, s, mainKey))
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"-file", project, "-linked"}, projects)
}

func TestLinkBackUpEndsTheWalk(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, subKey, user("a"))
	symlink(t, "..", dir, project, session, "subagents", "loop")
	subpaths, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Equal(t, []string{subKey.Subpath}, subpaths)
	require.Len(t, seen, 1)
}

func TestOddNamesAreSkippedAndReported(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, subKey, user("a"))
	appendAll(t, s, mainKey, user("a"))
	bad := []string{"with space.jsonl", "!zz.jsonl", "!61.jsonl", ".hidden.jsonl", strings.Repeat("x", 245) + ".jsonl", "é.jsonl"}
	for _, name := range bad {
		write(t, "{}\n", dir, project, name)
		write(t, "{}\n", dir, project, session, "subagents", name)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, project, "directory.jsonl"), 0o700))
	write(t, "{}", dir, project, session, "tool-results", "1.txt") // the agent's own
	write(t, "{}\n", dir, project, session, "bad dir", "x.jsonl")
	write(t, "{}\n", dir, "not a project", "x.jsonl")
	write(t, "", dir, "file")

	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Len(t, seen, len(bad)+1)
	seen = nil
	subpaths, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Equal(t, []string{subKey.Subpath}, subpaths)
	require.Len(t, seen, len(bad)+1)
	seen = nil
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{project}, projects)
	require.Equal(t, []string{"not a project"}, seen.paths())
}

func TestWhatIsNoFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, project, "dir.jsonl"), 0o700))
	key := sessionstore.Key{ProjectKey: project, SessionID: "dir"}
	_, err := s.Load(t.Context(), key)
	require.ErrorContains(t, err, "not a regular file")
	require.Error(t, s.Append(t.Context(), key, numbered(1)))

	pipe := filepath.Join(dir, project, "pipe.jsonl")
	if err := mkfifo(pipe); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	key.SessionID = "pipe"
	_, err = s.Load(t.Context(), key) // must not wait for a writer
	require.ErrorContains(t, err, "not a regular file")
	require.ErrorContains(t, s.Append(t.Context(), key, numbered(1)), "not a regular file")
}

// pipe makes a named pipe. Opening one waits for its other end, and nothing can
// cancel that.
func pipe(t *testing.T, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	if err := mkfifo(name); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	return name
}

// doesNotWait fails the test if f gets stuck.
func doesNotWait(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}

func TestPipeInThePlaceOfTheRoot(t *testing.T) {
	root := pipe(t, t.TempDir(), "root")
	for _, opts := range []*filestore.Options{nil, {ReadOnly: true}} {
		doesNotWait(t, func() {
			_, err := filestore.Open(root, opts)
			require.Error(t, err)
		})
	}
}

func TestPipeInThePlaceOfTheFormat(t *testing.T) {
	dir := t.TempDir()
	format := pipe(t, dir, filestore.FormatFile)
	refused := func() {
		_, err := filestore.Open(dir, nil)
		require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	}
	doesNotWait(t, refused)
	// With a writer at the other end it is the reading that would wait.
	end, err := os.OpenFile(format, os.O_RDWR, 0)
	require.NoError(t, err)
	defer end.Close()
	doesNotWait(t, refused)
}

func TestPipeInThePlaceOfAProject(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	pipe(t, dir, "-pipe")
	key := sessionstore.Key{ProjectKey: "-pipe", SessionID: "x"}
	doesNotWait(t, func() {
		_, err := s.ListSessions(t.Context(), "-pipe")
		require.Error(t, err)
		_, err = s.ListOrphans(t.Context(), "-pipe")
		require.Error(t, err)
		_, err = s.Load(t.Context(), key)
		require.Error(t, err)
		require.Error(t, s.Append(t.Context(), key, numbered(1)))
		require.Error(t, s.Delete(t.Context(), key))
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Empty(t, projects)
	})
}

func TestPipeInThePlaceOfASession(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, mainKey, user("a"))
	pipe(t, dir, project, session)
	pipe(t, dir, project, "orphan")
	doesNotWait(t, func() {
		orphans, err := s.ListOrphans(t.Context(), project)
		require.NoError(t, err)
		require.Empty(t, orphans)
		require.Empty(t, seen)
		subpaths, err := s.ListSubkeys(t.Context(), project, session)
		require.NoError(t, err)
		require.Empty(t, subpaths)
		require.Equal(t, []string{project + "/" + session}, seen.paths())
		_, err = s.Load(t.Context(), subKey)
		require.Error(t, err)
		require.Error(t, s.Append(t.Context(), subKey, numbered(1)))
		require.NoError(t, s.Delete(t.Context(), mainKey))
	})
}

func TestFileInThePlaceOfADirectoryIsAnError(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, "x", dir, project)
	_, err := s.Load(t.Context(), mainKey)
	require.Error(t, err)
	require.Error(t, s.Append(t.Context(), mainKey, numbered(1)))
	_, err = s.ListSessions(t.Context(), project)
	require.Error(t, err)
	require.Equal(t, "x", read(t, dir, project))
}

func TestDeleteRemovesLeftoversAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	appendAll(t, s, sub("a"), user("a"), metadata("a"))
	appendAll(t, s, sub("a/b"), user("b"))
	appendAll(t, s, sub("a/c/d"), metadata("d"))
	other := sessionstore.Key{ProjectKey: project, SessionID: session + "1"}
	appendAll(t, s, other, user("o"))

	require.NoError(t, s.Delete(t.Context(), sub("a")))
	require.Nil(t, load(t, s, sub("a")))
	require.Equal(t, texts(user("b")), load(t, s, sub("a/b")))

	// What a killed append has left goes with the last transcript beside it.
	write(t, "{", dir, project, session, "a", "c", ".sessionstore-0123456789abcdef.tmp")
	require.NoError(t, s.Delete(t.Context(), sub("a/c/d")))
	require.NoDirExists(t, filepath.Join(dir, project, session, "a", "c"))

	write(t, "x", dir, project, session, "tool-results", "1.txt")
	for range 2 {
		require.NoError(t, s.Delete(t.Context(), mainKey))
		require.Equal(t, []string{project + "/" + session + "1.jsonl"}, files(t, dir))
	}
	require.NoError(t, s.Delete(t.Context(), other))
	require.NoDirExists(t, filepath.Join(dir, project))
	require.NoError(t, s.Delete(t.Context(), other), "nor the project is there")
}

func TestPurgeTakesWholeSessionsByAge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cut := time.UnixMilli(time.Now().UnixMilli() - 60_000)
	for id, age := range map[string]time.Duration{"older": -1, "same": 0, "newer": 1} {
		key := sessionstore.Key{ProjectKey: project, SessionID: id}
		appendAll(t, s, key, user("a"))
		key.Subpath = "x/y"
		appendAll(t, s, key, user("b"), metadata("m"))
		when := cut.Add(age * time.Millisecond)
		require.NoError(t, os.Chtimes(filepath.Join(dir, project, id+".jsonl"), when, when))
	}
	appendAll(t, s, sessionstore.Key{ProjectKey: project, SessionID: "subonly", Subpath: "x"}, user("c"))
	report, err := s.Purge(t.Context(), cut)
	require.NoError(t, err)
	require.Equal(t, sessionstore.PurgeReport{Sessions: 1, Transcripts: 2}, report)
	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, list, 2)
	report, err = s.Purge(t.Context(), cut.Add(time.Microsecond))
	require.NoError(t, err)
	require.Equal(t, 1, report.Sessions, "times are whole milliseconds")
}
