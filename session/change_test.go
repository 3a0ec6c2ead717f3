package session

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func TestIDsThatAreNoUUIDsNeverReachTheStore(t *testing.T) {
	ctx, s, tag := t.Context(), noStore{t}, "x"
	for _, id := range []string{"", "nope", "../x", testID + "0", "bbbbbbbb-0000-4000-8000-00000000000g", "bbbbbbbb_0000-4000-8000-000000000001"} {
		key := mainKey(id)
		c, err := Messages(ctx, s, key, nil)
		require.NoError(t, err)
		require.Empty(t, c)
		c, err = SubagentMessages(ctx, s, key, "a", nil)
		require.NoError(t, err)
		require.Empty(t, c)
		ids, err := Subagents(ctx, s, key)
		require.NoError(t, err)
		require.Empty(t, ids)
		_, ok, err := Info(ctx, s, key)
		require.NoError(t, err)
		require.False(t, ok)
		require.ErrorIs(t, Rename(ctx, s, key, "x"), sessionstore.ErrInvalidKey)
		require.ErrorIs(t, Tag(ctx, s, key, &tag), sessionstore.ErrInvalidKey)
		require.ErrorIs(t, Delete(ctx, s, key), sessionstore.ErrInvalidKey)
		_, err = Fork(ctx, s, key, nil)
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	}
	require.True(t, isUUID("BBBBBBBB-0000-0000-FFFF-00000000000a"))
}

func TestKeysOfSubpathsAreRefused(t *testing.T) {
	ctx, s, key, tag := t.Context(), noStore{t}, subKey(testID, "subagents/agent-x"), "x"
	_, messagesErr := Messages(ctx, s, key, nil)
	_, subagentErr := SubagentMessages(ctx, s, key, "x", nil)
	_, subagentsErr := Subagents(ctx, s, key)
	_, _, infoErr := Info(ctx, s, key)
	_, forkErr := Fork(ctx, s, key, nil)
	for _, err := range []error{messagesErr, subagentErr, subagentsErr, infoErr, forkErr,
		Rename(ctx, s, key, "x"), Tag(ctx, s, key, &tag), Delete(ctx, s, key)} {
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	}
	require.EqualError(t, messagesErr, "session: messages p/"+testID+"#subagents/agent-x: invalid key: it names a subpath; this function takes a session")
}

func TestEmptyTitlesAndTagsAreErrors(t *testing.T) {
	for _, empty := range []string{"", " ", "\n\t\u00a0\ufeff\u2028"} {
		require.ErrorContains(t, Rename(t.Context(), noStore{t}, mainKey(testID), empty), "the title is empty")
		require.ErrorContains(t, Tag(t.Context(), noStore{t}, mainKey(testID), &empty), "the tag is empty")
	}
}

func TestRenameAndTagAppendOneEntry(t *testing.T) {
	s := newStore(t, testID, user("u1", ""))
	m := scripted(t, "2026-01-02T03:04:05.678901Z", unknownID, otherID, sessionN(3))
	tag := " <t>\u0000 "
	require.NoError(t, m.rename(t.Context(), s, mainKey(testID), " A & \"B\"\xff "))
	require.NoError(t, m.tag(t.Context(), s, mainKey(testID), &tag))
	require.NoError(t, m.tag(t.Context(), s, mainKey(testID), nil))
	got := load(t, s, mainKey(testID))
	tail := `"sessionId":"` + testID + `","uuid":"%s","timestamp":"2026-01-02T03:04:05.678Z"}`
	require.Equal(t, `{"type":"custom-title","customTitle":"A & \"B\"\ufffd",`+sprintf(tail, unknownID), string(got[1]))
	require.Equal(t, `{"type":"tag","tag":"<t>\u0000",`+sprintf(tail, otherID), string(got[2]))
	require.Equal(t, `{"type":"tag","tag":"",`+sprintf(tail, sessionN(3)), string(got[3]))
}

// failing is a store whose calls fail on demand.
type failing struct {
	*inmemory.Store
	appends int   // how many succeed
	deletes error // of Delete
	err     error
	lands   bool // the failing append is stored all the same
	cancel  context.CancelFunc

	deleted []sessionstore.Key
}

func (s *failing) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	if s.appends--; s.appends < 0 {
		if s.lands {
			_ = s.Store.Append(ctx, key, entries)
		}
		if s.cancel != nil {
			s.cancel()
		}
		return s.err
	}
	return s.Store.Append(ctx, key, entries)
}

func (s *failing) Delete(ctx context.Context, key sessionstore.Key) error {
	if s.deletes != nil {
		return s.deletes
	}
	s.deleted = append(s.deleted, key)
	return s.Store.Delete(ctx, key)
}

func TestErrorsOfTheStoreComeThrough(t *testing.T) {
	s := &failing{Store: newStore(t, testID, user("u", "")), err: errBroken}
	require.ErrorIs(t, Rename(t.Context(), s, mainKey(testID), "x"), errBroken)
	s.deletes = errBroken
	require.EqualError(t, Delete(t.Context(), s, mainKey(testID)), "session: delete p/"+testID+": broken")
	s.deletes = errors.ErrUnsupported
	require.NoError(t, Delete(t.Context(), s, mainKey(testID)))

	broken := manySessions(t, 1)
	broken.broken[sessionN(0)] = true
	require.ErrorIs(t, Rename(t.Context(), broken, mainKey(sessionN(0)), "x"), errBroken)
	_, err := Messages(t.Context(), broken, mainKey(sessionN(0)), nil)
	require.ErrorIs(t, err, errBroken)
	_, err = Fork(t.Context(), broken, mainKey(sessionN(0)), nil)
	require.ErrorIs(t, err, errBroken)
	lister := noSummaries{SessionStore: broken.SessionStore, SessionLister: &listStore{sessions: errBroken}}
	require.ErrorIs(t, Rename(t.Context(), lister, mainKey(sessionN(0)), "x"), errBroken)
}

func TestWhatIsNoEntryIsCorrupt(t *testing.T) {
	for _, bad := range []string{``, `[]`, `{"a":`, "{\"a\":\"\xff\"}"} {
		s := repeating{inmemory.New(), []string{user("u", ""), bad}}
		_, err := Messages(t.Context(), s, mainKey(testID), nil)
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, bad)
		_, err = Fork(t.Context(), s, mainKey(testID), nil)
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, bad)
	}
}
