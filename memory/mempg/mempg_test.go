package mempg

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(tb testing.TB, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	config.MaxConns = 12
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// newSchema makes a schema for one test.
func newSchema(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	_, err := pool.Exec(context.Background(), "CREATE SCHEMA "+name)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+name+" CASCADE")
		require.NoError(tb, err)
	})
	return name
}

func open(tb testing.TB, pool *pgxpool.Pool, scope string, options Options) *Store {
	tb.Helper()
	s, err := New(pool, scope, &options)
	require.NoError(tb, err)
	require.NoError(tb, s.Migrate(context.Background()))
	return s
}

func harness(pool *pgxpool.Pool) memorytest.Harness {
	schemas := map[testing.TB]string{}
	options := func(tb testing.TB) *Options {
		if schemas[tb] == "" {
			schemas[tb] = newSchema(tb, pool)
			open(tb, pool, "first", Options{Schema: schemas[tb]})
		}
		return &Options{Schema: schemas[tb]}
	}
	reopen := func(tb testing.TB, s memory.Store) *Store {
		other, err := New(pool, s.(*Store).scope, options(tb))
		require.NoError(tb, err)
		return other
	}
	return memorytest.Harness{
		Open: func(tb testing.TB, scope string) (memory.Store, error) {
			s, err := New(pool, scope, options(tb))
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Reopen: func(tb testing.TB, s memory.Store) memory.Store { return reopen(tb, s) },
		Later: func(tb testing.TB, s memory.Store, d time.Duration) memory.Store {
			later := reopen(tb, s)
			later.now = func() time.Time { return time.Now().Add(d) }
			return later
		},
		Outage: func(tb testing.TB, s memory.Store) {
			away, err := pgxpool.New(context.Background(), "postgres://nobody@127.0.0.1:1/none")
			require.NoError(tb, err)
			tb.Cleanup(away.Close)
			s.(*Store).db = away
		},
		Require: memorytest.All,
	}
}

func TestConformance(t *testing.T) {
	for name, mode := range map[string]pgx.QueryExecMode{
		"CacheStatement": pgx.QueryExecModeCacheStatement, "CacheDescribe": pgx.QueryExecModeCacheDescribe, "DescribeExec": pgx.QueryExecModeDescribeExec,
		"Exec": pgx.QueryExecModeExec, "SimpleProtocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			h := harness(newPool(t, testenv.Postgres(t), mode))
			h.Short = mode != pgx.QueryExecModeCacheStatement
			memorytest.Run(t, h)
		})
	}
	t.Run("PgBouncer", func(t *testing.T) {
		h := harness(newPool(t, testenv.PgBouncer(t), pgx.QueryExecModeExec))
		h.Short = true
		memorytest.Run(t, h)
	})
}

func TestHostsMayMigrateAtOnce(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	schema := newSchema(t, pool) + `_"Odd" name`
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { open(t, pool, "scope", Options{Schema: schema, TablePrefix: "Ours $body$ "}) })
	}
	wg.Wait()
	s := open(t, pool, "scope", Options{Schema: schema, TablePrefix: "Ours $body$ "})
	require.NoError(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}))
}

func TestMissingAndLaterTablesAreErrors(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	schema := newSchema(t, pool)
	s, err := New(pool, "scope", &Options{Schema: schema})
	require.NoError(t, err)
	_, err = s.Read(t.Context(), "/memories/f", 0)
	require.ErrorIs(t, err, ErrNotMigrated)
	require.NotErrorIs(t, err, memory.ErrNotFound)
	_, err = pool.Exec(t.Context(), s.Schema(), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = s.Read(t.Context(), "/memories/f", 0)
	require.ErrorIs(t, err, memory.ErrNotFound)
	_, err = pool.Exec(t.Context(), "INSERT INTO "+s.names.versions+" VALUES (2, 2)")
	require.NoError(t, err)
	s, err = New(pool, "scope", &Options{Schema: schema})
	require.NoError(t, err)
	_, err = s.List(t.Context(), memory.Root)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.ErrorIs(t, s.Migrate(t.Context()), sessionstore.ErrCorrupt)
}

func TestInATransactionOfTheCaller(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	options := Options{Schema: newSchema(t, pool)}
	s := open(t, pool, "scope", options)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	inTx, err := New(tx, "scope", &options)
	require.NoError(t, err)
	require.NoError(t, inTx.Write(t.Context(), "/memories/f", []byte("text"), "", memory.Limits{}))
	require.ErrorIs(t, inTx.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}), memory.ErrExists)
	_, err = s.Read(t.Context(), "/memories/f", 0)
	require.ErrorIs(t, err, memory.ErrNotFound, "nothing is there before the commit")
	require.NoError(t, tx.Commit(t.Context()))
	f, err := s.Read(t.Context(), "/memories/f", 0)
	require.NoError(t, err)
	require.Equal(t, "text", string(f.Data))
}

func TestAFileIsAnOrdinaryRow(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	s := open(t, pool, "user é", Options{Schema: newSchema(t, pool)})
	require.NoError(t, s.Write(t.Context(), "/memories/notes.md", []byte("täxt"), "", memory.Limits{}))
	var text string
	err := pool.QueryRow(t.Context(), "SELECT convert_from(content, 'UTF8') FROM "+s.names.files+" WHERE scope = convert_to('user é', 'UTF8') AND path = '/memories/notes.md'").Scan(&text)
	require.NoError(t, err)
	require.Equal(t, "täxt", text)
}

func TestNewRefuses(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	_, err := New(nil, "scope", nil)
	require.ErrorContains(t, err, "the database is nil")
	_, err = New(pool, "", nil)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	_, err = New(pool, "scope", &Options{TablePrefix: strings.Repeat("x", 60)})
	require.ErrorContains(t, err, "Options.TablePrefix")
}
