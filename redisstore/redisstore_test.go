package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

var mainKey = sessionstore.Key{ProjectKey: "p", SessionID: "s"}

func at(project, session, sub string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: sub}
}

func user(id string) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":%q}`, id))
}

// bare is an entry without uuid.
func bare(title string) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(`{"type":"custom-title","customTitle":%q}`, title))
}

func appendTo(t *testing.T, s *Store, key sessionstore.Key, entries ...sessionstore.Entry) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), key, entries))
}

func requireLoad(t *testing.T, s *Store, key sessionstore.Key, want ...sessionstore.Entry) {
	t.Helper()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, texts(want), texts(got))
}

func texts(entries []sessionstore.Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, string(e))
	}
	return out
}

func sessions(t *testing.T, s *Store, project string) []string {
	t.Helper()
	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	ids := []string{}
	for _, info := range list {
		ids = append(ids, info.SessionID)
	}
	slices.Sort(ids)
	return ids
}

func TestNewChecksItsOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	readers := redis.NewClusterClient(&redis.ClusterOptions{ReadOnly: true})
	defer readers.Close()
	for _, tc := range []struct {
		client redis.UniversalClient
		opts   *Options
		want   string
	}{
		{nil, nil, "client is nil"},
		{readers, nil, "reads from replicas"},
		{client, &Options{Prefix: "a{b"}, "brace"},
		{client, &Options{TTL: -1}, "TTL"},
		{client, &Options{TTL: time.Millisecond}, "TTL"},
		{client, &Options{WaitReplicas: -1}, "WaitReplicas"},
	} {
		_, err := New(tc.client, tc.opts)
		require.ErrorContains(t, err, tc.want)
	}
	s, err := New(client, nil)
	require.NoError(t, err)
	require.Equal(t, "sessionstore:", s.prefix)
}

// awkward are parts of keys that have a meaning to Redis or to other stores.
var awkward = []string{
	"{a}b", "}{", "{}", "{", "}", "a:b", ":", "*", "a?c", "[ab]", `x\*`, "__sessions", "__subkeys", "meta", "/", "a/b",
	" ", "\n", "é", "%2F", "!2F", ".", "..", "s", "S",
}

func TestAwkwardIDsAreOrdinary(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		for _, p := range awkward {
			for _, id := range []string{p, "s", "{x}"} {
				appendTo(t, s, at(p, id, ""), bare(p+"|"+id))
				appendTo(t, s, at(p, id, "a{b}:*"), bare("sub of "+p+"|"+id))
			}
		}
		for _, p := range awkward {
			want := []string{p, "s", "{x}"}
			slices.Sort(want)
			require.Equal(t, slices.Compact(want), sessions(t, s, p))
			require.NoError(t, s.Delete(t.Context(), at(p, "s", "")))
			requireLoad(t, s, at(p, "{x}", ""), bare(p+"|{x}"))
			requireLoad(t, s, at(p, "{x}", "a{b}:*"), bare("sub of "+p+"|{x}"))
		}
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, slices.Sorted(slices.Values(awkward)), projects)
	})
}

func TestAllKeysOfASessionShareOneTag(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	for _, p := range awkward {
		key := at(p, p, "")
		appendTo(t, s, key, user("1"))
		appendTo(t, s, at(p, p, "x{y}z"), user("1"))
		names := b.keys(t, s.base(p, p))
		require.Len(t, names, 8) // meta, subs, and three for each transcript
		for _, name := range names {
			tag, _, _ := strings.Cut(strings.TrimPrefix(name, s.prefix), "}")
			require.NotContains(t, tag[1:], "{", "%q", name)
			_, parsed, ok := s.parseKey(name)
			require.True(t, ok)
			require.Equal(t, key, parsed.Main())
		}
	}
}

