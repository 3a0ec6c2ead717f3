package s3store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func title(text string) sessionstore.Entry {
	return entryOf(`{"type":"custom-title","customTitle":%q}`, text)
}

func titleOf(uuid, text string) sessionstore.Entry {
	return entryOf(`{"type":"custom-title","uuid":%q,"customTitle":%q}`, uuid, text)
}

func mustAppend(tb testing.TB, s *Store, key sessionstore.Key, entries ...sessionstore.Entry) {
	tb.Helper()
	require.NoError(tb, s.Append(context.Background(), key, entries))
}

// wantFold checks that the summary a handle lists is the fold of the entries.
func wantFold(tb testing.TB, s *Store, key sessionstore.Key) {
	tb.Helper()
	entries, err := s.Load(context.Background(), key)
	require.NoError(tb, err)
	want, err := sessionstore.FoldSummary(nil, entries)
	require.NoError(tb, err)
	require.JSONEq(tb, string(want), summaryText(tb, s, key))
}

func summaryText(tb testing.TB, s *Store, key sessionstore.Key) string {
	tb.Helper()
	list, err := s.ListSessionSummaries(context.Background(), key.ProjectKey)
	require.NoError(tb, err)
	for _, row := range list {
		if row.SessionID == key.SessionID {
			return string(row.Data)
		}
	}
	return ""
}

func mtimeOf(tb testing.TB, s *Store, key sessionstore.Key) int64 {
	tb.Helper()
	list, err := s.ListSessions(context.Background(), key.ProjectKey)
	require.NoError(tb, err)
	for _, row := range list {
		if row.SessionID == key.SessionID {
			return row.Mtime
		}
	}
	return 0
}

// lazy writes index objects only when it must.
func (b backend) lazy(tb testing.TB) *Store {
	s := b.store(tb, manual)
	s.timing.indexEvery = time.Hour
	return s
}

// die takes a handle off the network, so that it writes nothing any more.
func die(s *Store) { wireOf(s).down.Store(true) }

func TestSummaryOfASessionTakenOver(t *testing.T) {
	b := newBucket(t)
	s, other := b.lazy(t), b.lazy(t)
	mustAppend(t, s, testKey, titleOf("1", "first"), entryOf(`{"cwd":"/a","gitBranch":"x"}`))
	mustAppend(t, s, testKey, titleOf("2", "second"))
	// The other handle does not know what it repeats.
	mustAppend(t, other, testKey, titleOf("1", "a repeat"), entryOf(`{"cwd":"/b","gitBranch":"y"}`))
	wantFold(t, other, testKey)
	wantFold(t, s, testKey)
	mustAppend(t, s, testKey, titleOf("3", "third"))
	mustAppend(t, other, testKey, titleOf("3", "a repeat"))
	wantFold(t, s, testKey)
	wantFold(t, other, testKey)
	require.NoError(t, s.Compact(t.Context(), testKey))
	mustAppend(t, other, testKey, entryOf(`{"type":"tag","tag":"t"}`))
	wantFold(t, other, testKey)
	wantFold(t, s, testKey)
	wantFold(t, b.lazy(t), testKey)
}

func TestSummaryByAHostThatDied(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	mustAppend(t, s, testKey, title("written"))
	mustAppend(t, s, testKey, title("not written"))
	die(s)
	reader := b.lazy(t)
	require.JSONEq(t, `{"isSidechain":false,"customTitle":"written"}`, summaryText(t, reader, testKey)) // as documented
	before := mtimeOf(t, reader, testKey)

	report, err := b.lazy(t).Repair(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, RepairReport{Sessions: 1, Added: 1}, report)
	wantFold(t, reader, testKey)
	require.Equal(t, before, mtimeOf(t, reader, testKey))
	report, err = b.lazy(t).Repair(t.Context(), testKey.ProjectKey)
	require.NoError(t, err)
	require.Equal(t, RepairReport{Sessions: 1}, report)

	next := b.lazy(t)
	mustAppend(t, next, testKey, entryOf(`{"type":"tag","tag":"t"}`))
	wantFold(t, next, testKey)
	wantFold(t, reader, testKey)
	require.GreaterOrEqual(t, mtimeOf(t, reader, testKey), before)
}

func TestNextAppendHealsTheSummary(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	mustAppend(t, s, testKey, title("written"))
	mustAppend(t, s, testKey, entryOf(`{"cwd":"/not/written"}`))
	die(s)
	next := b.lazy(t)
	mustAppend(t, next, testKey, title("last"))
	wantFold(t, next, testKey)
	wantFold(t, b.lazy(t), testKey)
}

