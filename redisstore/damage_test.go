package redisstore

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// unreadable are ways to make a session unreadable by what is in meta.
var unreadable = map[string]func(ctx context.Context, c redis.UniversalClient, meta string) error{
	"Later_format": func(ctx context.Context, c redis.UniversalClient, meta string) error {
		return c.HSet(ctx, meta, "v", "2").Err()
	},
	"Junk": func(ctx context.Context, c redis.UniversalClient, meta string) error {
		return c.HSet(ctx, meta, mainField, "junk").Err()
	},
	"Row_lost": func(ctx context.Context, c redis.UniversalClient, meta string) error {
		return c.HDel(ctx, meta, mainField).Err()
	},
	"Another_type": func(ctx context.Context, c redis.UniversalClient, meta string) error {
		return c.Set(ctx, meta, "x", 0).Err()
	},
	"Evicted": func(ctx context.Context, c redis.UniversalClient, meta string) error {
		return c.Del(ctx, meta).Err()
	},
}

func TestUnreadableSessionHidesNoOther(t *testing.T) {
	for what, harm := range unreadable {
		t.Run(what, func(t *testing.T) {
			onBackends(t, func(t *testing.T, b backend) {
				s := b.open(t, Options{}, nil)
				s.grace = 0
				bad := at("p", "bad", "")
				appendTo(t, s, bad, user("1"))
				appendTo(t, s, at("p", "bad", "a"), user("1"))
				appendTo(t, s, mainKey, bare("1"))
				appendTo(t, s, at("p", "orphan", "a"), bare("1"))
				appendTo(t, s, at("q", "s", ""), bare("1"))
				require.NoError(t, harm(t.Context(), s.client, s.names(bad).meta))

				require.ElementsMatch(t, []string{"bad", "s"}, sessions(t, s, "p"))
				require.Positive(t, mtime(t, s))
				_, err := s.Load(t.Context(), bad)
				require.ErrorIs(t, err, sessionstore.ErrCorrupt)
				require.ErrorIs(t, s.Append(t.Context(), bad, []sessionstore.Entry{user("2")}), sessionstore.ErrCorrupt)
				summaries, err := s.ListSessionSummaries(t.Context(), "p")
				require.NoError(t, err)
				require.Len(t, summaries, 1)
				orphans, err := s.ListOrphans(t.Context(), "p")
				require.NoError(t, err)
				require.Equal(t, []string{"orphan"}, orphans)

				report, err := s.Repair(t.Context(), "")
				require.NoError(t, err)
				require.Contains(t, report.Damaged, bad)
				purged, err := s.Purge(t.Context(), time.Now().Add(time.Hour))
				require.ErrorIs(t, err, sessionstore.ErrCorrupt)
				require.ErrorContains(t, err, "p/bad")
				require.Equal(t, sessionstore.PurgeReport{Sessions: 2, Transcripts: 2}, purged)
				require.Equal(t, []string{"bad"}, sessions(t, s, "p"))
				projects, err := s.ListProjects(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"p"}, projects)

				require.NoError(t, s.Delete(t.Context(), bad))
				require.Empty(t, sessions(t, s, "p"))
				for _, name := range b.keys(t, s.prefix) {
					require.NotContains(t, name, "/bad}")
				}
				for _, key := range []sessionstore.Key{bad, at("p", "bad", "a")} {
					appendTo(t, s, key, user("3"))
					requireLoad(t, s, key, user("3"))
				}
			})
		})
	}
}

func TestSubpathsAreKnownWithoutMeta(t *testing.T) {
	for what, harm := range map[string]func(ctx context.Context, c redis.UniversalClient, meta string) error{
		"Evicted": unreadable["Evicted"], "Another_type": unreadable["Another_type"],
	} {
		t.Run(what, func(t *testing.T) {
			s := single(t).open(t, Options{TTL: time.Hour}, nil)
			a, b := at("p", "s", "a"), at("p", "s", "a/b")
			for _, key := range []sessionstore.Key{a, b} {
				appendTo(t, s, key, user("1"))
			}
			require.NoError(t, harm(t.Context(), s.client, s.names(a).meta))
			if what == "Evicted" {
				orphans, err := s.ListOrphans(t.Context(), "p")
				require.NoError(t, err)
				require.Equal(t, []string{"s"}, orphans)
				subs, err := s.ListSubkeys(t.Context(), "p", "s")
				require.NoError(t, err)
				require.Equal(t, []string{"a", "a/b"}, subs)
			}
			projects, err := s.ListProjects(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"p"}, projects)
			require.NoError(t, s.Delete(t.Context(), a))
			appendTo(t, s, a, user("2"))
			requireLoad(t, s, a, user("2"))
			_, err = s.Load(t.Context(), b)
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			require.NoError(t, s.Delete(t.Context(), mainKey))
			require.Empty(t, single(t).keys(t, s.prefix))
		})
	}
}

