// Package pgutil is the care for PostgreSQL that the stores on it share: which
// failures are tried again, names of tables, and the making of tables by many
// hosts at once.
package pgutil

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sessionstore/sessionstore/internal/idset"
)

const (
	// Tries of one operation, the first one included; the context may end them
	// before. A pool that has lost its server holds several dead connections.
	ConflictTries = 20
	LostTries     = 4

	firstWait       = 2 * time.Millisecond
	longestWait     = 250 * time.Millisecond
	rollbackTimeout = 5 * time.Second
)

// SQLSTATEs that the code tells apart.
const (
	SerializationFailure = "40001"
	DeadlockDetected     = "40P01"
	CompletionUnknown    = "40003"
	UndefinedTable       = "42P01"
	UndefinedColumn      = "42703"
	InvalidSchemaName    = "3F000"
	UniqueViolation      = "23505"
	DuplicateSchema      = "42P06"
	DuplicateTable       = "42P07"
	DuplicateObject      = "42710"
)

// Retry repeats an operation after errors that leave nothing behind and that
// another try may not meet; tries says how often, for an error. With once it
// does not: nothing can be repeated inside a transaction that an error has
// ended.
func Retry(ctx context.Context, once bool, tries func(error) int, op func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := op()
		if err == nil || once || try >= tries(err) {
			return err
		}
		// Those who got in each other's way should not do so again.
		pause := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
		wait = min(2*wait, longestWait)
	}
}

// TriesFor returns how often an operation that ends with err is tried.
func TriesFor(err error) int {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		if pgErr.Code == SerializationFailure || pgErr.Code == DeadlockDetected {
			return ConflictTries
		}
		return 1
	}
	if sentNothing(err) {
		return LostTries
	}
	return 1
}

// MigrateTriesFor is TriesFor for the making of tables. SQL that somebody runs
// by hand meanwhile takes no lock; what it has just made is found by the next
// try.
func MigrateTriesFor(err error) int {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch pgErr.Code {
		case DuplicateSchema, DuplicateTable, DuplicateObject:
			return ConflictTries
		case UniqueViolation:
			if strings.HasPrefix(pgErr.TableName, "pg_") {
				return ConflictTries
			}
		}
	}
	return TriesFor(err)
}

// sentNothing reports whether pgx is sure to have sent nothing. A closed
// connection is not a sure sign: with the simple protocol pgx reports one also
// when the reply to a statement has been lost.
func sentNothing(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// StoredNothing reports whether a write that ended with err is known to have
// stored nothing. A server that refuses a statement has rolled it back; one
// that goes away (FATAL, or class 08 from a pooler) may have committed it.
func StoredNothing(err error) bool {
	var noConn *pgconn.ConnectError
	if errors.As(err, &noConn) {
		return true
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		severity := cmp.Or(pgErr.SeverityUnlocalized, pgErr.Severity)
		return severity == "ERROR" && !strings.HasPrefix(pgErr.Code, "08") && pgErr.Code != CompletionUnknown
	}
	return sentNothing(err)
}

// Finish runs f and ends the transaction, with a commit if f succeeds.
func Finish(ctx context.Context, tx pgx.Tx, f func() error) error {
	if err := f(); err != nil {
		// The connection must come back clean when the context is over, too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		tx.Rollback(ctx) // what counts is the first error
		return err
	}
	return tx.Commit(ctx)
}

// maxIdentifier is the length at which PostgreSQL cuts a name, silently.
const maxIdentifier = 63

// CheckName refuses a name of a schema, a table or an index that PostgreSQL
// would not take as it is. Field says where it is from.
func CheckName(field, name string) error {
	if len(name) > maxIdentifier {
		return fmt.Errorf("name of %d bytes from Options.%s, the limit is %d", len(name), field, maxIdentifier)
	}
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return fmt.Errorf("name from Options.%s is not valid UTF-8 or holds a NUL byte", field)
	}
	return nil
}

// Quote quotes the name of a table, qualified unless the schema is empty.
func Quote(schema, name string) string {
	if schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{schema, name}.Sanitize()
}

// AbsentTag returns a tag for dollar quotes around text that may hold the names.
// Unlike other quotes these mean the same under all settings of the server.
func AbsentTag(names string) string {
	tag := "body"
	for i := 0; strings.Contains(names, tag); i++ {
		tag = "body" + strconv.Itoa(i)
	}
	return tag
}

// SchemaSQL makes a schema if it is missing, with {schema}, {quoted_schema} and
// {tag} to be filled in. It looks first, because IF NOT EXISTS needs the right
// to make a schema also when it is there.
const SchemaSQL = `DO ${tag}$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = ${tag}_name${schema}${tag}_name$) THEN
    CREATE SCHEMA {quoted_schema};
  END IF;
END ${tag}$;
`

// AdvisoryLock takes the lock with the number $1 until the transaction ends.
const AdvisoryLock = `SELECT pg_advisory_xact_lock($1)`

// MigrationLock is one number for all prefixes and schemas of a database: two
// migrations may have to make the same schema.
var MigrationLock = LockNumber("migrate")

// LockNumber is the number of the advisory lock of something. Two things with
// the same number only wait for each other.
func LockNumber(parts ...string) int64 {
	id := idset.Of([]byte(strings.Join(parts, "\x00")))
	return int64(binary.BigEndian.Uint64(id[:8]))
}

// Gate lets one operation after the other use a database that is a single
// connection. A nil Gate lets all pass.
type Gate chan struct{}

// NewGate returns the gate for db, which is nil for a pool.
func NewGate(db any) Gate {
	_, conn := db.(*pgx.Conn)
	_, acquired := db.(interface{ Conn() *pgx.Conn }) // such as *pgxpool.Conn and pgx.Tx
	_, inTx := db.(pgx.Tx)
	if conn || acquired || inTx {
		return make(Gate, 1)
	}
	return nil
}

// Enter waits for the operation that uses the connection.
func (g Gate) Enter(ctx context.Context) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
