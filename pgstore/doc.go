// Package pgstore keeps transcripts in PostgreSQL, over pgx v5.
//
//	pool, err := pgxpool.New(ctx, "postgres://…")
//	store, err := pgstore.New(pool, nil)
//	err = store.Migrate(ctx) // once per deployment; any number of hosts may
//
// A [Store] has every optional capability of package sessionstore. It works in
// all exec modes of pgx, and behind pgbouncer in transaction mode with the
// modes that leave nothing on a connection (exec, cache describe, simple
// protocol). It keeps no session state on a connection: no SET, no LISTEN, no
// session locks, no temporary tables.
//
// # Append
//
// One statement appends a batch, in one round trip, whatever its length. It
// locks the row of the transcript, so writers on one key follow each other and
// the order of positions is the order of commits: a reader that remembers the
// last position it has seen never skips an entry. A second round trip is
// needed when two writers create a transcript at the same moment. A batch of
// more than [MaxStatementBytes] is sent as several statements in one
// transaction. The first operation of a Store also reads the version of the
// tables, and refuses a connection or database that is not in UTF8.
//
// Repeats are found by a unique index, on a hash of the uuid. An entry without
// uuid gets an identity from its batch, so a batch that is appended again
// through the same Store after a failure of unknown outcome is stored once.
//
// # What is stored
//
// Entries are kept as text, in a column of type json: the bytes that were
// appended, numbers, key order and escapes included. The summary of a session
// is kept up to date by the statement that appends, under the same lock, so it
// is never behind the transcript. Times are those of the server's clock.
//
// # Errors
//
// Deadlocks, serialization failures, and connections that turn out to be lost
// before anything was sent are retried inside, until the context ends. Anything
// else is returned as [sessionstore.OpError] around the error of pgx. Tables
// that are missing or too old give [ErrNotMigrated]; tables that a later
// version has changed beyond what this one can use, or a transcript of which
// entries are missing, give [sessionstore.ErrCorrupt].
//
// # What the caller keeps
//
// The caller owns the pool: size, TLS, timeouts, tracing. A context that ends
// during an operation costs its connection, which a pool replaces; a store on a
// single [pgx.Conn] or [pgxpool.Conn] is of no more use then. On a [pgx.Tx]
// nothing is durable before the caller commits, and after an error the caller
// has to roll back (to a savepoint, if it made one). It holds a lock for each
// session until it ends, so commit before there are thousands. The default
// isolation level, read committed, is assumed; under a higher one operations
// that meet others are retried more often.
package pgstore
