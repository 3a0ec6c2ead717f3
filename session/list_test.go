package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// listStore answers lists as a test wants and counts what is read.
type listStore struct {
	sessionstore.SessionStore
	sessions, summariesErr error
	infos                  []sessionstore.SessionInfo
	summaries              []sessionstore.SessionSummary

	loads, entries, now atomic.Int32
	broken              map[string]bool // sessions that can't be read
	gate                chan struct{}   // if not nil, each read waits here
}

func (s *listStore) ListSessions(context.Context, string) ([]sessionstore.SessionInfo, error) {
	return s.infos, s.sessions
}

func (s *listStore) ListSessionSummaries(context.Context, string) ([]sessionstore.SessionSummary, error) {
	return s.summaries, s.summariesErr
}

var errBroken = errors.New("broken")

func (s *listStore) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		s.loads.Add(1)
		s.now.Add(1)
		defer s.now.Add(-1)
		if s.gate != nil {
			<-s.gate
		}
		if s.broken[key.SessionID] {
			yield(nil, errBroken)
			return
		}
		for e, err := range sessionstore.Stream(ctx, s.SessionStore, key) {
			if s.entries.Add(1); !yield(e, err) {
				return
			}
		}
	}
}

func sessionN(i int) string { return fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", i) }

// manySessions returns a store of n sessions, the one with the lowest number
// the newest, without summaries.
func manySessions(t testing.TB, n int) *listStore {
	s := &listStore{SessionStore: inmemory.New(), summariesErr: errors.ErrUnsupported, broken: map[string]bool{}}
	for i := range n {
		appendTo(t, s, mainKey(sessionN(i)), user("u", ""))
		s.infos = append(s.infos, sessionstore.SessionInfo{SessionID: sessionN(i), Mtime: int64(1000 - i)})
	}
	return s
}

func list(t testing.TB, s sessionstore.SessionStore, opts *ListOptions) []string {
	t.Helper()
	rows, err := List(t.Context(), s, testProject, opts)
	require.NoError(t, err)
	ids := []string{}
	for _, r := range rows {
		ids = append(ids, r.SessionID)
	}
	return ids
}

func TestListLoadsOnlyWhatThePageNeeds(t *testing.T) {
	s := manySessions(t, 100)
	require.Len(t, list(t, s, &ListOptions{Limit: 5, Offset: 10}), 5)
	require.EqualValues(t, 15, s.loads.Load())

	s.loads.Store(0)
	require.Empty(t, list(t, s, &ListOptions{Offset: 200, Limit: 5}))
	require.EqualValues(t, 100, s.loads.Load())

	// One with nothing to show makes one more necessary.
	s.loads.Store(0)
	require.NoError(t, sessionstore.Delete(t.Context(), s.SessionStore, mainKey(sessionN(1))))
	require.Equal(t, []string{sessionN(0), sessionN(2)}, list(t, s, &ListOptions{Limit: 2}))
	require.EqualValues(t, 3, s.loads.Load())
}

func TestListLoadsAtMost16AtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := manySessions(t, 100)
		s.gate = make(chan struct{})
		done := make(chan []string)
		go func() { done <- list(t, s, nil) }()
		for released := 0; released < 100; {
			synctest.Wait() // until all loads wait at the gate
			waiting := int(s.now.Load())
			require.Equal(t, min(16, 100-released), waiting)
			for range waiting {
				s.gate <- struct{}{}
			}
			released += waiting
		}
		require.Len(t, <-done, 100)
	})
}

func TestListReadsSummariesAndOnlyStaleTranscripts(t *testing.T) {
	s := manySessions(t, 6)
	s.summariesErr = nil
	data := json.RawMessage(`{"customTitle":"from the summary"}`)
	s.summaries = []sessionstore.SessionSummary{
		{SessionID: sessionN(0), Mtime: 1000, Data: data},
		{SessionID: sessionN(1), Mtime: 998, Data: data}, // stale
		{SessionID: sessionN(2), Mtime: 2000, Data: data},
		{SessionID: sessionN(3), Mtime: 997, Data: json.RawMessage(`{"customTitle":`)},
		{SessionID: sessionN(4), Mtime: 996, Data: nil},
		{SessionID: unknownID, Mtime: 5000, Data: data}, // deleted since
	}
	rows, err := List(t.Context(), s, testProject, nil)
	require.NoError(t, err)
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.SessionID[len(r.SessionID)-1:], " ", r.LastModified, " ", r.Summary))
	}
	require.Equal(t, []string{
		"2 2000 from the summary", // written while the list was made
		"0 1000 from the summary", "1 999 u", "3 997 u", "4 996 u", "5 995 u",
	}, got)
	require.EqualValues(t, 4, s.loads.Load())
	info, ok, err := Info(t.Context(), s, mainKey(sessionN(0)))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "from the summary", info.Summary)
	require.EqualValues(t, 4, s.loads.Load(), "info reads the summary")
	info, _, err = Info(t.Context(), s, mainKey(sessionN(1)))
	require.NoError(t, err)
	require.Equal(t, "u", info.Summary)
}

func TestListWithSummariesAlone(t *testing.T) {
	s := &listStore{SessionStore: inmemory.New(), sessions: errors.ErrUnsupported}
	s.summaries = []sessionstore.SessionSummary{
		{SessionID: testID, Mtime: 1, Data: json.RawMessage(`{"aiTitle":"a"}`)},
		{SessionID: otherID, Mtime: 2, Data: json.RawMessage(`null`)},
		{SessionID: "not a uuid", Mtime: 3, Data: json.RawMessage(`{"lastPrompt":"b"}`)},
	}
	require.Equal(t, []string{testID}, list(t, s, nil), "an id that is no UUID is an unknown session, as for Info")
	require.Zero(t, s.loads.Load())
}

