package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestListsSkipAndForgetWhatHasNoData(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		appendTo(t, s, at("p", "gone", ""), user("1"))
		appendTo(t, s, at("p", "there", ""), user("1"))
		appendTo(t, s, at("q", "gone", ""), user("1"))
		for _, k := range b.keys(t, s.prefix) {
			if strings.Contains(k, "/gone}") {
				require.NoError(t, s.client.Del(t.Context(), k).Err())
			}
		}
		list := func() ([]string, []string) {
			projects, err := s.ListProjects(t.Context())
			require.NoError(t, err)
			return sessions(t, s, "p"), projects
		}
		got, projects := list()
		require.Equal(t, []string{"there"}, got)
		require.Equal(t, []string{"p"}, projects)
		if !s.single {
			// They may belong to an append that is still under way.
			require.True(t, s.client.HExists(t.Context(), s.sessionsKey("p"), "gone").Val())
			s.grace = 0
			list()
		}
		require.Equal(t, []string{"there"}, s.client.HKeys(t.Context(), s.sessionsKey("p")).Val())
		require.Zero(t, s.client.Exists(t.Context(), s.sessionsKey("q")).Val())
		require.Equal(t, []string{"p"}, s.client.HKeys(t.Context(), s.projectsKey()).Val())
	})
}

func TestForgetLeavesWhatWasNotedAgain(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		s.grace = 0
		appendTo(t, s, mainKey, user("1"))
		seen := s.client.HGetAll(t.Context(), s.sessionsKey("p")).Val()
		appendTo(t, s, mainKey, user("2"))
		s.forget(t.Context(), s.sessionsKey("p"), "p", seen)
		require.Equal(t, []string{"s"}, sessions(t, s, "p"))
		s.forget(t.Context(), s.sessionsKey("p"), "p", s.client.HGetAll(t.Context(), s.sessionsKey("p")).Val())
		require.Empty(t, sessions(t, s, "p"))
	})
}

func TestRepairAndAppendRestoreTheIndex(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		for _, p := range []string{"p", "*", "[ab]", `x\*`, "a?c"} {
			appendTo(t, s, at(p, "1", ""), user("1"))
			appendTo(t, s, at(p, "2", ""), user("1"))
			appendTo(t, s, at(p, "3", "sub"), user("1"))
			require.NoError(t, s.client.Del(t.Context(), s.sessionsKey(p)).Err())
		}
		require.NoError(t, s.client.Del(t.Context(), s.projectsKey()).Err())
		appendTo(t, s, at("p", "2", ""), user("2"))
		require.Equal(t, []string{"2"}, sessions(t, s, "p"))

		report, err := s.Repair(t.Context(), "*")
		require.NoError(t, err)
		require.Equal(t, RepairReport{Sessions: 3, Added: 3}, report)
		require.Equal(t, []string{"1", "2"}, sessions(t, s, "*"))
		require.Empty(t, sessions(t, s, "[ab]"))

		report, err = s.Repair(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, RepairReport{Sessions: 15, Added: 11}, report)
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"*", "[ab]", "a?c", "p", `x\*`}, projects)
		require.Equal(t, []string{"1", "2"}, sessions(t, s, "[ab]"))

		_, err = s.Repair(t.Context(), "a\x00")
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	})
}

func TestPurgeLeavesWhatHasBeenWrittenMeanwhile(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		appendTo(t, s, mainKey, user("1"))
		before := time.UnixMilli(mtime(t, s))
		deleted, err := s.delete(t.Context(), before, mainKey, at("p", "none", ""))
		require.NoError(t, err)
		require.Equal(t, []deletion{{}, {}}, deleted)
		requireLoad(t, s, mainKey, user("1"))
		deleted, err = s.delete(t.Context(), before.Add(time.Millisecond), mainKey)
		require.NoError(t, err)
		require.Equal(t, 1, deleted[0].transcripts)
		requireLoad(t, s, mainKey)
	})
}

func mtime(t *testing.T, s *Store) int64 {
	t.Helper()
	list, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list[0].Mtime
}

// checkTTL checks that all keys of the session end at the same time, and when.
func checkTTL(t *testing.T, b backend, s *Store, least, most time.Duration) {
	t.Helper()
	names := b.keys(t, s.base("p", "s"))
	require.NotEmpty(t, names)
	ends := make(map[string]bool)
	for _, k := range names {
		ttl := s.client.PTTL(t.Context(), k).Val()
		require.GreaterOrEqual(t, ttl, least, k)
		require.LessOrEqual(t, ttl, most, k)
		ends[fmt.Sprint(s.client.Do(t.Context(), "pexpiretime", k).Val())] = true
	}
	require.Len(t, ends, 1)
}

