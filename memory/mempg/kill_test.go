package mempg

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/pgutil"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory"
)

// newVictim returns a store whose connections can be terminated, and no others.
func newVictim(t *testing.T, pool *pgxpool.Pool, schema string) (s *Store, terminate func() (n int)) {
	config, err := pgxpool.ParseConfig(testenv.Postgres(t))
	require.NoError(t, err)
	name := "victim " + rand.Text()
	config.ConnConfig.RuntimeParams["application_name"] = name
	victims, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(victims.Close)
	return open(t, victims, "scope", Options{Schema: schema}), func() (n int) {
		err := pool.QueryRow(context.Background(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&n)
		require.NoError(t, err)
		return n
	}
}

func nothingDone(err error) bool {
	var definite interface{ NothingDone() }
	return errors.As(err, &definite)
}

// text is a file of which a torn one would be found out.
func text(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "edit %06d\n", n), 5000) }

// The backend of an edit is killed while the edit waits for its lock.
func TestAnEditThatIsKilledHalfwayLeavesTheOldFile(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	schema := newSchema(t, pool)
	s, terminate := newVictim(t, pool, schema)
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", text(0), "", memory.Limits{}))
	f, err := s.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	for name, change := range map[string]func() error{
		"edit":   func() error { return s.Write(ctx, "/memories/f", text(1), f.Version, memory.Limits{}) },
		"create": func() error { return s.Write(ctx, "/memories/g", text(1), "", memory.Limits{}) },
		"rename": func() error { return s.Rename(ctx, "/memories/f", "/memories/h") },
		"delete": func() error { return s.Delete(ctx, "/memories/f") },
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := pool.Begin(ctx)
			require.NoError(t, err)
			defer tx.Rollback(ctx)
			_, err = tx.Exec(ctx, pgutil.AdvisoryLock, s.lock)
			require.NoError(t, err)
			done := make(chan error)
			go func() { done <- change() }()
			waiting := func() (n int) {
				err := pool.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND ((classid::bigint << 32) | objid::bigint) = $1", s.lock).Scan(&n)
				require.NoError(t, err)
				return n
			}
			require.Eventually(t, func() bool { return waiting() == 1 }, 20*time.Second, time.Millisecond)
			require.Positive(t, terminate())
			err = <-done
			var pgErr *pgconn.PgError
			require.ErrorAs(t, err, &pgErr)
			require.Equal(t, "57P01", pgErr.Code)
			require.False(t, nothingDone(err), "a backend that ends may have committed")
			require.NoError(t, tx.Rollback(ctx))
			list, err := s.List(ctx, memory.Root)
			require.NoError(t, err)
			require.Len(t, list, 1)
			now, err := s.Read(ctx, "/memories/f", 0)
			require.NoError(t, err)
			require.Equal(t, f, now)
		})
	}
}

func TestAnEditThatIsKilledAnywhereIsWholeOrNotDone(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	schema := newSchema(t, pool)
	s, terminate := newVictim(t, pool, schema)
	reader := open(t, pool, "scope", Options{Schema: schema})
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", text(0), "", memory.Limits{}))
	for n := 1; n <= 100; n++ {
		f, err := reader.Read(ctx, "/memories/f", 0)
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- s.Write(ctx, "/memories/f", text(n), f.Version, memory.Limits{}) }()
		terminate()
		err = <-done
		now, readErr := reader.Read(ctx, "/memories/f", 0)
		require.NoError(t, readErr)
		switch {
		case err == nil:
			require.True(t, bytes.Equal(text(n), now.Data), "an edit is lost")
		case nothingDone(err):
			require.Equal(t, f, now, "%v", err)
		default:
			require.NotErrorIs(t, err, memory.ErrConflict)
			require.NotErrorIs(t, err, memory.ErrNotFound)
			require.True(t, bytes.Equal(f.Data, now.Data) || bytes.Equal(text(n), now.Data), "the file is torn")
		}
	}
}

func TestWhatIsKnownToHaveChangedNothingSaysSo(t *testing.T) {
	pool := newPool(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	schema := newSchema(t, pool)
	s := open(t, pool, "scope", Options{Schema: schema})
	require.NoError(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}))
	_, err := pool.Exec(t.Context(), "ALTER TABLE "+s.names.files+" ADD CHECK (octet_length(content) < 10)")
	require.NoError(t, err)
	err = s.Write(t.Context(), "/memories/g", text(1), "", memory.Limits{})
	require.ErrorContains(t, err, "violates check constraint")
	require.True(t, nothingDone(err))

	away, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer away.Close()
	s.db = away
	require.True(t, nothingDone(s.Delete(t.Context(), "/memories/f")))
}
