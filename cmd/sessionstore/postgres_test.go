package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
)

// postgresURL names a schema of the test's own, which does not exist yet.
func postgresURL(t *testing.T) string {
	t.Helper()
	dsn := testenv.Postgres(t)
	schema := "cli " + rand.Text()
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, dsn)
		require.NoError(t, err)
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	return dsn + separator + "schema=" + strings.ReplaceAll(schema, " ", "%20")
}

func TestPostgresFromMigrateToPurge(t *testing.T) {
	home(t)
	url, dir := postgresURL(t), recordedDir(t)
	require.Contains(t, fails(t, exitFailure, "ls", "--all", "-s", url),
		"sessionstore: the tables are missing or too old; run \"sessionstore migrate\" on this store\n")
	require.Contains(t, ok(t, "migrate", "-s", url), "up to date")
	require.Equal(t, `{"migrated":true}`+"\n", ok(t, "migrate", "-s", url, "--json"))

	require.Contains(t, ok(t, "import", dir, "--to", url), "8 transcripts")
	require.Contains(t, ok(t, "import", dir, "--to", url), "8 unchanged")
	ok(t, "verify", "file:"+dir, url)
	require.Equal(t, ok(t, "show", "-s", dir, recordedID), ok(t, "show", "-s", url, recordedID))
	require.Equal(t, ok(t, "show", "-s", dir, recordedID, "--json"), ok(t, "show", "-s", url, recordedID, "--json"))

	require.Contains(t, fails(t, exitUsage, "purge", "-s", url, "--older-than", "1d"), "say --yes")
	require.Equal(t, `{"sessions":0,"transcripts":0}`+"\n", ok(t, "purge", "-s", url, "--older-than", "1d", "--yes", "--json"))
	time.Sleep(2 * time.Millisecond)
	require.Equal(t, "deleted 1 session, 8 transcripts\n", ok(t, "purge", "-s", url, "--older-than", "0s", "--yes"))
	require.Empty(t, ok(t, "projects", "-s", url, "--json", "-q"))
}

func TestMigratePrintsTheSQLWithoutAServer(t *testing.T) {
	home(t)
	out := ok(t, "migrate", "-s", "postgres://127.0.0.1:1/none?schema=sessions&table_prefix=x_", "--print")
	require.Contains(t, out, `"sessions"."x_transcripts"`)
}

func TestMigrateOfAStoreWithoutTables(t *testing.T) {
	home(t)
	require.Contains(t, fails(t, exitUsage, "migrate", "-s", recordedDir(t)), "file stores need no migration")
	require.Contains(t, fails(t, exitUsage, "migrate", "-s", "mem:"), "mem stores need no migration")
}

func TestPurgeOfADirectory(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	setTime(t, dir, recordedKey, recordedID, time.Now().Add(-48*time.Hour))
	require.Contains(t, fails(t, exitUsage, "purge", "-s", dir), "--older-than")
	require.Contains(t, fails(t, exitUsage, "purge", "-s", dir, "--older-than", "soon"), "such as 30d")
	var report struct{ Sessions, Transcripts int }
	require.NoError(t, json.Unmarshal([]byte(ok(t, "purge", "-s", dir, "--older-than", "1d", "--yes", "--json")), &report))
	require.Equal(t, 1, report.Sessions)
	require.Equal(t, 8, report.Transcripts)
}
