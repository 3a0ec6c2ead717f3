package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func at(project, sub string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: project, SessionID: testID, Subpath: sub}
}

// timed is message n of a conversation, with its time.
func timed(n int) sessionstore.Entry {
	parent := "null"
	if n > 1 {
		parent = fmt.Sprintf(`"u%d"`, n-1)
	}
	typ := []string{"assistant", "user"}[n%2]
	return sessionstore.Entry(fmt.Sprintf(`{"type":%q,"uuid":"u%d","parentUuid":%s,"timestamp":"2026-01-01T00:00:%02dZ","message":{"role":%q,"content":"%d"}}`, typ, n, parent, n, typ, n))
}

func title(text string) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(`{"type":"custom-title","customTitle":%q}`, text))
}

func put(t *testing.T, store sessionstore.SessionStore, key sessionstore.Key, list ...sessionstore.Entry) {
	t.Helper()
	require.NoError(t, store.Append(t.Context(), key, list))
}

func textOf(t *testing.T, store sessionstore.SessionStore, key sessionstore.Key) string {
	t.Helper()
	list, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	lines := make([]string, len(list))
	for i, e := range list {
		if lines[i] = e.UUID(); lines[i] == "" {
			lines[i] = e.Type()
			if _, after, ok := strings.Cut(string(e), `"customTitle":"`); ok {
				lines[i] = strings.TrimSuffix(after, `"}`)
			}
		}
	}
	return strings.Join(lines, " ")
}

func keysOf(places []Place) (keys []string) {
	for _, p := range places {
		keys = append(keys, p.Key.ProjectKey)
	}
	return keys
}