func TestEveryAppendRenewsAllKeys(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		const ttl = 2 * time.Second
		s := b.open(t, Options{TTL: ttl}, nil)
		const slow = 500 * time.Millisecond // of the test between append and check
		for n := range 14 {
			key := at("p", "s", []string{"", "a", "b", "a"}[n%4])
			appendTo(t, s, key, user(fmt.Sprint(n)), bare("t"))
			checkTTL(t, b, s, ttl-slow, ttl+ttl/8)
			time.Sleep(ttl / 8)
		}
		appendTo(t, s, mainKey, user("0")) // a repeat renews too
		checkTTL(t, b, s, ttl-slow, ttl+ttl/8)
		got, err := s.Load(t.Context(), mainKey)
		require.NoError(t, err)
		require.Len(t, got, 8)
	})
}

func TestExpiredSessionsLeaveTheIndex(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{TTL: 300 * time.Millisecond}, nil)
		s.grace = 0
		appendTo(t, s, mainKey, user("1"))
		appendTo(t, s, at("p", "s", "a"), user("1"))
		eventually(t, 3*time.Second, "the session has expired", func() bool { return len(sessions(t, s, "p")) == 0 })
		for _, key := range []sessionstore.Key{mainKey, at("p", "s", "a")} {
			requireLoad(t, s, key)
		}
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Empty(t, projects)
		require.Empty(t, b.keys(t, s.prefix))
		appendTo(t, s, mainKey, user("1"))
		requireLoad(t, s, mainKey, user("1"))
	})
}

// While sessions expire under the hands of readers and writers, nobody sees
// half of one.
func TestExpiryIsWhole(t *testing.T) {
	s := startServer(t).backend().open(t, Options{TTL: 100 * time.Millisecond}, nil)
	batch := []sessionstore.Entry{user("1"), bare("t"), user("2")}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		appendTo(t, s, mainKey, batch...)
		for {
			got, err := s.Load(t.Context(), mainKey)
			require.NoError(t, err)
			if got == nil {
				break
			}
			require.GreaterOrEqual(t, len(got), len(batch))
		}
	}
}

func TestTTLOfAnotherHandle(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{TTL: time.Hour}, nil)
	forever := b.again(t, s, Options{}, nil)
	shorter := b.again(t, s, Options{TTL: time.Minute}, nil)
	appendTo(t, forever, mainKey, user("1"))
	require.EqualValues(t, -1, s.client.PTTL(t.Context(), s.names(mainKey).list).Val())
	appendTo(t, s, mainKey, user("2"))
	checkTTL(t, b, s, 59*time.Minute, 68*time.Minute)
	appendTo(t, forever, at("p", "s", "new"), user("1")) // joins the others
	checkTTL(t, b, s, 59*time.Minute, 68*time.Minute)
	appendTo(t, shorter, mainKey, user("3"))
	checkTTL(t, b, s, 59*time.Second, 68*time.Second)
}

func summary(t *testing.T, s *Store) string {
	t.Helper()
	list, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, list, 1)
	return string(list[0].Data)
}

func foldedTo(t *testing.T, s *Store) (folded, count int) {
	t.Helper()
	r, err := parseRow(s.client.HGet(t.Context(), s.names(mainKey).meta, mainField).Val())
	require.NoError(t, err)
	return r.folded, r.count
}

func TestSummariesOfSeveralWriters(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		other := b.again(t, s, Options{}, nil)
		var all []sessionstore.Entry
		check := func() {
			t.Helper()
			want, err := sessionstore.FoldSummary(nil, all)
			require.NoError(t, err)
			require.JSONEq(t, string(want), summary(t, s))
			folded, count := foldedTo(t, s)
			require.Equal(t, count, folded, "a list brings the stored summary up to date")
		}
		for n := range 6 {
			for i, h := range []*Store{s, other} {
				// Each writes something of its own, so that no state can stand for both.
				e := bare(fmt.Sprint(n))
				if i == 1 {
					e = sessionstore.Entry(fmt.Sprintf(`{"type":"tag","tag":"tag %d"}`, n))
				}
				appendTo(t, h, mainKey, e, user("repeated"))
				if n+i == 0 {
					all = append(all, e, user("repeated"))
				} else {
					all = append(all, e)
				}
			}
			if n%2 == 1 {
				check()
			}
		}
		check()
	})
}

