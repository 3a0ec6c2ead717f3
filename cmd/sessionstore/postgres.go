package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sessionstore/sessionstore/pgstore"
)

// openPostgres opens postgres://user@host/database?schema=…&table_prefix=….
// All other parameters are those of a PostgreSQL connection URL. The server is
// first talked to by the first operation.
func openPostgres(ctx context.Context, _ *app, rest string, _ mode) (*handle, error) {
	dsn, opts, err := postgresOptions("postgres:" + rest)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, usagef("%s: %v", redact(dsn), errors.Unwrap(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.New(pool, &opts)
	if err != nil {
		pool.Close()
		return nil, usagef("%v", err)
	}
	return &handle{store: s, name: redact("postgres:" + rest), close: func() error { pool.Close(); return nil }}, nil
}

// postgresOptions takes our own parameters out of a URL.
func postgresOptions(storeURL string) (dsn string, opts pgstore.Options, err error) {
	u, err := url.Parse(storeURL)
	if err != nil {
		return "", opts, usagef("%s: not a URL of the form postgres://user@host/database", redact(storeURL))
	}
	query := u.Query()
	opts.Schema, opts.TablePrefix = query.Get("schema"), query.Get("table_prefix")
	query.Del("schema")
	query.Del("table_prefix")
	u.RawQuery = query.Encode()
	return u.String(), opts, nil
}