func TestListGoesOnPastSessionsThatCannotBeRead(t *testing.T) {
	s := manySessions(t, 5)
	s.broken[sessionN(1)] = true
	rows, err := List(t.Context(), s, testProject, &ListOptions{Limit: 3})
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "session: list p: session "+sessionN(1)+": broken")
	require.Len(t, rows, 3)
	require.Equal(t, sessionN(3), rows[2].SessionID)
}

func TestListErrors(t *testing.T) {
	_, err := List(t.Context(), bareStore{inmemory.New()}, testProject, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, _, err = Latest(t.Context(), bareStore{inmemory.New()}, testProject)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	s := manySessions(t, 2)
	s.summariesErr = errBroken
	_, err = List(t.Context(), s, testProject, nil)
	require.ErrorIs(t, err, errBroken)
	s.sessions = errBroken
	_, _, err = Info(t.Context(), s, mainKey(sessionN(0)))
	require.ErrorIs(t, err, errBroken)
	var op *sessionstore.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, sessionstore.OpError{Package: "session", Op: "info", Key: mainKey(sessionN(0)), Err: errBroken}, *op)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s = manySessions(t, 2)
	rows, err := List(ctx, s, testProject, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, rows)
}

func TestListFillsInTheDirectory(t *testing.T) {
	s := newStore(t, testID, user("u", ""))
	appendTo(t, s, mainKey(otherID), entry("user", "u", "", `,"cwd":"/own","message":{"content":"x"}`))
	for _, dir := range []string{"", "/asked"} {
		rows, err := List(t.Context(), s, testProject, &ListOptions{Dir: dir})
		require.NoError(t, err)
		got := map[string]string{}
		for _, r := range rows {
			got[r.SessionID] = r.Cwd
		}
		require.Equal(t, map[string]string{testID: dir, otherID: "/own"}, got)
	}
}

func TestHalfSurrogatePairsInTitles(t *testing.T) {
	s, ok := info(t, `{"type":"custom-title","customTitle":"a\ud83d \ud83d\ude00"}`)
	require.True(t, ok)
	require.Equal(t, "a\uFFFD 😀", s.CustomTitle)
	require.Contains(t, string(s.Data), `"a\ud83d \ud83d\ude00"`)
}

func TestLatestReadsOnlyTheFirstEntryOfWhatItMust(t *testing.T) {
	s := manySessions(t, 4)
	s.infos = append([]sessionstore.SessionInfo{{SessionID: "no-uuid", Mtime: 5000}, {SessionID: unknownID, Mtime: 4000}}, s.infos...)
	require.NoError(t, sessionstore.Delete(t.Context(), s.SessionStore, mainKey(sessionN(0))))
	appendTo(t, s, mainKey(sessionN(0)), `{"isSidechain":true}`, user("u", ""), user("v", "u"))
	latest, ok, err := Latest(t.Context(), s, testProject)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, sessionstore.SessionInfo{SessionID: sessionN(1), Mtime: 999}, latest)
	require.EqualValues(t, 3, s.loads.Load())
	require.EqualValues(t, 2, s.entries.Load())

	s.broken[sessionN(0)] = true
	_, _, err = Latest(t.Context(), s, testProject)
	require.ErrorIs(t, err, errBroken, "an older session must not be taken for the newest")

	_, ok, err = Latest(t.Context(), inmemory.New(), testProject)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestSummaryWithWrongTypesIsMadeAgain(t *testing.T) {
	for _, data := range []string{`{"customTitle":5}`, `{"createdAt":1e400}`, `{"createdAt":"1"}`, `{"isSidechain":1}`, `{"customTitle":"x","tag":[]}`} {
		s := &listStore{SessionStore: newStore(t, testID, user("real", ""))}
		s.infos = []sessionstore.SessionInfo{{SessionID: testID, Mtime: 5}}
		s.summaries = []sessionstore.SessionSummary{{SessionID: testID, Mtime: 5, Data: json.RawMessage(data)}}
		rows, err := List(t.Context(), s, testProject, nil)
		require.NoError(t, err)
		require.Len(t, rows, 1, data)
		require.Equal(t, "real", rows[0].Summary)
		got, ok, err := Info(t.Context(), s, mainKey(testID))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, rows[0], got)
	}
}

func TestListAndInfoAgreeAboutIDsThatAreNoUUIDs(t *testing.T) {
	s := newStore(t, testID, user("u", ""))
	appendTo(t, s, mainKey("no-uuid"), user("u", ""))
	require.Equal(t, []string{testID}, list(t, s, nil))
	_, ok, err := Info(t.Context(), s, mainKey("no-uuid"))
	require.NoError(t, err)
	require.False(t, ok)
}

func TestNegativeLimitsAndOffsetsAreNone(t *testing.T) {
	s := newStore(t, testID, user("u1", ""), user("u2", "u1"))
	require.Len(t, list(t, s, &ListOptions{Limit: -1, Offset: -1}), 1)
	require.Len(t, messages(t, s, &MessagesOptions{Limit: -3, Offset: -3}).Messages, 2)
	require.Len(t, messages(t, s, &MessagesOptions{Limit: 1, Offset: -3}).Messages, 1)
}
