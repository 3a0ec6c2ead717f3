package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

// guideSQL returns the SQL below a heading of docs/postgres.md, for a schema
// and roles of the test's own.
func guideSQL(t *testing.T, heading, schema string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/postgres.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	_, sql, found := strings.Cut(section, "```sql\n")
	require.True(t, found, "SQL below %s", heading)
	sql, _, _ = strings.Cut(sql, "```")
	return strings.NewReplacer("agents", schema, "agent_", schema+"_").Replace(sql)
}

// asRole returns a store whose connections have the rights of a role only.
func asRole(t *testing.T, role, schema string) *pgstore.Store {
	t.Helper()
	pool := newPool(t, func(c *pgxpool.Config) { relaxed(c); c.ConnConfig.RuntimeParams["role"] = role })
	s, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	require.NoError(t, err)
	return s
}

func dropRole(t *testing.T, pool *pgxpool.Pool, role string) {
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), fmt.Sprintf(`DO $$ BEGIN DROP OWNED BY %[1]s; EXCEPTION WHEN undefined_object THEN NULL; END $$; DROP ROLE IF EXISTS %[1]s`, role))
		require.NoError(t, err)
	})
}

func TestRolesOfTheGuide(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	owner := newStore(t, pool, &pgstore.Options{Schema: schema})
	for _, role := range []string{"_reader", "_writer", "_deleter"} {
		dropRole(t, pool, schema+role)
	}
	_, err := pool.Exec(t.Context(), guideSQL(t, "Roles", schema))
	require.NoError(t, err)

	allowed := map[string]bool{"load": true, "stream": true, "list sessions": true, "list session summaries": true, "list projects": true, "list subkeys": true}
	for _, step := range []struct{ role, more string }{{"_reader", ""}, {"_writer", "append"}, {"_deleter", "delete purge"}} {
		for _, op := range strings.Fields(step.more) {
			allowed[op] = true
		}
		s := asRole(t, schema+step.role, schema)
		require.NoError(t, s.Migrate(t.Context()), "nothing is to be done")
		require.NoError(t, owner.Append(t.Context(), subKey("x"), numbered("x", 1)))
		require.NoError(t, owner.Append(t.Context(), sessionstore.Key{ProjectKey: "p", SessionID: "old"}, numbered("x", 1)))
		for op, err := range operations(t.Context(), s) {
			var pgErr *pgconn.PgError
			if allowed[op] {
				require.NoError(t, err, "%s as %s", op, step.role)
			} else {
				require.ErrorAs(t, err, &pgErr, "%s as %s", op, step.role)
				require.Equal(t, "42501", pgErr.Code)
			}
		}
	}
}

func TestTenantsOfTheGuide(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	newStore(t, pool, &pgstore.Options{Schema: schema})
	a, b := schema+"_a", schema+"_b"
	for _, role := range []string{a, b} {
		dropRole(t, pool, role)
		_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %[2]s; GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s`, schema, role))
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), guideSQL(t, "One tenant cannot see another's rows", schema))
	require.NoError(t, err)

	keyOf := func(role string) sessionstore.Key { return sessionstore.Key{ProjectKey: role + "/p", SessionID: "s"} }
	stores := map[string]*pgstore.Store{a: asRole(t, a, schema), b: asRole(t, b, schema)}
	for role, s := range stores {
		for _, key := range []sessionstore.Key{keyOf(role), {ProjectKey: role + "/p", SessionID: "s", Subpath: "x"}} {
			require.NoError(t, s.Append(t.Context(), key, numbered("a", 3)))
			require.NoError(t, s.Append(t.Context(), key, numbered("a", 5)))
			requireLoad(t, s, key, numbered("a", 5)...)
		}
	}
	var pgErr *pgconn.PgError
	require.ErrorAs(t, stores[a].Append(t.Context(), keyOf(b), numbered("b", 1)), &pgErr)
	require.Equal(t, "42501", pgErr.Code)
	got, err := stores[a].Load(t.Context(), keyOf(b))
	require.NoError(t, err)
	require.Nil(t, got)
	require.NoError(t, stores[a].Delete(t.Context(), keyOf(b)))
	projects, err := stores[a].ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{a + "/p"}, projects)
	report, err := stores[a].Purge(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, sessionstore.PurgeReport{Sessions: 1, Transcripts: 2}, report)
	requireLoad(t, stores[b], keyOf(b), numbered("a", 5)...)

	requireNoWayAround(t, a, schema)
}

// requireNoWayAround tries what a host could do by hand.
func requireNoWayAround(t *testing.T, role, schema string) {
	t.Helper()
	hand := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	var n int
	require.NoError(t, hand.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".sessionstore_entries").Scan(&n))
	require.Zero(t, n)
	_, err := hand.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %s.sessionstore_entries SELECT id, 99, gen_random_uuid(), 2, '{}' FROM generate_series(1, 100) AS id`, schema))
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "42501", pgErr.Code)
}

func TestPartitionsOfTheGuide(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newName()
	t.Cleanup(func() { dropSchema(t, pool, schema) })
	_, err := pool.Exec(t.Context(), guideSQL(t, "Very large installations", schema))
	require.NoError(t, err)
	s := newStore(t, pool, &pgstore.Options{Schema: schema})
	for i := range 40 {
		key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint(i)}
		require.NoError(t, s.Append(t.Context(), key, numbered("a", 3)))
		require.NoError(t, s.Append(t.Context(), key, numbered("a", 5)))
		requireLoad(t, s, key, numbered("a", 5)...)
		requireFold(t, s, key)
	}
	var used, partitions int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(DISTINCT tableoid) FROM "+schema+".sessionstore_entries").Scan(&used))
	require.Greater(t, used, 5)
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_inherits WHERE inhparent = ($1 || '.sessionstore_entries')::regclass", schema).Scan(&partitions))
	require.Equal(t, 16, partitions)
	require.NoError(t, s.Delete(t.Context(), sessionstore.Key{ProjectKey: "p", SessionID: "1"}))
	report, err := s.Purge(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, sessionstore.PurgeReport{Sessions: 39, Transcripts: 39}, report)
}

func TestVacuumSettingsOfTheGuide(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	newStore(t, pool, &pgstore.Options{Schema: schema})
	_, err := pool.Exec(t.Context(), guideSQL(t, "Vacuum", schema))
	require.NoError(t, err)
}
