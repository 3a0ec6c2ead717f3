package pgstore

import (
	"context"

	"github.com/sessionstore/sessionstore/internal/pgutil"
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
	leave, err = s.single.Enter(ctx)
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

// retry repeats an operation after errors that leave nothing behind and that
// another try may not meet. Nothing can be repeated inside a transaction of
// the caller: an error has ended it.
func (s *Store) retry(ctx context.Context, op func() error) error {
	return pgutil.Retry(ctx, s.inTx, pgutil.TriesFor, op)
}
