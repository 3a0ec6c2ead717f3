package session

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// singleSummaries is a store that makes summaries as they are asked for.
type singleSummaries struct {
	*filestore.Store
	lists, singles atomic.Int32
}

func (s *singleSummaries) ListSessionSummaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	s.lists.Add(1)
	return s.Store.ListSessionSummaries(ctx, project)
}

func (s *singleSummaries) SessionSummary(ctx context.Context, key sessionstore.Key) (sessionstore.SessionSummary, bool, error) {
	s.singles.Add(1)
	return s.Store.SessionSummary(ctx, key)
}

func openFiles(t testing.TB, dir string) *filestore.Store {
	s, err := filestore.Open(dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPageOfADirectoryMakesOnlyItsSummaries(t *testing.T) {
	s := &singleSummaries{Store: openFiles(t, t.TempDir())}
	for i := range 20 {
		appendTo(t, s, mainKey(sessionN(i)), user("u", ""))
	}
	require.Len(t, list(t, s, &ListOptions{Limit: 3, Offset: 2}), 3)
	require.EqualValues(t, 5, s.singles.Load())
	require.Zero(t, s.lists.Load())

	_, ok, err := Info(t.Context(), s, mainKey(sessionN(7)))
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 6, s.singles.Load())
	require.Zero(t, s.lists.Load())

	_, ok, err = Latest(t.Context(), s, testProject)
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, s.lists.Load())

	require.Len(t, list(t, s, nil), 20)
	require.EqualValues(t, 1, s.lists.Load())
	require.EqualValues(t, 6, s.singles.Load())
}

func TestSummariesThatComeWithAnErrorAreUsed(t *testing.T) {
	s := manySessions(t, 2)
	s.summariesErr = errBroken
	s.summaries = []sessionstore.SessionSummary{{SessionID: sessionN(0), Mtime: 1000, Data: []byte(`{"customTitle":"kept"}`)}}
	s.broken[sessionN(1)] = true
	rows, err := List(t.Context(), s, testProject, nil)
	require.ErrorIs(t, err, errBroken)
	require.Len(t, rows, 1)
	require.Equal(t, "kept", rows[0].Summary)

	s.summaries = nil
	rows, err = List(t.Context(), s, testProject, nil)
	require.ErrorIs(t, err, errBroken)
	require.Empty(t, rows)
}

func cwd(dir, text string) string {
	return `{"type":"user","cwd":"` + dir + `","message":{"content":"` + text + `"}}`
}

func TestDirectoriesThatShareAKeyAreToldApart(t *testing.T) {
	const one, two = "/a/spec-rl", "/a/spec/rl"
	keyOne, err := sessionstore.ProjectKey(one)
	require.NoError(t, err)
	keyTwo, err := sessionstore.ProjectKey(two)
	require.NoError(t, err)
	require.Equal(t, keyOne, keyTwo)

	s := inmemory.New()
	for i, dir := range []string{one, two, one, ""} {
		appendTo(t, s, sessionstore.Key{ProjectKey: keyOne, SessionID: sessionN(i)}, cwd(dir, "hello"))
	}
	for _, st := range []sessionstore.SessionStore{s, withoutSummaries(s)} {
		ids := func(opts *ListOptions) (list []string) {
			rows, err := List(t.Context(), st, keyOne, opts)
			require.NoError(t, err)
			for _, r := range rows {
				list = append(list, r.SessionID)
			}
			return list
		}
		require.Len(t, ids(nil), 4)
		require.ElementsMatch(t, []string{sessionN(0), sessionN(2), sessionN(3)}, ids(&ListOptions{Cwd: one}))
		require.ElementsMatch(t, []string{sessionN(1), sessionN(3)}, ids(&ListOptions{Cwd: two + "/"}))
		require.ElementsMatch(t, []string{sessionN(3)}, ids(&ListOptions{Cwd: "/other"}), "it names none")
		all := ids(&ListOptions{Cwd: one})
		require.Equal(t, all[1:2], ids(&ListOptions{Cwd: one, Offset: 1, Limit: 1}), "pages are of what is left")
	}
}

func TestSpellingsAreSearchedOnlyOnWindows(t *testing.T) {
	s := inmemory.New()
	for _, project := range []string{"d--p", "D--p", "d--q"} {
		appendTo(t, s, sessionstore.Key{ProjectKey: project, SessionID: testID}, user("u", ""))
	}
	for key, want := range map[string][]string{
		"d--p": {"d--p", "D--p"}, "D--p": {"D--p", "d--p"}, "d--Q": {"d--Q", "d--q"}, "x": {"x"},
	} {
		got, err := spellings(t.Context(), s, key, "windows")
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = spellings(t.Context(), noStore{t}, key, "darwin")
		require.NoError(t, err)
		require.Equal(t, []string{key}, got)
	}
	_, err := spellings(t.Context(), bareStore{s}, "d--p", "windows")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.True(t, sameDir("C:/x", "c:/X/", "windows"))
	require.False(t, sameDir("/x", "/X", "linux"))
}