// A host dies right behind its first append to a session it did not know.
func TestSummaryOfAHostThatKnewOnlyItsOwnPart(t *testing.T) {
	b := newBucket(t)
	s, other := b.lazy(t), b.lazy(t)
	mustAppend(t, s, testKey, titleOf("1", "first"))
	mustAppend(t, s, testKey, titleOf("2", "second"))
	require.NotZero(t, mtimeOf(t, s, testKey))
	mustAppend(t, other, testKey, titleOf("1", "a repeat"))
	die(other)
	wantFold(t, b.lazy(t), testKey)
}

// What another host deletes does not come back in a summary.
func TestSummaryAfterAnotherHostDeletedTheSession(t *testing.T) {
	b := newBucket(t)
	s, other := b.lazy(t), b.lazy(t)
	mustAppend(t, s, testKey, title("secret"), entryOf(`{"uuid":"1","cwd":"/secret"}`))
	wantFold(t, s, testKey)
	require.NoError(t, other.Delete(t.Context(), testKey))
	mustAppend(t, s, testKey, entryOf(`{"uuid":"1","cwd":"/new"}`))
	wantFold(t, s, testKey)
	require.NotContains(t, summaryText(t, other, testKey), "secret")
	wantFold(t, other, testKey)

	// An index object that comes too late goes again.
	require.NoError(t, other.Delete(t.Context(), testKey))
	mustAppend(t, other, sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "a"}, title("sub"))
	st := s.states.find(testKey)
	st.mu.Lock()
	st.summary.dirty, st.summary.unverified = true, true
	st.mu.Unlock()
	require.Zero(t, mtimeOf(t, s, testKey))
	objects, _, err := s.listAll(t.Context(), indexDir, false)
	require.NoError(t, err)
	require.Empty(t, objects)
}

func TestSessionsByOtherSoftware(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	key := testKey
	for n, e := range []sessionstore.Entry{titleOf("1", "a"), titleOf("2", "b"), titleOf("1", "c")} {
		name := partName{1_700_000_000_000 + int64(n), randomSuffix()}
		require.NoError(t, s.putPart(t.Context(), s.dir(key)+name.String(), append(e, '\n'), ""))
	}
	mustAppend(t, s, sessionstore.Key{ProjectKey: "p", SessionID: "orphan", Subpath: "a"}, title("sub"))
	list, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, list, 1)
	newest := partsOf(t, s, key)[2].modified
	require.Equal(t, newest.UnixMilli(), list[0].Mtime)
	wantFold(t, s, key)

	report, err := s.Repair(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, RepairReport{Sessions: 2, Added: 1}, report)
	require.Equal(t, newest.UnixMilli(), mtimeOf(t, s, key))
	wantFold(t, b.lazy(t), key)
}

func TestIndexObjectsThatAreCoveredGo(t *testing.T) {
	b := newBucket(t)
	for n := range 3 {
		s := b.lazy(t)
		s.timing.subsumedAge = -time.Hour
		mustAppend(t, s, testKey, title(fmt.Sprint(n)))
		require.NotZero(t, mtimeOf(t, s, testKey))
		objects, _, err := s.listAll(t.Context(), indexDir, false)
		require.NoError(t, err)
		require.Len(t, objects, 1)
		wantFold(t, s, testKey)
	}
}

func TestRepairReportsWhatCannotBeRead(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	sub := sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "a"}
	for _, key := range []sessionstore.Key{testKey, sub, {ProjectKey: "q", SessionID: "s"}} {
		mustAppend(t, s, key, title("t"))
	}
	damage(t, s, testKey)
	damage(t, s, sub)
	report, err := b.lazy(t).Repair(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, RepairReport{Sessions: 2, Damaged: []sessionstore.Key{testKey, sub}}, report)
}

// One session that cannot be read does not stop what concerns the others, also
// on a handle that has appended to it.
func TestDamagedSessionStopsNoLists(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	bad := sessionstore.Key{ProjectKey: testKey.ProjectKey, SessionID: "bad"}
	mustAppend(t, s, testKey, title("t"))
	require.NoError(t, s.putPart(t.Context(), s.dir(bad)+partName{1700000000000, 0xabcdef}.String(), []byte("garbage\n"), ""))
	mustAppend(t, s, bad, title("t"))
	list, err := s.ListSessions(t.Context(), testKey.ProjectKey)
	require.NoError(t, err)
	require.Len(t, list, 2)
	summaries, err := b.lazy(t).ListSessionSummaries(t.Context(), testKey.ProjectKey)
	require.NoError(t, err)
	require.Len(t, summaries, 1, "there is none of the damaged one, and it takes no other with it")
	require.Equal(t, testKey.SessionID, summaries[0].SessionID)
	_, err = b.lazy(t).Load(t.Context(), bad)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	_, err = s.Purge(t.Context(), time.UnixMilli(1))
	require.NoError(t, err)
	report, err := s.Repair(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []sessionstore.Key{bad}, report.Damaged)
	require.NoError(t, s.Close())
}

