package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/pgstore"
)

func TestManyHostsMigrateAtOnce(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"Direct": testenv.Postgres, "PgBouncer": testenv.PgBouncer} {
		t.Run(name, func(t *testing.T) {
			admin := newPool(t, nil)
			schema := newName() // Migrate makes it
			t.Cleanup(func() { dropSchema(t, admin, schema) })
			var wg sync.WaitGroup
			errs := make(chan error, 20)
			for range 20 {
				pool := newPoolAt(t, url(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec })
				wg.Go(func() {
					s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
					if err == nil {
						err = s.Migrate(t.Context())
					}
					errs <- err
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			var versions int
			require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".sessionstore_versions").Scan(&versions))
			require.Equal(t, pgstore.SchemaVersion, versions)
		})
	}
}

// operations are all operations of a store, each as a call that can only fail
// for reasons of the tables.
func operations(ctx context.Context, s *pgstore.Store) map[string]error {
	errs := map[string]error{
		"append": s.Append(ctx, mainKey, numbered("a", 1)),
		"delete": s.Delete(ctx, mainKey),
	}
	_, errs["load"] = s.Load(ctx, mainKey)
	_, errs["list sessions"] = s.ListSessions(ctx, "p")
	_, errs["list session summaries"] = s.ListSessionSummaries(ctx, "p")
	_, errs["list projects"] = s.ListProjects(ctx)
	_, errs["list subkeys"] = s.ListSubkeys(ctx, "p", "s")
	_, errs["purge"] = s.Purge(ctx, time.Now().Add(time.Hour))
	for _, err := range s.Stream(ctx, mainKey) {
		errs["stream"] = err
	}
	return errs
}

func TestMissingTablesNameTheCallToMake(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	for _, schema := range []string{schema, "nowhere"} {
		s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
		require.NoError(t, err)
		for op, err := range operations(t.Context(), s) {
			require.ErrorIs(t, err, pgstore.ErrNotMigrated, op)
			require.ErrorContains(t, err, "pgstore: "+op, op)
			require.ErrorContains(t, err, "call Store.Migrate", op)
		}
	}
	// Tables that vanish under a running store.
	s := newStore(t, pool, &pgstore.Options{Schema: schema})
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
	_, err := pool.Exec(t.Context(), "DROP TABLE "+schema+".sessionstore_entries")
	require.NoError(t, err)
	require.ErrorIs(t, s.Append(t.Context(), mainKey, numbered("a", 1)), pgstore.ErrNotMigrated)
}

func TestOldTablesNameTheCallToMake(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	opts := &pgstore.Options{Schema: schema}
	newStore(t, pool, opts)
	_, err := pool.Exec(t.Context(), "DELETE FROM "+schema+".sessionstore_versions")
	require.NoError(t, err)
	s, err := pgstore.New(pool, opts)
	require.NoError(t, err)
	for op, err := range operations(t.Context(), s) {
		require.ErrorIs(t, err, pgstore.ErrNotMigrated, op)
		require.ErrorContains(t, err, "they have version 0, this code needs 1", op)
	}
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
}

func TestTablesOfALaterVersion(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	opts := &pgstore.Options{Schema: schema}
	newStore(t, pool, opts)
	later := func(requires int) *pgstore.Store {
		_, err := pool.Exec(t.Context(), fmt.Sprintf("DELETE FROM %[1]s.sessionstore_versions WHERE version = 7; INSERT INTO %[1]s.sessionstore_versions VALUES (7, %[2]d)", schema, requires))
		require.NoError(t, err)
		s, err := pgstore.New(pool, opts)
		require.NoError(t, err)
		return s
	}
	s := later(1) // it has only added something
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))

	s = later(7)
	require.ErrorIs(t, s.Migrate(t.Context()), sessionstore.ErrCorrupt)
	for op, err := range operations(t.Context(), s) {
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, op)
	}
}