func TestSummaryIsCurrentAfterATakeover(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"))
	other := b.again(t, s, Options{}, nil)
	requireLoad(t, other, mainKey, bare("1"))
	appendTo(t, other, mainKey, bare("2"))
	folded, count := foldedTo(t, s)
	require.Equal(t, []int{2, 2}, []int{folded, count})
	// Without a load the first append lags, the second catches up.
	third := b.again(t, s, Options{}, nil)
	appendTo(t, third, mainKey, bare("3"))
	appendTo(t, third, mainKey, bare("4"))
	folded, count = foldedTo(t, s)
	require.Equal(t, []int{4, 4}, []int{folded, count})
}

func TestSummaryOfAWriterThatIsBehind(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"))
	appendTo(t, b.again(t, s, Options{}, nil), mainKey, sessionstore.Entry(`{"type":"tag","tag":"of the other"}`))
	appendTo(t, s, mainKey, bare("2"))
	require.Contains(t, summary(t, s), "of the other")
}

func TestSummaryOfARecreatedTranscript(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	other := b.again(t, s, Options{}, nil)
	appendTo(t, s, mainKey, bare("old"))
	require.NoError(t, other.Delete(t.Context(), mainKey))
	appendTo(t, other, mainKey, user("new")) // as many entries as before
	appendTo(t, s, mainKey, user("2"))
	require.NotContains(t, summary(t, s), "old")
}

func TestSummaryWithoutRepeatsOfTheBatch(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	appendTo(t, s, mainKey,
		sessionstore.Entry(`{"uuid":"1","customTitle":"first"}`), sessionstore.Entry(`{"uuid":"1","customTitle":"second"}`))
	require.Contains(t, summary(t, s), "first")
}

func TestUnreadableSummaryIsMadeAnew(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"), user("a"))
	require.NoError(t, s.client.HSet(t.Context(), s.names(mainKey).meta, "s", "garbage").Err())
	other := b.again(t, s, Options{}, nil)
	appendTo(t, other, mainKey, bare("2"))
	want, err := sessionstore.FoldSummary(nil, []sessionstore.Entry{bare("1"), user("a"), bare("2")})
	require.NoError(t, err)
	require.JSONEq(t, string(want), summary(t, s))
}

func TestDamagedTranscriptDoesNotHideOtherSummaries(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"))
	appendTo(t, s, at("p", "t", ""), bare("2"))
	other := b.again(t, s, Options{}, nil)
	appendTo(t, other, mainKey, bare("3")) // now the stored one lags
	require.NoError(t, s.client.Del(t.Context(), s.names(mainKey).list).Err())
	list, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, list, 2)
}

func TestCacheIsBounded(t *testing.T) {
	var c summaryCache
	for n := range maxSummaries + 100 {
		c.put(at("p", fmt.Sprint(n), ""), folded{})
	}
	require.Len(t, c.m, maxSummaries)
}

func TestFullMemoryDoesNotBreakLists(t *testing.T) {
	srv := startServer(t)
	b := srv.backend()
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"))
	appendTo(t, b.again(t, s, Options{}, nil), mainKey, bare("2"))
	srv.do(t, "config", "set", "maxmemory", "1")
	require.Contains(t, summary(t, s), `"customTitle":"2"`)
}

func TestRepairWithoutMemoryStillFindsWhatIsDamaged(t *testing.T) {
	srv := startServer(t)
	s := srv.backend().open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("1"))
	appendTo(t, s, at("q", "s", ""), bare("1"))
	require.NoError(t, s.client.Del(t.Context(), s.sessionsKey("p"), s.names(at("q", "s", "")).ids).Err())
	srv.do(t, "config", "set", "maxmemory", "1")
	report, err := s.Repair(t.Context(), "")
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, RepairReport{Sessions: 2, Damaged: []sessionstore.Key{at("q", "s", "")}}, report)
	purged, err := s.Purge(t.Context(), time.Now().Add(time.Hour)) // makes room
	require.NoError(t, err)
	require.Equal(t, 1, purged.Sessions)
	srv.do(t, "config", "set", "maxmemory", "0")
	report, err = s.Repair(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, RepairReport{Sessions: 1, Added: 1}, report)
}

func TestDeleteTakesOldSessionsOutOfTheIndex(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		s.grace = 0
		appendTo(t, s, mainKey, user("1"))
		appendTo(t, s, at("p", "s", "a"), user("1"))
		require.NoError(t, s.Delete(t.Context(), mainKey))
		require.Zero(t, s.client.Exists(t.Context(), s.sessionsKey("p")).Val())
	})
}
