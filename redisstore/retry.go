package redisstore

import (
	"context"
	"errors"

	"github.com/sessionstore/sessionstore/internal/redisutil"
)

// retry calls f until it succeeds, fails for good, or RetryFor is over.
func (s *Store) retry(ctx context.Context, f func() error) error {
	return readable(redisutil.Retry(ctx, s.client, s.retryFor, passing, f))
}

// passing reports whether an error may pass by itself. EXPIRED is a reply of
// our own script.
func passing(err error) bool {
	var wrong *corruptError
	return errors.Is(err, errAgain) && !ended(err) || !errors.As(err, &wrong) && redisutil.Passing(err, "EXPIRED ")
}

// ended says that the caller has ended the operation.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// errAgain wraps what the store itself has found and may pass.
var errAgain = errors.New("not yet")