func FuzzKeysAreInjective(f *testing.F) {
	f.Add("p", "s", "a", "p", "s/a", "")
	f.Add("a}", "{b", "", "a", "}{b", "x")
	s := &Store{prefix: "x:"}
	f.Fuzz(func(t *testing.T, p1, s1, sub1, p2, s2, sub2 string) {
		k1, k2 := at(p1, s1, sub1), at(p2, s2, sub2)
		if k1.Validate() != nil || k2.Validate() != nil {
			return
		}
		kind, parsed, ok := s.parseKey(s.names(k1).list)
		require.True(t, ok)
		require.Equal(t, "list", kind)
		require.Equal(t, k1, parsed)
		require.Equal(t, k1 == k2, s.names(k1) == s.names(k2))
	})
}

func TestPrefixesAreApart(t *testing.T) {
	b := single(t)
	first := b.open(t, Options{}, nil)
	prefixes := []string{first.prefix, first.prefix + "x", first.prefix + "*", first.prefix + "[x]", first.prefix + "?"}
	var stores []*Store
	for i, prefix := range prefixes {
		s := b.open(t, Options{Prefix: prefix}, nil)
		appendTo(t, s, at("p", fmt.Sprint("s", i), ""), user("1"))
		stores = append(stores, s)
	}
	for i, s := range stores {
		report, err := s.Repair(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, RepairReport{Sessions: 1}, report)
		require.Equal(t, []string{fmt.Sprint("s", i)}, sessions(t, s, "p"))
	}
}

func TestAppendSurvivesScriptFlush(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = s.eachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() })
				}
			}
		})
		var want []sessionstore.Entry
		for n := range 100 {
			batch := []sessionstore.Entry{user(fmt.Sprint(n)), bare(fmt.Sprint(n % 3))}
			require.NoError(t, s.Append(t.Context(), mainKey, batch))
			want = append(want, batch...)
		}
		close(done)
		wg.Wait()
		requireLoad(t, s, mainKey, want...)
	})
}

// With slow answers the time of an operation is its number of round trips.
func TestRoundTrips(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		for n := range 20 {
			appendTo(t, s, at("p", fmt.Sprint("s", n), ""), user("1"), bare("t"))
			appendTo(t, s, at("q", fmt.Sprint("s", n), "sub"), user("1"))
		}
		big := []sessionstore.Entry{}
		for n := range 3000 {
			big = append(big, user(fmt.Sprint("big", n)))
		}
		for _, tc := range []struct {
			what string
			// trips that one server may take, and those of a cluster in all:
			// there some go to several nodes at the same time.
			single, cluster int64
			f               func() error
		}{
			{"first append", 1, 3, func() error { return s.Append(t.Context(), at("p", "new", ""), []sessionstore.Entry{user("a")}) }},
			{"append", 1, 3, func() error {
				return s.Append(t.Context(), at("p", "s1", ""), []sessionstore.Entry{user("2"), bare("u")})
			}},
			{"append of repeats", 1, 3, func() error {
				return s.Append(t.Context(), at("p", "s1", ""), []sessionstore.Entry{user("1"), user("3")})
			}},
			{"append of many", 1, 3, func() error { return s.Append(t.Context(), at("p", "s2", ""), big) }},
			{"append to a subpath", 1, 3, func() error { return s.Append(t.Context(), at("p", "s1", "sub"), []sessionstore.Entry{bare("u")}) }},
			{"load", 2, 2, func() error { _, err := s.Load(t.Context(), at("p", "s2", "")); return err }},
			{"load of nothing", 1, 1, func() error { _, err := s.Load(t.Context(), at("p", "none", "")); return err }},
			{"list", 2, 4, func() error { _, err := s.ListSessions(t.Context(), "p"); return err }},
			{"subkeys", 1, 1, func() error { _, err := s.ListSubkeys(t.Context(), "p", "s1"); return err }},
			{"projects", 3, 9, func() error { _, err := s.ListProjects(t.Context()); return err }},
		} {
			appendTo(t, s, at("p", "s2", ""), user("warm")) // opens connections
			sessions(t, s, "p")
			before := wireOf(s).trips.Load()
			require.NoError(t, tc.f())
			trips, most := wireOf(s).trips.Load()-before, tc.single
			if !s.single {
				most = tc.cluster
			}
			require.LessOrEqual(t, trips, most, tc.what)
		}
	})
}

