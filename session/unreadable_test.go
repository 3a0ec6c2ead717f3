package session

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// partly is a store of which some lists can't be read, or not whole.
type partly struct {
	*inmemory.Store
	closed string          // the project of which nothing can be listed
	hidden map[string]bool // sessions and subpaths that are missing in lists
}

var errUnreadable = errors.New("unreadable")

func (s *partly) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	list, err := s.Store.ListSessions(ctx, project)
	if project == s.closed {
		return nil, errUnreadable
	}
	n := len(list)
	list = slices.DeleteFunc(list, func(i sessionstore.SessionInfo) bool { return s.hidden[i.SessionID] })
	if len(list) < n {
		err = errUnreadable
	}
	return list, err
}

func (s *partly) ListSessionSummaries(context.Context, string) ([]sessionstore.SessionSummary, error) {
	return nil, errors.ErrUnsupported
}

func (s *partly) ListSubkeys(ctx context.Context, project, id string) ([]string, error) {
	list, _ := s.Store.ListSubkeys(ctx, project, id)
	return slices.DeleteFunc(list, func(sub string) bool { return s.hidden[sub] }), errUnreadable
}

func TestWhatCannotBeListedHidesNothingElse(t *testing.T) {
	dir := t.TempDir()
	project, err := sessionstore.ProjectKey(dir)
	require.NoError(t, err)
	s := &partly{Store: inmemory.New(), hidden: map[string]bool{otherID: true}}
	for _, id := range []string{testID, otherID} {
		appendTo(t, s, sessionstore.Key{ProjectKey: project, SessionID: id}, user("u", ""))
	}
	list, err := List(t.Context(), s, project, nil)
	require.ErrorIs(t, err, errUnreadable)
	require.Len(t, list, 1)
	inDir, err := ListDir(t.Context(), s, dir, nil)
	require.ErrorIs(t, err, errUnreadable)
	require.Len(t, inDir, 1)
	_, ok, err := Info(t.Context(), s, sessionstore.Key{ProjectKey: project, SessionID: testID})
	require.NoError(t, err)
	require.True(t, ok)
	_, _, err = Info(t.Context(), s, sessionstore.Key{ProjectKey: project, SessionID: otherID})
	require.ErrorIs(t, err, errUnreadable, "not unknown")
	_, _, err = Latest(t.Context(), s, project)
	require.ErrorIs(t, err, errUnreadable, "the missing one may be newer")
}

func TestOneProjectOfSeveralCannotBeListed(t *testing.T) {
	main, _, beside := repo(t)
	s := &partly{Store: inmemory.New(), closed: keyOf(t, beside)}
	for i, dir := range []string{main, beside} {
		appendTo(t, s, sessionstore.Key{ProjectKey: keyOf(t, dir), SessionID: []string{testID, otherID}[i]}, user("u", ""))
	}
	list, err := ListDir(t.Context(), s, main, &DirOptions{IncludeWorktrees: true})
	require.ErrorIs(t, err, errUnreadable)
	require.Len(t, list, 1)
	require.Equal(t, testID, list[0].SessionID)
}

func TestSubagentsBesideWhatCannotBeListed(t *testing.T) {
	s := &partly{Store: inmemory.New(), hidden: map[string]bool{"subagents/w/agent-2": true}}
	for _, sub := range []string{"subagents/agent-1", "subagents/w/agent-2"} {
		appendTo(t, s, subKey(testID, sub), user("u", ""))
	}
	ids, err := Subagents(t.Context(), s, mainKey(testID))
	require.ErrorIs(t, err, errUnreadable)
	require.Equal(t, []string{"1"}, ids)
	c, err := SubagentMessages(t.Context(), s, mainKey(testID), "1", nil)
	require.NoError(t, err)
	require.Len(t, c.Messages, 1)
	_, err = SubagentMessages(t.Context(), s, mainKey(testID), "2", nil)
	require.ErrorIs(t, err, errUnreadable, "not unknown")
}

// keepsAll is a store that keeps repeats.
type keepsAll struct{ list []sessionstore.Entry }

func (s keepsAll) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error { return nil }

func (s keepsAll) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return s.list, nil
}

func (s keepsAll) Stream(context.Context, sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		for _, e := range s.list {
			if !yield(slices.Clone(e), nil) {
				return
			}
		}
	}
}

func TestStreamTakesTheFirstOfRepeatsAlsoWhenItHasToWait(t *testing.T) {
	said := func(uuid, parent, text string) sessionstore.Entry {
		return sessionstore.Entry(entry("user", uuid, parent, `,"message":{"content":"`+text+`"}`))
	}
	s := keepsAll{[]sessionstore.Entry{said("x", "b", "first"), said("b", "a", "b"), said("x", "b", "again"), said("a", "", "a")}}
	want := messages(t, s, nil)
	require.Len(t, want.Messages, 3)
	for _, limit := range []int{0, 1, len(s.list[0]) + 10} {
		require.Equal(t, want, streamed(t, s, nil, limit))
	}
}
