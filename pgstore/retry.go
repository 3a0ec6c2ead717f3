package pgstore

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// Tries of one operation, the first one included; the context may end them
	// before. A pool that has lost its server holds several dead connections.
	conflictTries   = 20
	lostTries       = 4
	firstWait       = 2 * time.Millisecond
	longestWait     = 250 * time.Millisecond
	rollbackTimeout = 5 * time.Second
)

// SQLSTATEs that the code tells apart.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	completionUnknown    = "40003"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchemaName    = "3F000"
	uniqueViolation      = "23505"
	duplicateSchema      = "42P06"
	duplicateTable       = "42P07"
	duplicateObject      = "42710"
)

// do runs an operation that may be repeated: with the tables checked, alone on
// a single connection, and again after an error that time heals.
func (s *Store) do(ctx context.Context, op func() error) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.retry(ctx, op)
}

// enter begins every operation but Migrate.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	leave, err = s.alone(ctx)
	if err != nil || s.checked.Load() {
		return leave, err
	}
	if err := s.retry(ctx, func() error { return s.checkVersion(ctx) }); err != nil {
		leave()
		return nil, err
	}
	s.checked.Store(true)
	return leave, nil
}

// alone waits, on a single connection, for the operation that uses it.
func (s *Store) alone(ctx context.Context) (leave func(), err error) {
	if s.single == nil {
		return func() {}, nil
	}
	select {
	case s.single <- struct{}{}:
		return func() { <-s.single }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// retry repeats an operation after errors that leave nothing behind and that
// another try may not meet. Nothing can be repeated inside a transaction of
// the caller: an error has ended it.
func (s *Store) retry(ctx context.Context, op func() error) error {
	return s.retryFor(ctx, triesFor, op)
}

func (s *Store) retryFor(ctx context.Context, triesFor func(error) int, op func() error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := op()
		if err == nil || s.inTx || try >= triesFor(err) {
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

// triesFor returns how often an operation that ends with err is tried.
func triesFor(err error) int {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		if pgErr.Code == serializationFailure || pgErr.Code == deadlockDetected {
			return conflictTries
		}
		return 1
	}
	if sentNothing(err) {
		return lostTries
	}
	return 1
}

// sentNothing reports whether pgx is sure to have sent nothing. A closed
// connection is not a sure sign: with the simple protocol pgx reports one also
// when the reply to a statement has been lost.
func sentNothing(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// storedNothing reports whether an append that ended with err is known to have
// stored nothing. A server that refuses a statement has rolled it back; one
// that goes away (FATAL, or class 08 from a pooler) may have committed it.
func storedNothing(err error) bool {
	var noConn *pgconn.ConnectError
	if errors.As(err, &noConn) {
		return true
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		severity := cmp.Or(pgErr.SeverityUnlocalized, pgErr.Severity)
		return severity == "ERROR" && !strings.HasPrefix(pgErr.Code, "08") && pgErr.Code != completionUnknown
	}
	return sentNothing(err)
}
