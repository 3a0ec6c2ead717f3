package redisstore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// wantDamaged checks that nothing of a transcript can be read, and that it can
// be deleted and written anew.
func wantDamaged(t *testing.T, s *Store, key sessionstore.Key) {
	t.Helper()
	got, err := s.Load(t.Context(), key)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.Nil(t, got)
	err = nil
	for _, err = range s.Stream(t.Context(), key) {
	}
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.NoError(t, s.Delete(t.Context(), key))
	appendTo(t, s, key, user("1"))
	requireLoad(t, s, key, user("1"))
}

func TestEvictedDataIsAnError(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		for _, key := range []sessionstore.Key{mainKey, at("p", "s", "a")} {
			n := s.names(key)
			for _, name := range []string{n.list, n.ids, n.lens, n.meta} {
				require.NoError(t, s.Delete(t.Context(), mainKey))
				appendTo(t, s, key, user("1"), user("2"))
				require.NoError(t, s.client.Del(t.Context(), name).Err())
				err := s.Append(t.Context(), key, []sessionstore.Entry{user("3")})
				require.ErrorIs(t, err, sessionstore.ErrCorrupt)
				report, err := s.Repair(t.Context(), key.ProjectKey)
				require.NoError(t, err)
				require.Equal(t, []sessionstore.Key{key}, report.Damaged)
				wantDamaged(t, s, key)
			}
		}
	})
}

func TestPartOfTheDataIsAnError(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	n := s.names(mainKey)
	for what, harm := range map[string]func(ctx context.Context) error{
		"an entry is gone":     func(ctx context.Context) error { return s.client.RPop(ctx, n.list).Err() },
		"an entry is changed":  func(ctx context.Context) error { return s.client.LSet(ctx, n.list, 1, "{}").Err() },
		"an id is gone":        func(ctx context.Context) error { return s.client.SPop(ctx, n.ids).Err() },
		"the lengths are cut":  func(ctx context.Context) error { return s.client.Set(ctx, n.lens, "1234", 0).Err() },
		"the row is gone":      func(ctx context.Context) error { return s.client.HDel(ctx, n.meta, n.field).Err() },
		"the row is something": func(ctx context.Context) error { return s.client.HSet(ctx, n.meta, n.field, "1 x").Err() },
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			require.NoError(t, s.Delete(t.Context(), mainKey))
			appendTo(t, s, mainKey, user("1"), user("2"), user("3"))
			require.NoError(t, harm(t.Context()))
			wantDamaged(t, s, mainKey)
		})
	}
}

func TestLaterFormatIsRefused(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	appendTo(t, s, mainKey, user("1"))
	require.NoError(t, s.client.HSet(t.Context(), s.names(mainKey).meta, "v", "2").Err())
	require.ErrorIs(t, s.Append(t.Context(), mainKey, []sessionstore.Entry{user("2")}), sessionstore.ErrCorrupt)
	_, err := s.Load(t.Context(), mainKey)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.Equal(t, []string{"s"}, sessions(t, s, "p"))
	_, err = s.ListSubkeys(t.Context(), "p", "s")
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.EqualValues(t, 1, s.client.LLen(t.Context(), s.names(mainKey).list).Val())
}

func TestBrokenIndexFailsTheAppendThatCanBeRetried(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		require.NoError(t, s.client.Set(t.Context(), s.sessionsKey("p"), "x", 0).Err())
		batch := []sessionstore.Entry{user("1"), bare("t")}
		require.ErrorContains(t, s.Append(t.Context(), mainKey, batch), "WRONGTYPE")
		if s.single {
			requireLoad(t, s, mainKey) // nothing was stored
		}
		report, err := s.Repair(t.Context(), "p") // replaces it
		require.NoError(t, err)
		require.Empty(t, report.Damaged)
		appendTo(t, s, mainKey, batch...)
		requireLoad(t, s, mainKey, batch...)
		require.Equal(t, []string{"s"}, sessions(t, s, "p"))
	})
}

func TestKeyOfAnotherTypeIsLeftAlone(t *testing.T) {
	s := single(t).open(t, Options{}, nil)
	n := s.names(mainKey)
	for _, name := range []string{n.list, n.ids, n.lens, n.meta} {
		require.NoError(t, s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: name, Values: []string{"a", "b"}}).Err())
		require.ErrorContains(t, s.Append(t.Context(), mainKey, []sessionstore.Entry{user("1")}), "WRONGTYPE")
		require.EqualValues(t, 1, s.client.Exists(t.Context(), n.list, n.ids, n.lens, n.meta).Val(), name)
		require.NoError(t, s.client.Del(t.Context(), name).Err())
	}
}

