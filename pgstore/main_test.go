package pgstore_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/pgstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPool returns a pool on the test server. configure may be nil.
func newPool(tb testing.TB, configure func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return newPoolAt(tb, testenv.Postgres(tb), configure)
}

func newPoolAt(tb testing.TB, url string, configure func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(tb, err)
	config.MaxConns = 20
	if configure != nil {
		configure(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// relaxed makes commits not wait for the disk, where durability is not what a
// test is about.
func relaxed(config *pgxpool.Config) {
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
}

// newSchema makes a schema for one test, and returns its name.
func newSchema(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	name := newName()
	_, err := pool.Exec(context.Background(), "CREATE SCHEMA "+name)
	require.NoError(tb, err)
	tb.Cleanup(func() { dropSchema(tb, pool, name) })
	return name
}

func newName() string { return "test_" + strings.ToLower(rand.Text()[:12]) }

func dropSchema(tb testing.TB, pool *pgxpool.Pool, name string) {
	_, err := pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
	require.NoError(tb, err)
}

// newStore returns a store on new tables.
func newStore(tb testing.TB, pool *pgxpool.Pool, opts *pgstore.Options) *pgstore.Store {
	tb.Helper()
	if opts == nil {
		opts = &pgstore.Options{Schema: newSchema(tb, pool)}
	}
	s, err := pgstore.New(pool, opts)
	require.NoError(tb, err)
	require.NoError(tb, s.Migrate(context.Background()))
	return s
}

// newTestStore is newStore for tests that look behind the store: it returns
// the quoted prefix of the tables too, such as "schema.sessionstore_".
func newTestStore(tb testing.TB, pool *pgxpool.Pool) (s *pgstore.Store, tables string) {
	tb.Helper()
	schema := newSchema(tb, pool)
	return newStore(tb, pool, &pgstore.Options{Schema: schema}), schema + "." + pgstore.DefaultTablePrefix
}