func TestBrokenIndexesHideNoOtherProject(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		s := b.open(t, Options{}, nil)
		appendTo(t, s, mainKey, user("1"))
		appendTo(t, s, at("q", "s", ""), user("1"))
		require.NoError(t, s.client.Set(t.Context(), s.sessionsKey("p"), "x", 0).Err())
		_, err := s.ListSessions(t.Context(), "p")
		require.ErrorIs(t, err, sessionstore.ErrCorrupt)
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"p", "q"}, projects)
		purged, err := s.Purge(t.Context(), time.Now().Add(time.Hour))
		require.ErrorIs(t, err, sessionstore.ErrCorrupt)
		require.Equal(t, 1, purged.Sessions)
		require.NoError(t, s.client.Set(t.Context(), s.projectsKey(), "x", 0).Err())
		_, err = s.ListProjects(t.Context())
		require.ErrorIs(t, err, sessionstore.ErrCorrupt)
		report, err := s.Repair(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, RepairReport{Sessions: 1, Added: 1}, report)
		projects, err = s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"p"}, projects)
	})
}

func TestPurgeCountsPartsOfAMillisecond(t *testing.T) {
	s := startServer(t).backend().open(t, Options{}, nil)
	appendTo(t, s, mainKey, user("1"))
	written := time.UnixMilli(mtime(t, s))
	report, err := s.Purge(t.Context(), written)
	require.NoError(t, err)
	require.Zero(t, report.Sessions)
	report, err = s.Purge(t.Context(), written.Add(time.Nanosecond))
	require.NoError(t, err)
	require.Equal(t, 1, report.Sessions)
	// Before 1970 too.
	require.EqualValues(t, 0, firstMilli(time.Unix(0, -1)))
	require.EqualValues(t, -1, firstMilli(time.UnixMilli(-1)))
}

// An append that fails says why, and at once where waiting does not help.
func TestFailedAppendNamesTheCause(t *testing.T) {
	passes := map[string]bool{"READONLY": true, "NOREPLICAS": true}
	for cause, provoke := range map[string]func(t *testing.T, srv *server){
		"OOM":        func(t *testing.T, srv *server) { srv.do(t, "config", "set", "maxmemory", "1") },
		"READONLY":   func(t *testing.T, srv *server) { srv.do(t, "replicaof", "127.0.0.1", "1") },
		"NOREPLICAS": func(t *testing.T, srv *server) { srv.do(t, "config", "set", "min-replicas-to-write", "1") },
		"NOPERM":     func(t *testing.T, srv *server) { srv.do(t, "acl", "setuser", "default", "-rpush") },
		"MISCONF": func(t *testing.T, srv *server) {
			srv.do(t, "config", "set", "save", "900 1")
			require.NoError(t, os.RemoveAll(srv.dir))
			srv.do(t, "bgsave")
			eventually(t, 5*time.Second, "saving fails", func() bool {
				return strings.Contains(srv.do(t, "info", "persistence"), "rdb_last_bgsave_status:err")
			})
		},
	} {
		t.Run(cause, func(t *testing.T) {
			srv := startServer(t)
			for _, above := range []int{1 << 30, 10} {
				tries := 0
				s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
					if cmds[0].Name() == "multi" {
						tries++
					}
					return next(ctx, cmds)
				}, srv.backend(), Options{})
				if s.stageAbove = above; passes[cause] {
					s.retryFor = -1
				}
				if above > 10 {
					provoke(t, srv)
				}
				require.ErrorContains(t, s.Append(t.Context(), mainKey, []sessionstore.Entry{bare("1")}), cause)
				require.Equal(t, 1, tries)
			}
		})
	}
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	var client *redis.Client
	var cluster *redis.ClusterClient
	var ring *redis.Ring
	for _, c := range []redis.UniversalClient{nil, client, cluster, ring} {
		_, err := New(c, nil)
		require.ErrorContains(t, err, "the client is nil")
	}
	client = redis.NewClient(&redis.Options{})
	defer client.Close()
	_, err := New(client, &Options{WaitReplicas: 1, WaitTimeout: time.Microsecond})
	require.ErrorContains(t, err, "less than 1ms") // it would wait for ever
}

func TestSessionThatHasLostItsVersionIsListed(t *testing.T) {
	b := single(t)
	s := b.open(t, Options{}, nil)
	appendTo(t, s, mainKey, bare("title"), user("1"))
	want := summary(t, s)
	require.NoError(t, s.client.HDel(t.Context(), s.names(mainKey).meta, "v").Err())
	require.Equal(t, []string{"s"}, sessions(t, s, "p"))
	require.JSONEq(t, want, summary(t, s))
	requireLoad(t, s, mainKey, bare("title"), user("1"))
}