func TestFullMemory(t *testing.T) {
	srv := startServer(t, "--maxmemory", "20mb", "--maxmemory-policy", "noeviction")
	s := srv.backend().open(t, Options{RetryFor: -1}, nil)
	var stored []sessionstore.Entry
	var err error
	for n := 0; err == nil; n++ {
		batch := []sessionstore.Entry{user(fmt.Sprint(n)), bare(strings.Repeat("x", 100_000))}
		if err = s.Append(t.Context(), mainKey, batch); err == nil {
			stored = append(stored, batch...)
		}
	}
	require.ErrorContains(t, err, "OOM")
	requireLoad(t, s, mainKey, stored...)
	require.Equal(t, []string{"s"}, sessions(t, s, "p"))
	srv.do(t, "config", "set", "maxmemory", "2mb") // far too much in use
	require.ErrorContains(t, s.Append(t.Context(), at("p", "t", ""), []sessionstore.Entry{user("1")}), "OOM")
	requireLoad(t, s, mainKey, stored...)
	require.NoError(t, s.Delete(t.Context(), mainKey))
	requireLoad(t, s, mainKey)
	eventually(t, 5*time.Second, "room again", func() bool {
		return s.Append(t.Context(), mainKey, []sessionstore.Entry{user("1")}) == nil
	})
}

// Under an eviction policy sessions go; what is left of them must not look
// whole.
func TestEvictionPolicyNeverShortensATranscript(t *testing.T) {
	srv := startServer(t, "--maxmemory", "10mb", "--maxmemory-policy", "allkeys-random")
	s := srv.backend().open(t, Options{RetryFor: -1}, nil)
	want := make(map[sessionstore.Key][]sessionstore.Entry)
	for n := range 400 {
		key := at("p", fmt.Sprint("s", n), "")
		batch := []sessionstore.Entry{user("1"), bare(strings.Repeat("x", 50_000)), user("2")}
		if s.Append(t.Context(), key, batch) == nil {
			want[key] = batch
		}
	}
	whole, unknown, damaged := 0, 0, 0
	for key, entries := range want {
		got, err := s.Load(t.Context(), key)
		switch {
		case err != nil:
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			damaged++
		case got == nil:
			unknown++
		default:
			require.Equal(t, texts(entries), texts(got))
			whole++
		}
	}
	t.Log(whole, "whole,", damaged, "damaged,", unknown, "unknown")
	require.NotZero(t, damaged)
}

func TestLostAnswersAreRetried(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		var want []sessionstore.Entry
		for n := range 10 {
			batch := []sessionstore.Entry{user(fmt.Sprint(n)), bare("t"), bare("t")}
			wireOf(s).lose.Store(int64(n % 4))
			appendTo(t, s, mainKey, batch...)
			want = append(want, batch...)
		}
		requireLoad(t, s, mainKey, want...)
	})
}

// A read timeout far below what the server needs makes the client and the store
// repeat themselves all the time.
func TestTimeoutsStoreABatchOnce(t *testing.T) {
	srv := startServer(t)
	s := srv.backend().open(t, Options{RetryFor: time.Minute}, func(o *redis.UniversalOptions) { o.ReadTimeout = 30 * time.Millisecond })
	var want []sessionstore.Entry
	for n := range 20 {
		batch := []sessionstore.Entry{user(fmt.Sprint(n)), bare("t")}
		srv.do(t, "client", "pause", "100", "write")
		appendTo(t, s, mainKey, batch...)
		want = append(want, batch...)
	}
	requireLoad(t, s, mainKey, want...)
}

func TestCancelledContextEndsRetries(t *testing.T) {
	s := single(t).open(t, Options{RetryFor: time.Minute}, nil)
	wireOf(s).cut(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// It would go on for a minute, and the error would be that of the network.
	require.ErrorIs(t, s.Append(ctx, mainKey, []sessionstore.Entry{bare("t")}), context.DeadlineExceeded)
	wireOf(s).cut(false)
	appendTo(t, s, mainKey, bare("t"))
	requireLoad(t, s, mainKey, bare("t"))
}

func TestOutageIsBridged(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		appendTo(t, s, mainKey, bare("1"))
		wireOf(s).cut(true)
		time.AfterFunc(time.Second, func() { wireOf(s).cut(false) })
		appendTo(t, s, mainKey, bare("2"))
		requireLoad(t, s, mainKey, bare("1"), bare("2"))
	})
}