func TestOneConnectionTripPerAppend(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	appendTo(t, s, mainKey, user("0"))
	before := wireOf(s).trips.Load()
	for n := range 10 {
		appendTo(t, s, mainKey, user(fmt.Sprint("n", n)), bare("t"))
	}
	require.EqualValues(t, 10, wireOf(s).trips.Load()-before)
}

func TestStagedBatchesAreWhole(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		s.stageAbove = 100
		var want []sessionstore.Entry
		for round := range 3 { // a new list, then behind what is there
			var batch []sessionstore.Entry
			for n := range 2500 {
				batch = append(batch, user(fmt.Sprint(round, "-", n)), bare("t"))
			}
			appendTo(t, s, mainKey, batch...)
			appendTo(t, s, mainKey, batch[0], batch[2], bare("new"), bare(strings.Repeat("long", 100)))
			want = append(append(want, batch...), bare("new"), bare(strings.Repeat("long", 100)))
			requireLoad(t, s, mainKey, want...)
		}
		for _, name := range b.keys(t, s.prefix) {
			require.NotContains(t, name, ":stage/")
			require.EqualValues(t, -1, s.client.PTTL(t.Context(), name).Val(), "%s is for good", name)
		}
	})
}

func TestRetriedStagedBatchIsStoredOnce(t *testing.T) {
	s := single(t).open(t, Options{RetryFor: -1}, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	s.stageAbove = 100
	batch := []sessionstore.Entry{bare(strings.Repeat("x", 200)), bare("b")}
	wireOf(s).lose.Store(1) // of the first piece
	require.Error(t, s.Append(t.Context(), mainKey, batch))
	requireLoad(t, s, mainKey)
	appendTo(t, s, mainKey, batch...)
	appendTo(t, s, mainKey, bare("c"))
	requireLoad(t, s, mainKey, append(batch, bare("c"))...)
}

func TestStagedEntriesThatAreGoneAreNotMissed(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	s.stageAbove = 10
	checked, err := sessionstore.Check(mainKey, []sessionstore.Entry{user("1"), user("2")})
	require.NoError(t, err)
	st := &step{s: s, key: mainKey}
	st.prepare(checked, batchID{})
	require.NoError(t, st.sendAhead(t.Context()))
	require.NoError(t, s.client.LPop(t.Context(), st.stage.key(0)).Err())
	pipe := s.client.Pipeline()
	st.eval(t.Context(), pipe, "token")
	_, err = pipe.Exec(t.Context())
	require.ErrorContains(t, err, "STAGED")
	requireLoad(t, s, mainKey)
}

func TestNoKeyIsLeftAfterDelete(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, user("1"))
	appendTo(t, s, at("p", "s", "a"), bare("1"))
	appendTo(t, s, at("p", "t", "a"), bare("1"))
	require.NoError(t, s.Delete(t.Context(), mainKey))
	require.NoError(t, s.Delete(t.Context(), at("p", "t", "a")))
	require.Empty(t, b.keys(t, s.prefix))
}

func TestDeleteOfManySubpaths(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	b := startServer(t).backend()
	s := b.open(t, Options{TTL: time.Hour}, nil)
	const subpaths, writers = 10_000, 4
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := w; n < subpaths; n += writers {
				if err := s.Append(t.Context(), at("p", "s", fmt.Sprint("subagents/agent-", n)), []sessionstore.Entry{user("1")}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	appendTo(t, s, mainKey, user("1"))
	list, err := s.ListSubkeys(t.Context(), "p", "s")
	require.NoError(t, err)
	require.Len(t, list, subpaths)
	require.NoError(t, s.Delete(t.Context(), mainKey))
	require.Empty(t, b.keys(t, s.prefix))
}
