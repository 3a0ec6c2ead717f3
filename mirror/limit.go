package mirror

import (
	"context"
	"fmt"
	"time"
)

// withProgress returns a context for reading a transcript, however long it is:
// it ends when progress was not called for as long as a call may take.
func withProgress(ctx context.Context, limit time.Duration) (reading context.Context, progress, cancel func()) {
	reading, end := context.WithCancelCause(ctx)
	idle := time.AfterFunc(limit, func() {
		end(fmt.Errorf("the store gave no further entry within %v: %w", limit, context.DeadlineExceeded))
	})
	return reading, func() { idle.Reset(limit) }, func() {
		idle.Stop()
		end(nil)
	}
}

// reason says why a call failed where the store's own error does not.
func reason(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// begin calls the store on a goroutine of its own. A panic is an error.
func begin(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
			done <- err
		}()
		err = f()
	}()
	return done
}

// await waits for a call to return: until its context has ended, and then for a
// moment.
func await(ctx context.Context, done <-chan error, moment time.Duration) (err error, returned bool) {
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
	}
	hang := time.NewTimer(moment)
	defer hang.Stop()
	select {
	case err := <-done:
		return err, true
	case <-hang.C:
		return nil, false
	}
}