func TestSummaryOfAnUnreadableIndexObject(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	mustAppend(t, s, testKey, title("t"))
	require.NoError(t, s.Close())
	objects, _, err := s.listAll(t.Context(), s.indexSessionDir(testKey), false)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	name := s.indexSessionDir(testKey) + objects[0].rest
	for _, body := range []string{"garbage", `{"version":99}`} {
		_, err := s.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader(body)})
		require.NoError(t, err)
		wantFold(t, b.lazy(t), testKey) // the transcript tells
	}
}

func TestSummaryKeepsTheSpellingOfStrings(t *testing.T) {
	b := newBucket(t)
	spelled := "a<b> & \u2028 \\u0026"
	mustAppend(t, b.lazy(t), testKey, entryOf(`{"type":"custom-title","customTitle":"%s"}`, spelled))
	require.Contains(t, summaryText(t, b.lazy(t), testKey), spelled)
}

// Requests cost money, so they are counted.
func TestRequestsPerOperation(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	w := wireOf(s)
	w.reset()
	mustAppend(t, s, testKey, title("first"))
	require.Equal(t, counts{list: 1, putPart: 1, putIndex: 1}, w.reset(), "first append")
	for range 20 {
		mustAppend(t, s, testKey, title("t"))
	}
	require.Equal(t, counts{putPart: 20}, w.reset(), "20 warm appends")
	load(t, s, testKey)
	require.Equal(t, counts{list: 2, get: 21}, w.reset(), "load")
	load(t, s, sessionstore.Key{ProjectKey: "p", SessionID: "unknown"})
	require.Equal(t, counts{list: 2}, w.reset(), "load of an unknown key")
	require.NotZero(t, mtimeOf(t, s, testKey))
	require.Equal(t, counts{list: 3, putIndex: 1}, w.reset(), "list that waits for the index")
	require.NotZero(t, mtimeOf(t, s, testKey))
	require.Equal(t, counts{list: 2}, w.reset(), "list")
	summaryText(t, s, testKey)
	require.Equal(t, counts{list: 2, get: 1}, w.reset(), "summaries")
	summaryText(t, s, testKey)
	require.Equal(t, counts{list: 2}, w.reset(), "summaries again")
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.Equal(t, counts{list: 2, get: 20, putPart: 1, delete: 1}, w.reset(), "compact")
	load(t, s, testKey)
	require.Equal(t, counts{list: 2, get: 2}, w.reset(), "load when compacted")
	mustAppend(t, s, sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "a"}, title("sub"))
	require.Equal(t, counts{list: 1, putPart: 1}, w.reset(), "first append to a subpath")
	require.NoError(t, s.Delete(t.Context(), testKey))
	require.Equal(t, counts{list: 5, delete: 2}, w.reset(), "delete")
}

func TestListRequestsAreInProportionToSessions(t *testing.T) {
	sessions := 2_500
	if testing.Short() {
		sessions = 300
	}
	b := newBucket(t)
	require.NoError(t, fillSessions(t.Context(), b.store(t, manual), sessions))
	s := b.store(t, manual)
	wireOf(s).reset()
	list, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, list, sessions)
	pages := (sessions + 999) / 1000
	require.Equal(t, counts{list: 2 * pages}, wireOf(s).reset())
	summaries, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, summaries, sessions)
	require.Equal(t, counts{list: 2 * pages, get: sessions}, wireOf(s).reset())
}

func TestCloseWritesTheIndex(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	mustAppend(t, s, testKey, title("a"))
	mustAppend(t, s, testKey, title("b"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Append(t.Context(), testKey, []sessionstore.Entry{title("c")}), errClosed)
	reader := b.lazy(t)
	wantFold(t, reader, testKey)
	require.Zero(t, wireOf(reader).reset().putIndex)
}

func TestIndexFollowsByItself(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	s.timing.indexEvery = 0
	mustAppend(t, s, testKey, title("a"))
	mustAppend(t, s, testKey, title("b"))
	s.jobs.Wait()
	wantFold(t, b.lazy(t), testKey)
}