func TestSchemaIsWhatMigrateDoes(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newName()
	t.Cleanup(func() { dropSchema(t, pool, schema) })
	s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	for range 2 {
		_, err := pool.Exec(t.Context(), s.Schema())
		require.NoError(t, err, "it can be run again")
	}
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)), "no Migrate needed")

	other := newSchema(t, pool)
	newStore(t, pool, &pgstore.Options{Schema: other})
	describe := func(schema string) (all []string) {
		rows, err := pool.Query(t.Context(), `
			SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable FROM information_schema.columns WHERE table_schema = $1
			UNION ALL SELECT replace(indexdef, $1, '') FROM pg_indexes WHERE schemaname = $1
			UNION ALL SELECT relname || reloptions::text FROM pg_class WHERE relnamespace = $1::regnamespace
			UNION ALL SELECT attname || attcompression::text FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid WHERE relnamespace = $1::regnamespace ORDER BY 1`, schema)
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (text string, err error) {
			var p *string
			if err = row.Scan(&p); p != nil {
				text = *p
			}
			return text, err
		})
		require.NoError(t, err)
		return all
	}
	require.Equal(t, describe(other), describe(schema))
}

func TestAnyNamesAreQuoted(t *testing.T) {
	pool := newPool(t, relaxed)
	for _, name := range []string{`Upper`, `we"ird`, `it's`, `a.b; DROP TABLE x --`, `$1 {entries}`, `select`, `日本`,
		`$$`, `$body$body0_name$`, `body_sql$`, `a'ALTER TABLE {entries}`, `{tag}{schema}`, `\`} {
		opts := &pgstore.Options{Schema: name + newName(), TablePrefix: name}
		t.Cleanup(func() { dropSchema(t, pool, opts.Schema) })
		s := newStore(t, pool, opts)
		for op, err := range operations(t.Context(), s) {
			require.NoError(t, err, "%s with the name %s", op, name)
		}
		_, err := pool.Exec(t.Context(), s.Schema())
		require.NoError(t, err, name)
	}
}

func TestStoresWithOtherPrefixesShareNothing(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	a := newStore(t, pool, &pgstore.Options{Schema: schema, TablePrefix: "a_"})
	b := newStore(t, pool, &pgstore.Options{Schema: schema, TablePrefix: "A_"})
	require.NoError(t, a.Append(t.Context(), mainKey, numbered("a", 1)))
	got, err := b.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Nil(t, got)
}

// Without Schema the tables are found like any table without one.
func TestTablesAreFoundBySearchPath(t *testing.T) {
	admin := newPool(t, relaxed)
	schema := newSchema(t, admin)
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema })
	s := newStore(t, pool, &pgstore.Options{})
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
	requireLoad(t, newStore(t, admin, &pgstore.Options{Schema: schema}), mainKey, numbered("a", 1)...)
}

func TestNewRefusesImpossibleNames(t *testing.T) {
	pool := newPool(t, nil)
	for _, opts := range []*pgstore.Options{
		{Schema: strings.Repeat("s", 64)}, {TablePrefix: strings.Repeat("p", 60)}, {Schema: "a\x00b"}, {TablePrefix: "a\xffb"},
	} {
		_, err := pgstore.New(pool, opts)
		require.ErrorContains(t, err, "from Options.")
	}
	_, err := pgstore.New(nil, nil)
	require.Error(t, err)
}

// What a replica, or a role that may only read, allows is enough for reading.
func TestReadingWritesNothing(t *testing.T) {
	admin := newPool(t, relaxed)
	opts := &pgstore.Options{Schema: newSchema(t, admin)}
	writer := newStore(t, admin, opts)
	require.NoError(t, writer.Append(t.Context(), mainKey, numbered("a", 3)))
	s, err := pgstore.New(newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }), opts)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()), "nothing is to be done")
	for op, err := range operations(t.Context(), s) {
		if op == "append" || op == "delete" || op == "purge" {
			require.Error(t, err, op)
		} else {
			require.NoError(t, err, op)
		}
	}
	requireLoad(t, s, mainKey, numbered("a", 3)...)
}

func TestSchemaRunsInTheTransactionOfATool(t *testing.T) {
	pool := newPool(t, relaxed)
	s, err := pgstore.New(pool, &pgstore.Options{Schema: newName()})
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), s.Schema())
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	require.ErrorIs(t, s.Append(t.Context(), mainKey, numbered("a", 1)), pgstore.ErrNotMigrated, "nothing has been committed")
}

// The owner of a schema need not have the right to make one.
func TestSchemaNeedsOnlyRightsInTheSchema(t *testing.T) {
	admin := newPool(t, relaxed)
	schema := newSchema(t, admin)
	role := schema + "_owner"
	dropRole(t, admin, role)
	_, err := admin.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %[1]s; ALTER SCHEMA %[2]s OWNER TO %[1]s", role, schema))
	require.NoError(t, err)
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), s.Schema())
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
}

func TestManyPrefixesMigrateIntoAMissingSchema(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newName()
	t.Cleanup(func() { dropSchema(t, pool, schema) })
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 16 {
		wg.Go(func() {
			s, err := pgstore.New(pool, &pgstore.Options{Schema: schema, TablePrefix: fmt.Sprint("p", i, "_")})
			if err == nil {
				err = s.Migrate(t.Context())
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// A tool that runs the SQL takes no lock that Migrate knows of.
func TestMigrateMeetsATool(t *testing.T) {
	pool := newPool(t, relaxed)
	for _, make := range []func() string{newName, func() string { return newSchema(t, pool) }} {
		schema := make()
		t.Cleanup(func() { dropSchema(t, pool, schema) })
		s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
		require.NoError(t, err)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), s.Schema())
		require.NoError(t, err)
		wait := deletion{pool: pool, opts: &pgstore.Options{Schema: schema}}.async(t, func() error { return s.Migrate(t.Context()) })
		require.NoError(t, tx.Commit(t.Context()))
		wait()
		require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
	}
}

func TestMigrateWithoutASchemaSaysSo(t *testing.T) {
	for _, path := range []string{"", "nowhere"} {
		pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = path })
		s, err := pgstore.New(pool, nil)
		require.NoError(t, err)
		err = s.Migrate(t.Context())
		require.ErrorContains(t, err, "set Options.Schema")
		require.NotErrorIs(t, err, pgstore.ErrNotMigrated)
	}
}

// Under these settings the server would change data without an error.
func TestHarmfulSettingsAreRefused(t *testing.T) {
	admin := newPool(t, relaxed)
	ready, missing := newSchema(t, admin), newSchema(t, admin)
	good := newStore(t, admin, &pgstore.Options{Schema: ready})
	for name, value := range map[string]string{"client_encoding": "LATIN1", "array_nulls": "off"} {
		pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value })
		s, err := pgstore.New(pool, &pgstore.Options{Schema: ready})
		require.NoError(t, err)
		for op, err := range operations(t.Context(), s) {
			require.ErrorContains(t, err, "set "+name+" to", op)
		}
		require.ErrorContains(t, s.Migrate(t.Context()), "set "+name+" to")
		s, err = pgstore.New(pool, &pgstore.Options{Schema: missing})
		require.NoError(t, err)
		require.ErrorContains(t, s.Migrate(t.Context()), "set "+name+" to")
	}
	projects, err := good.ListProjects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
}

func TestOtherDatabaseEncodingsAreRefused(t *testing.T) {
	admin := newPool(t, relaxed)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_JP"} {
		name := newName()
		_, err := admin.Exec(t.Context(), fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", name, encoding))
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
			require.NoError(t, err)
		})
		pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.Database = name })
		s, err := pgstore.New(pool, nil)
		require.NoError(t, err)
		require.ErrorContains(t, s.Migrate(t.Context()), "the encoding of the database is "+encoding)
		_, err = pool.Exec(t.Context(), s.Schema())
		require.NoError(t, err)
		require.ErrorContains(t, s.Append(t.Context(), mainKey, numbered("a", 1)), "the encoding of the database is "+encoding)
		pool.Close()
	}
}

func TestAcquiredConnectionHasOneUserAtATime(t *testing.T) {
	pool := newPool(t, relaxed)
	opts := &pgstore.Options{Schema: newSchema(t, pool)}
	newStore(t, pool, opts)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	s, err := pgstore.New(conn, opts)
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 10 {
		wg.Go(func() {
			for range 10 {
				errs <- s.Append(t.Context(), subKey(fmt.Sprint(i)), numbered("a", 2))
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}
