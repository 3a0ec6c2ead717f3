// Package mempg keeps the files of the memory tool in PostgreSQL, over pgx v5.
//
//	pool, err := pgxpool.New(ctx, "postgres://…")
//	store, err := mempg.New(pool, "user-4711", nil)
//	err = store.Migrate(ctx) // once per deployment; any number of hosts may
//
// It works in all exec modes of pgx, and behind pgbouncer in transaction mode
// with the modes that leave nothing on a connection (exec, cache describe,
// simple protocol).
//
// # What is stored
//
// All scopes share one table, with a row for each file. Scope, path and content
// are bytes, so any text goes, whatever the encoding of the database. To read
// them with psql:
//
//	SELECT convert_from(path, 'UTF8'), convert_from(content, 'UTF8'), used
//	FROM sessionstore_memory_files WHERE scope = 'user-4711';
//
// # Changes
//
// Each change is one round trip: a lock for the scope, which ends with the
// transaction, and a statement that looks and changes. So those who change one
// scope follow each other, and limits hold exactly. Those who read never wait.
// The isolation level read committed is assumed, which is the default.
//
// Deadlocks, serialization failures and connections that turn out to be lost
// before anything was sent are retried inside. After any other loss of the
// connection the outcome of a change is unknown and the call fails; where
// nothing was changed the error has a method NothingDone.
//
// The caller owns the pool.
package mempg
