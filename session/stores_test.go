package session

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/pgstore"
	"github.com/sessionstore/sessionstore/redisstore"
)

// fullStore is what the stores of this module can do.
type fullStore interface {
	sessionstore.SessionStore
	sessionstore.SessionLister
	sessionstore.SummaryLister
	sessionstore.SubkeyLister
	sessionstore.OrphanLister
	sessionstore.Deleter
	sessionstore.Streamer
}

// stores are all of them, and how many rounds of a race they have time for.
var stores = []struct {
	name   string
	rounds int
	open   func(t testing.TB) fullStore
}{
	{"InMemory", 1000, func(testing.TB) fullStore { return inmemory.New() }},
	{"Files", 100, func(t testing.TB) fullStore { return openFiles(t, t.TempDir()) }},
	{"Postgres", 80, openPostgres},
	{"Redis", 100, func(t testing.TB) fullStore {
		return openRedis(t, redis.NewClient(&redis.Options{Addr: testenv.Redis(t)}))
	}},
	{"RedisCluster", 60, func(t testing.TB) fullStore {
		return openRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t)}))
	}},
}

// onEachStore runs a test on an empty store of each kind.
func onEachStore(t *testing.T, test func(t *testing.T, s fullStore, rounds int)) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			rounds := st.rounds
			if raceEnabled || testing.Short() {
				rounds /= 5
			}
			test(t, st.open(t), rounds)
		})
	}
}

func openPostgres(t testing.TB) fullStore {
	config, err := pgxpool.ParseConfig(testenv.Postgres(t))
	require.NoError(t, err)
	config.MaxConns = 20
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // these tests are about order
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	schema := "test_" + strings.ToLower(rand.Text()[:12])
	_, err = pool.Exec(context.Background(), "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		require.NoError(t, err)
	})
	s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(context.Background()))
	return s
}

func openRedis(t testing.TB, client redis.UniversalClient) fullStore {
	t.Cleanup(func() { client.Close() })
	s, err := redisstore.New(client, &redisstore.Options{Prefix: "test-" + rand.Text()[:12] + ":"})
	require.NoError(t, err)
	t.Cleanup(func() { // leaves the index of an empty project
		for _, id := range []string{testID, otherID} {
			require.NoError(t, s.Delete(context.Background(), mainKey(id)))
		}
	})
	return s
}
