package s3store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// referencePart names a part as the official adapters do.
func referencePart(dir string, at time.Time, suffix string) string {
	return fmt.Sprintf("%spart-%013d-%s.jsonl", dir, at.UnixMilli(), suffix)
}

func TestReadsSessionsOfTheReferenceAdapters(t *testing.T) {
	w := newWorld(t, nil)
	start := time.Now().Add(-time.Minute)
	for i := range 10 {
		at := start.Add(time.Duration(i) * time.Second)
		putPart(t, w, referencePart("proj/sess/", at, "00abcd"), numberedList(2*i, 2*i+2))
		putPart(t, w, referencePart("proj/sess/subagents/agent-1/", at, "00abcd"), numberedList(2*i, 2*i+2))
		putPart(t, w, referencePart("proj/only-sub/subagents/agent-2/", at, "00abcd"), numberedList(0, 1))
	}
	s := w.host("a")
	requireHolds(t, s, numberedList(0, 20), "as written")
	sub := fakeKey
	sub.Subpath = "subagents/agent-1"
	got, err := s.Load(t.Context(), sub)
	require.NoError(t, err)
	require.Equal(t, lines(numberedList(0, 20)), lines(got))

	sessions, err := s.ListSessions(t.Context(), "proj")
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.Equal(t, "sess", sessions[0].SessionID)
	summaries, err := s.ListSessionSummaries(t.Context(), "proj")
	require.NoError(t, err)
	require.Len(t, summaries, 1)
	subs, err := s.ListSubkeys(t.Context(), "proj", "sess")
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/agent-1"}, subs)
	orphans, err := s.ListOrphans(t.Context(), "proj")
	require.NoError(t, err)
	require.Equal(t, []string{"only-sub"}, orphans)

	appendEach(t, s, 20, 24)
	requireHolds(t, w.host("b"), numberedList(0, 24), "appended")
	requireSettled(t, w, numberedList(0, 24), "of both kinds")
}

// The two kinds of writers take turns, and neither knows of the other.
func TestTakesTurnsWithAReferenceWriter(t *testing.T) {
	w := newWorld(t, nil)
	s := w.host("a")
	for n := 0; n < 20; n += 2 {
		ahead := time.Now().Add(time.Duration(n) * time.Minute) // a clock that drifts
		putPart(t, w, referencePart("proj/sess/", ahead, "ffffff"), numberedList(n, n+1))
		_, err := s.Load(t.Context(), fakeKey)
		require.NoError(t, err)
		appendEach(t, s, n+1, n+2)
		if n%6 == 0 {
			require.NoError(t, s.Compact(t.Context(), fakeKey))
		}
	}
	requireHolds(t, w.host("b"), numberedList(0, 20), "by turns")
	requireSettled(t, w, numberedList(0, 20), "by turns")
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	w := newWorld(t, nil)
	s := w.host("a")
	appendEach(t, s, 0, 12)
	foreign := []string{
		"proj/sess/part-1.jsonl", "proj/sess/part-1700000000000-00000G.jsonl", "proj/sess/notes.txt",
		"proj/README", "proj/sess2/", "top.txt",
	}
	for _, key := range foreign {
		putPart(t, w, key, []sessionstore.Entry{sessionstore.Entry("not ours")})
	}
	requireHolds(t, s, numberedList(0, 12), "beside foreign objects")
	require.NoError(t, s.Compact(t.Context(), fakeKey))
	requireHolds(t, s, numberedList(0, 12), "beside foreign objects")
	sessions, err := s.ListSessions(t.Context(), "proj")
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	keys := w.Keys(fakeBucket, "")
	for _, key := range foreign {
		require.Contains(t, keys, key)
	}
}

// An object that was cut short by somebody, or that is no transcript, is
// reported and not skipped.
func TestPartThatIsNotWholeIsCorrupt(t *testing.T) {
	w := newWorld(t, nil)
	s := w.host("a")
	appendEach(t, s, 0, 2)
	putPart(t, w, referencePart("proj/sess/", time.Now(), "000000"), []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uui`)})
	_, err := w.host("b").Load(t.Context(), fakeKey)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
}