func TestLocateFindsASessionUnderEveryProjectKey(t *testing.T) {
	store := &projectTimes{Store: inmemory.New(), mtimes: map[string]int64{"a": 5, "b": 9, "c": 5}}
	put(t, store, at("a", ""), timed(1))
	put(t, store, at("b", ""), timed(2))
	put(t, store, at("c", ""), timed(3))
	put(t, store, at("0", "subagents/agent-1"), timed(4))
	put(t, store, sessionstore.Key{ProjectKey: "d", SessionID: otherID}, timed(1))

	places, err := Locate(t.Context(), store, testID, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a", "c", "0"}, keysOf(places), "newest first, then by key, then without main transcript")
	require.Equal(t, []int64{9, 5, 5, 0}, []int64{places[0].Mtime, places[1].Mtime, places[2].Mtime, places[3].Mtime})
	require.True(t, places[3].SubpathsOnly)

	places, err = Locate(t.Context(), store, testID, &LocateOptions{Projects: []string{"c", "d", "a", "c"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, keysOf(places))

	places, err = Locate(t.Context(), store, unknownID, nil)
	require.NoError(t, err)
	require.Empty(t, places)
}

// projectTimes says when the sessions of each project were written.
type projectTimes struct {
	*inmemory.Store
	mtimes map[string]int64
}

func (s *projectTimes) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	list, err := s.Store.ListSessions(ctx, project)
	for i := range list {
		list[i].Mtime = s.mtimes[project]
	}
	return list, err
}

func (s *projectTimes) ListSessionSummaries(context.Context, string) ([]sessionstore.SessionSummary, error) {
	return nil, errors.ErrUnsupported
}

func TestLocateWithBadIDsCallsNothing(t *testing.T) {
	for _, id := range []string{"", "x", "../x", "--version", testID + "\n" + testID} {
		places, err := Locate(t.Context(), nil, id, nil)
		require.NoError(t, err)
		require.Empty(t, places)
	}
}

func TestLocateOnSmallStoresAndInOutages(t *testing.T) {
	mem := inmemory.New()
	put(t, mem, at("a", ""), timed(1))
	small := loadOnly{mem}
	_, err := Locate(t.Context(), small, testID, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	places, err := Locate(t.Context(), small, testID, &LocateOptions{Projects: []string{"a", "b"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, keysOf(places))

	broken := errors.New("broken")
	_, err = Locate(t.Context(), outage{mem, broken}, testID, nil)
	require.ErrorIs(t, err, broken, "an outage is never an unknown session")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Locate(ctx, mem, testID, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// loadOnly hides what a store can do besides.
type loadOnly struct{ store sessionstore.SessionStore }

func (s loadOnly) Append(ctx context.Context, k sessionstore.Key, e []sessionstore.Entry) error {
	return s.store.Append(ctx, k, e)
}

func (s loadOnly) Load(ctx context.Context, k sessionstore.Key) ([]sessionstore.Entry, error) {
	return s.store.Load(ctx, k)
}

type outage struct {
	*inmemory.Store
	err error
}

func (f outage) Stream(context.Context, sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) { yield(nil, f.err) }
}

// An agent went into a worktree and stayed there.
func TestJoinAfterAMove(t *testing.T) {
	store := inmemory.New()
	put(t, store, at("a", ""), title("T1"), timed(1), timed(2))
	put(t, store, at("a", "subagents/agent-1"), timed(5))
	put(t, store, at("b", ""), title("T1"), timed(2), timed(3), title("T2"), timed(4), title("T1"))
	put(t, store, at("b", "subagents/agent-2"), timed(6))
	places := []sessionstore.Key{at("b", ""), at("a", "")}
	want := "T1 u1 u2 u3 T2 u4 T1"

	view := Joined(store, at("a", ""), places)
	require.Equal(t, want, textOf(t, view, at("a", "")))
	c, err := Messages(t.Context(), view, at("a", ""), nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 4)
	info, ok, err := Info(t.Context(), view, at("a", ""))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "T1", info.Summary)
	ids, err := Subagents(t.Context(), view, at("a", ""))
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, ids)
	require.ErrorIs(t, view.Append(t.Context(), at("a", ""), nil), errors.ErrUnsupported)
	require.Equal(t, "u6", textOf(t, view, at("b", "subagents/agent-2")), "other sessions are as they are")

	for range 2 { // the second one adds nothing
		_, err = Join(t.Context(), store, at("a", ""), places)
		require.NoError(t, err)
		require.Equal(t, want, textOf(t, store, at("a", "")))
		require.Equal(t, "u6", textOf(t, store, at("a", "subagents/agent-2")))
		require.Equal(t, want, textOf(t, view, at("a", "")), "the view is the same afterwards")
	}
	put(t, store, at("b", ""), timed(7))
	report, err := Join(t.Context(), store, at("a", ""), places)
	require.NoError(t, err)
	require.Equal(t, 1, report.Entries)
	require.Equal(t, want+" u7", textOf(t, store, at("a", "")))
}

// It came back: no place holds the beginning of the whole.
func TestJoinAfterComingBack(t *testing.T) {
	store := inmemory.New()
	put(t, store, at("a", ""), timed(1), title("T1"), timed(2), timed(5), title("T3"), timed(6))
	put(t, store, at("b", ""), title("T1"), timed(3), title("T2"), timed(4))
	places := []sessionstore.Key{at("a", ""), at("b", "")}
	_, err := Join(t.Context(), store, at("a", ""), places)
	require.ErrorIs(t, err, sessionstore.ErrDiverged)
	require.Equal(t, "u1 T1 u2 u5 T3 u6", textOf(t, store, at("a", "")), "nothing is changed")

	for range 2 {
		_, err = Join(t.Context(), store, at("whole", ""), places)
		require.NoError(t, err)
		require.Equal(t, "u1 T1 u2 u3 T2 u4 u5 T3 u6", textOf(t, store, at("whole", "")))
	}
	c, err := Messages(t.Context(), store, at("whole", ""), nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 6)
	require.Empty(t, c.Gaps)
	_, err = Join(t.Context(), store, sessionstore.Key{ProjectKey: "a", SessionID: "../x"}, places)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
}

// However a conversation is spread over places, joining gives it back.
func TestJoinedGivesTheConversationBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		store, n := inmemory.New(), 1+random.IntN(40)
		projects := []string{"a", "b", "c"}[:1+random.IntN(3)]
		here, want := 0, []string(nil)
		for i := 1; i <= n; i++ {
			if random.IntN(4) == 0 {
				here = random.IntN(len(projects))
			}
			put(t, store, at(projects[here], ""), timed(i))
			want = append(want, fmt.Sprintf("u%d", i))
			if random.IntN(3) == 0 { // an entry without time or uuid, told apart by its text
				mark := fmt.Sprintf("m%d", i)
				put(t, store, at(projects[here], ""), title(mark))
				want = append(want, mark)
			}
		}
		var places []sessionstore.Key
		for _, p := range projects {
			places = append(places, at(p, ""))
		}
		random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		require.Equal(t, strings.Join(want, " "), textOf(t, Joined(store, at("x", ""), places), at("x", "")))
	}
}

func TestJoinedAtEqualTimesAndOfEqualEntries(t *testing.T) {
	store := inmemory.New()
	same := func(uuid string, second int) sessionstore.Entry {
		return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":%q,"timestamp":"2026-01-01T00:00:%02dZ"}`, uuid, second))
	}
	put(t, store, at("a", ""), same("a1", 1), title("T"), title("T"), same("a5", 5), same("a2", 2))
	put(t, store, at("b", ""), same("b3", 3), title("T"), same("b5", 5), title("U"), same("b6", 6))
	for _, places := range [][]sessionstore.Key{{at("a", ""), at("b", "")}, {at("b", ""), at("a", "")}} {
		require.Equal(t, "a1 T T b3 a5 a2 b5 U b6", textOf(t, Joined(store, at("x", ""), places), at("x", "")))
	}
}

func TestJoinedEndsWithTheReader(t *testing.T) {
	store := inmemory.New()
	for i := range 20 {
		put(t, store, at([]string{"a", "b"}[i%2], ""), timed(i+1))
	}
	n := 0
	for range sessionstore.Stream(t.Context(), Joined(store, at("x", ""), []sessionstore.Key{at("a", ""), at("b", "")}), at("x", "")) {
		if n++; n == 3 {
			break
		}
	}
	broken := errors.New("broken")
	_, err := Joined(outage{store, broken}, at("x", ""), []sessionstore.Key{at("a", "")}).Load(t.Context(), at("x", ""))
	require.ErrorIs(t, err, broken)
}

// repo makes a git repository with one worktree inside and one beside it.
func repo(t *testing.T) (main, inside, beside string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	main, beside = filepath.Join(top, "repo"), filepath.Join(top, "wörk tree")
	inside = filepath.Join(main, ".claude", "worktrees", "w1")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("init", "-q", main)
	run("-C", main, "commit", "-q", "--allow-empty", "-m", "x")
	run("-C", main, "worktree", "add", "-q", inside)
	run("-C", main, "worktree", "add", "-q", "-b", "two", beside)
	return main, inside, beside
}

func keyOf(t *testing.T, dir string) string {
	t.Helper()
	key, err := sessionstore.ProjectKey(dir)
	require.NoError(t, err)
	return key
}

func TestSessionsOfWorktreesAreFoundAlsoWhenTheyAreGone(t *testing.T) {
	main, inside, beside := repo(t)
	store := &projectTimes{Store: inmemory.New(), mtimes: map[string]int64{keyOf(t, main): 1, keyOf(t, inside): 2, keyOf(t, beside): 3}}
	const third = "bbbbbbbb-0000-4000-8000-000000000003"
	put(t, store, sessionstore.Key{ProjectKey: keyOf(t, main), SessionID: testID}, timed(1))
	put(t, store, sessionstore.Key{ProjectKey: keyOf(t, inside), SessionID: otherID}, timed(1))
	put(t, store, sessionstore.Key{ProjectKey: keyOf(t, beside), SessionID: third}, timed(1))
	put(t, store, sessionstore.Key{ProjectKey: keyOf(t, beside), SessionID: testID}, timed(2)) // moved
	check := func(dir string, worktrees bool, want ...string) {
		t.Helper()
		list, err := ListDir(t.Context(), store, dir, &DirOptions{IncludeWorktrees: worktrees})
		require.NoError(t, err)
		var ids []string
		for _, s := range list {
			ids = append(ids, s.SessionID)
			if s.SessionID == testID && worktrees {
				require.Equal(t, keyOf(t, beside), s.ProjectKey, "the newest place is shown")
				require.Equal(t, int64(3), s.LastModified)
			}
		}
		slices.Sort(ids)
		require.Equal(t, want, ids)
	}
	check(main, false, testID)
	for _, dir := range []string{main, inside, beside} {
		check(dir, true, testID, otherID, third)
	}
	require.NoError(t, os.RemoveAll(inside))
	require.NoError(t, os.RemoveAll(beside))
	check(main, true, testID, otherID, third)
	check(inside, true, testID, otherID, third)
	check(inside, false, otherID)
	check(beside, false, third) // of the moved session there is nothing to show yet

	keys, err := ProjectKeys(t.Context(), main, true)
	require.NoError(t, err)
	places, err := Locate(t.Context(), store, testID, &LocateOptions{Projects: keys})
	require.NoError(t, err)
	require.Equal(t, []string{keyOf(t, beside), keyOf(t, main)}, keysOf(places))
}

func TestListDirLeavesOutOtherDirectoriesOfTheSameKey(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir, twin := filepath.Join(top, "a", "b-c"), filepath.Join(top, "a", "b", "c")
	require.Equal(t, keyOf(t, dir), keyOf(t, twin))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	store := inmemory.New()
	in := func(id, cwd string) {
		put(t, store, sessionstore.Key{ProjectKey: keyOf(t, dir), SessionID: id},
			sessionstore.Entry(fmt.Sprintf(`{"type":"user","cwd":%q,"message":{"content":"x"}}`, cwd)))
	}
	in(testID, dir)
	in(otherID, twin)
	const moved, nowhere = "bbbbbbbb-0000-4000-8000-000000000003", "bbbbbbbb-0000-4000-8000-000000000004"
	in(moved, filepath.Join(top, "elsewhere"))
	in(nowhere, "")
	for d, want := range map[string][]string{dir: {testID, moved, nowhere}, twin: {otherID, moved, nowhere}} {
		list, err := ListDir(t.Context(), store, d, nil)
		require.NoError(t, err)
		var ids []string
		for _, s := range list {
			ids = append(ids, s.SessionID)
		}
		require.ElementsMatch(t, want, ids)
	}
}

// A subagent is stored before the first entry of its main transcript.
func TestASubagentBeforeItsSession(t *testing.T) {
	store := inmemory.New()
	put(t, store, at("a", "subagents/agent-1"), timed(1))
	list, err := List(t.Context(), store, "a", nil)
	require.NoError(t, err)
	require.Empty(t, list)
	put(t, store, at("a", ""), timed(1))
	list, err = List(t.Context(), store, "a", nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	ids, err := Subagents(t.Context(), store, at("a", ""))
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, ids)
	c, err := SubagentMessages(t.Context(), store, at("a", ""), "1", nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 1)
}

func TestListDirPages(t *testing.T) {
	main, _, beside := repo(t)
	store := inmemory.New()
	for i := range 10 {
		dir := []string{main, beside}[i%2]
		put(t, store, sessionstore.Key{ProjectKey: keyOf(t, dir), SessionID: fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", i)}, timed(1))
	}
	whole, err := ListDir(t.Context(), store, main, &DirOptions{IncludeWorktrees: true})
	require.NoError(t, err)
	require.Len(t, whole, 10)
	for offset := 0; offset < 12; offset += 3 {
		some, err := ListDir(t.Context(), store, main, &DirOptions{IncludeWorktrees: true, Limit: 3, Offset: offset})
		require.NoError(t, err)
		require.Equal(t, whole[min(offset, 10):min(offset+3, 10)], some)
	}
	_, err = ListDir(t.Context(), loadOnly{store}, main, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestADirectoryReachedThroughALinkKeepsItsKeyWhenItIsGone(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir := filepath.Join(top, "real", "x")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(top, "real"), filepath.Join(top, "link")))
	for range 2 {
		keys, err := ProjectKeys(t.Context(), filepath.Join(top, "link", "x"), false)
		require.NoError(t, err)
		require.Equal(t, []string{keyOf(t, filepath.Join(top, "real")) + "-x"}, keys)
		require.NoError(t, os.RemoveAll(dir))
	}
}

func TestNoRepositoryAndNoGit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	trees, err := Worktrees(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, trees)
	t.Setenv("PATH", t.TempDir())
	keys, err := ProjectKeys(t.Context(), dir, true)
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

func TestParseWorktrees(t *testing.T) {
	const out = "worktree /srv/repo.git\x00bare\x00\x00" +
		"worktree /home/me/main\x00HEAD 1\x00branch refs/heads/main\x00\x00" +
		"worktree /home/me/with\nnewline\x00HEAD 1\x00detached\x00locked why\nwhy\x00\x00" +
		"worktree /home/me/gone\x00HEAD 1\x00detached\x00prunable gitdir file points to non-existent location\x00\x00"
	require.Equal(t, []string{filepath.FromSlash("/home/me/main"), filepath.FromSlash("/home/me/with\nnewline"), filepath.FromSlash("/home/me/gone")}, parseWorktrees([]byte(out)))
	require.Empty(t, parseWorktrees(nil))
}
