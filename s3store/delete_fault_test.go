package s3store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/s3fake"
)

func TestHostDiesAfterEachRequestOfADelete(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		sub := fakeKey
		sub.Subpath = "subagents/agent-1"
		require.NoError(t, w.host("past").Append(t.Context(), sub, numberedList(0, 2)))
		w.Kill("a", step-1)
		err := w.host("a").Delete(t.Context(), fakeKey)
		b := w.host("b")
		require.NoError(t, b.Delete(t.Context(), fakeKey), "the next delete finishes it")
		requireGone(t, w)
		return err != nil
	})
}

func requireGone(t *testing.T, w world) {
	t.Helper()
	s := w.host("witness")
	got, err := s.Load(t.Context(), fakeKey)
	require.NoError(t, err)
	require.Nil(t, got)
	sessions, err := s.ListSessions(t.Context(), fakeKey.ProjectKey)
	require.NoError(t, err)
	require.Empty(t, sessions)
	subs, err := s.ListSubkeys(t.Context(), fakeKey.ProjectKey, fakeKey.SessionID)
	require.NoError(t, err)
	require.Empty(t, subs)
	require.Empty(t, w.Keys(fakeBucket, ""), "nothing is left in the bucket")
}

func TestDeleteAmidCompaction(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		reached := w.atStep("a", step, func() {
			require.NoError(t, w.host("b").Delete(t.Context(), fakeKey))
		})
		_ = w.host("a").Compact(t.Context(), fakeKey)
		if reached() {
			requireGone(t, w)
		}
		return reached()
	})
}

func TestCompactionAmidDelete(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		reached := w.atStep("a", step, func() { _ = w.host("b").Compact(t.Context(), fakeKey) })
		require.NoError(t, w.host("a").Delete(t.Context(), fakeKey))
		requireGone(t, w)
		return reached()
	})
}

func TestAppendAmidDelete(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		reached := w.atStep("a", step, func() { appendEach(t, w.host("b"), n, n+2) })
		require.NoError(t, w.host("a").Delete(t.Context(), fakeKey))
		got, err := w.host("c").Load(t.Context(), fakeKey)
		require.NoError(t, err)
		if len(got) > 0 {
			require.True(t, reached())
			requireOrder(t, numberedList(n, n+2), got)
			sessions, err := w.host("d").ListSessions(t.Context(), fakeKey.ProjectKey)
			require.NoError(t, err)
			require.Len(t, sessions, 1, "what is there is listed")
		}
		return reached()
	})
}

func TestDeleteReportsEachObjectThatStays(t *testing.T) {
	for _, op := range []string{"Main", "Subpath"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t, nil)
			key := fakeKey
			if op == "Subpath" {
				key.Subpath = "subagents/agent-1"
			}
			a := w.host("a")
			for n := range 5 {
				require.NoError(t, a.Append(t.Context(), key, numberedList(n, n+1)))
			}
			keys := w.Keys(fakeBucket, "proj/")
			held := keys[len(keys)-2]
			w.Intercept(func(r s3fake.Request) *s3fake.Fault {
				if r.Op == "DeleteObject" && r.Key == held {
					return &s3fake.Fault{Status: 403, Code: "AccessDenied"}
				}
				return &s3fake.Fault{KeyError: func(k string) string {
					if k == held {
						return "AccessDenied"
					}
					return ""
				}}
			})
			err := w.host("b").Delete(t.Context(), key)
			require.ErrorContains(t, err, "AccessDenied")
			require.ErrorContains(t, err, held)
			require.Contains(t, w.Keys(fakeBucket, ""), held)
			w.Heal()
			require.NoError(t, w.host("b").Delete(t.Context(), key), "it can be repeated")
			require.Empty(t, w.Keys(fakeBucket, "proj/"))
		})
	}
}

func TestDeleteTakesLittlePerThousandObjects(t *testing.T) {
	w := newWorld(t, nil)
	s := w.host("a")
	for n := range 2500 { // as somebody else has left them
		putPart(t, w, fmt.Sprintf("proj/sess/part-%013d-00abcd.jsonl", 1_700_000_000_000+n), numberedList(n, n+1))
	}
	require.NoError(t, s.Append(t.Context(), fakeKey, numberedList(2500, 2501)))
	require.NoError(t, s.Close())
	w.Forget()
	require.NoError(t, w.host("b").Delete(t.Context(), fakeKey))
	requireGone(t, w)
	deletes := 0
	for _, r := range w.Log() {
		if r.Op == "DeleteObjects" || r.Op == "DeleteObject" {
			deletes++
		}
	}
	require.LessOrEqual(t, deletes, 5, fmt.Sprint(w.Counts()))
}

func TestDeleteOnServersThatDemandMD5(t *testing.T) {
	w := newWorld(t, &s3fake.Options{RequireMD5: true})
	s := w.host("a")
	appendEach(t, s, 0, 12)
	require.NoError(t, s.Compact(t.Context(), fakeKey))
	requireHolds(t, w.host("b"), numberedList(0, 12), "compacted")
	require.Equal(t, lines(numberedList(0, 12)), lines(w.asReference()))
	require.NoError(t, s.Delete(t.Context(), fakeKey))
	requireGone(t, w)
}

func TestDeletedSessionIsWrittenAgain(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.host("a"), w.host("b")
	appendEach(t, a, 0, 12)
	require.NoError(t, a.Compact(t.Context(), fakeKey))
	require.NoError(t, b.Delete(t.Context(), fakeKey))
	want := []sessionstore.Entry{numbered(0), numbered(1), numbered(0 + 100)}
	require.NoError(t, a.Append(t.Context(), fakeKey, want), "a uuid may come back on a handle that knew it")
	requireHolds(t, b, want, "after the deletion")
	requireSettled(t, w, want, "after the deletion")
}