func TestExactRights(t *testing.T) {
	srv := startServer(t)
	allow(t, srv, aclRights)
	b := backendOf(&redis.UniversalOptions{Addrs: []string{srv.addr}, Username: "store", Password: "secret"})
	s := b.open(t, Options{Prefix: "mine:", TTL: time.Hour}, nil)
	useAll(t, s)
	require.Equal(t, "[]", srv.do(t, "acl", "log"))
	other := b.open(t, Options{Prefix: "other:", RetryFor: -1}, nil)
	require.ErrorContains(t, other.Append(t.Context(), mainKey, []sessionstore.Entry{user("1")}), "NOPERM")
}

func TestExactRightsOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	nodes := startCluster(t)
	for _, srv := range nodes {
		allow(t, srv, aclRights+" "+aclClusterRights)
	}
	var addrs []string
	for _, srv := range nodes {
		addrs = append(addrs, srv.addr)
	}
	b := backendOf(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: true, Username: "store", Password: "secret"})
	useAll(t, b.open(t, Options{Prefix: "mine:", TTL: time.Hour, WaitReplicas: 1}, nil))
	other := b.open(t, Options{Prefix: "other:"}, nil)
	require.ErrorContains(t, other.Append(t.Context(), mainKey, []sessionstore.Entry{user("1")}), "NOPERM")
	for _, srv := range nodes {
		require.NotContains(t, srv.do(t, "acl", "log"), "command") // but a key of "other:"
	}
}

// allow makes a user with these rights and no other.
func allow(t *testing.T, srv *server, rights string) {
	t.Helper()
	args := []any{"acl", "setuser", "store", "on", ">secret", "resetkeys", "~mine:*", "resetchannels", "-@all"}
	for _, right := range strings.Fields(rights) {
		args = append(args, right)
	}
	srv.do(t, args...)
}

// useAll does everything that a store can do.
func useAll(t *testing.T, s *Store) {
	t.Helper()
	appendTo(t, s, mainKey, user("1"), bare("t"))
	appendTo(t, s, mainKey, user("1"), user("2"))
	s.stageAbove = 10
	appendTo(t, s, mainKey, user("3"))
	appendTo(t, s, at("p", "s", "a"), user("1"))
	appendTo(t, s, at("p", "t", ""), user("1"))
	requireLoad(t, s, mainKey, user("1"), bare("t"), user("2"), user("3"))
	_, err := s.ListSessionSummaries(t.Context(), "p")
	require.NoError(t, err)
	_, err = s.ListProjects(t.Context())
	require.NoError(t, err)
	_, err = s.ListSubkeys(t.Context(), "p", "s")
	require.NoError(t, err)
	_, err = s.ListOrphans(t.Context(), "p")
	require.NoError(t, err)
	_, err = s.Repair(t.Context(), "p")
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), at("p", "s", "a")))
	_, err = s.Purge(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
}

// aclRights are the commands of docs/redis.md, all of them needed.
const aclRights = `+multi +exec +eval +rpush +lmove +lrange +llen +ltrim +lset +lrem +append +getrange +strlen
	+sadd +srem +scard +smembers +smismember +hget +hmget +hset +hdel +hexists +hgetall +hkeys +hlen +hrandfield
	+exists +unlink +pexpire +pexpireat +time +scan`

// aclClusterRights come on top, with WaitReplicas too.
const aclClusterRights = `+wait +cluster|slots +command +asking`

func TestRightsAreAllNeeded(t *testing.T) {
	sources := []string{appendSource, pushSource, deleteSource, noteSource, forgetSource, foldSource, confirmSource}
	for _, right := range strings.Fields(aclRights) {
		name := strings.ToUpper(strings.TrimPrefix(right, "+"))
		used := slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, "'"+name+"'") })
		direct := []string{"MULTI", "EXEC", "EVAL", "GETRANGE", "LRANGE", "HEXISTS", "HGETALL", "HRANDFIELD", "PEXPIRE", "SCAN"}
		require.True(t, used || slices.Contains(direct, name), name)
	}
}

func TestDocsNameTheSameRights(t *testing.T) {
	text, err := os.ReadFile("../docs/redis.md")
	require.NoError(t, err)
	for _, right := range strings.Fields(aclRights + " " + aclClusterRights) {
		require.Contains(t, string(text), right)
	}
}
