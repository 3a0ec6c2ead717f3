package mempg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// ErrNotMigrated: the tables are missing, or older than this version of the
// code needs. Call [Store.Migrate], or run what [Store.Schema] returns.
var ErrNotMigrated error = notMigrated{}

// notMigrated is an error of which the tool knows that nothing was changed.
type notMigrated struct{}

func (notMigrated) NothingDone() {}
func (notMigrated) Error() string {
	return "the tables are missing or too old; call Store.Migrate, or run the SQL of Store.Schema"
}

// SchemaVersion is the version of the tables that this code needs.
const SchemaVersion = 1

const tablesSQL = `
CREATE TABLE IF NOT EXISTS {versions} (
  version int PRIMARY KEY,
  requires int NOT NULL,                  -- the oldest code that can use the tables
  applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS {files} (
  scope bytea NOT NULL,
  path bytea NOT NULL,                    -- /memories/…, in UTF-8
  content bytea NOT NULL,
  version text NOT NULL,                  -- another one after every write
  written timestamptz NOT NULL,
  used timestamptz NOT NULL,              -- last written or read, to within an hour
  PRIMARY KEY (scope, path)
);
INSERT INTO {versions} (version, requires) VALUES (1, 1) ON CONFLICT DO NOTHING;
`

// Schema returns the SQL that makes the tables, for those who run their
// migrations themselves. Run it in one transaction. Running it again does no
// harm.
func (s *Store) Schema() string {
	if s.names.schema != "" {
		return s.names.fill(pgutil.SchemaSQL + tablesSQL)
	}
	return s.names.fill(tablesSQL)
}

// Migrate makes the tables, for all scopes, in one transaction. Any number of
// hosts may call it at once. When nothing is to be done it needs no more than
// the right to read; otherwise it needs the right to create tables in the
// schema, and the schema if that is missing.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.migrateAlone(ctx); err != nil {
		return s.wrap("migrate", "", err)
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) migrateAlone(ctx context.Context) error {
	leave, err := s.single.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return pgutil.Retry(ctx, s.inTx, pgutil.MigrateTriesFor, func() error {
		there, err := s.exists(ctx, s.db)
		if err != nil {
			return err
		}
		if there {
			return s.checkVersion(ctx)
		}
		tx, err := s.db.Begin(ctx)
		if err != nil {
			return err
		}
		return pgutil.Finish(ctx, tx, func() error { return s.migrate(ctx, tx) })
	})
}

// exists asks instead of trying, because an error would end a transaction of
// the caller.
func (s *Store) exists(ctx context.Context, db DB) (there bool, err error) {
	err = db.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL`, s.names.versions, s.names.files).Scan(&there)
	return there, err
}

func (s *Store) migrate(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, pgutil.AdvisoryLock, pgutil.MigrationLock); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, s.Schema(), pgx.QueryExecModeSimpleProtocol)
	return err
}

// checkVersion is made by the first operation of a store.
func (s *Store) checkVersion(ctx context.Context) error {
	var stored, requires int
	if err := s.db.QueryRow(ctx, s.sql.version).Scan(&stored, &requires); err != nil {
		return err
	}
	switch {
	case requires > SchemaVersion:
		return fmt.Errorf("%w: the tables have version %d, for code of version %d or later; this is %d",
			sessionstore.ErrCorrupt, stored, requires, SchemaVersion)
	case stored < SchemaVersion:
		return fmt.Errorf("%w (they have version %d, this code needs %d)", ErrNotMigrated, stored, SchemaVersion)
	}
	return nil
}

// explain adds what to do to the server's complaint about missing tables.
func (s *Store) explain(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || errors.Is(err, ErrNotMigrated) {
		return err
	}
	switch pgErr.Code {
	case pgutil.UndefinedTable, pgutil.UndefinedColumn, pgutil.InvalidSchemaName:
		return fmt.Errorf("%w: %w", ErrNotMigrated, err)
	}
	return err
}
