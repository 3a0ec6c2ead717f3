package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
)

// append stores a batch. Entries that the store refuses are reported, and the
// others stored.
func (t *turn) append(ctx context.Context, batch []sessionstore.Entry) error {
	err := t.attempt(ctx, batch)
	switch {
	case err == nil:
		t.w.appended(t.f, batch)
		return nil
	case !errors.Is(err, sessionstore.ErrInvalidEntry):
		return err
	case len(batch) == 1:
		t.w.count(func(r *WatchReport) { r.Skipped++ })
		t.w.tellError(&Error{Key: t.f.key, Entries: batch, Attempts: t.attempts, Err: err})
		return nil
	}
	half := len(batch) / 2
	if err := t.append(ctx, batch[:half]); err != nil {
		return err
	}
	return t.append(ctx, batch[half:])
}

func (t *turn) attempt(ctx context.Context, batch []sessionstore.Entry) (err error) {
	o := &t.w.opts
	as, again := new(attempt.Batch), 0
	if t.from >= 0 && t.from == t.f.triedFrom {
		// The comparison has found that it did not land, but it may yet.
		as, again = t.f.triedAs, 1
	}
	defer func() {
		if err != nil {
			t.f.triedFrom, t.f.triedAs = t.from, as
		}
	}()
	for t.attempts = 1; ; t.attempts++ {
		call, cancel := context.WithTimeout(ctx, o.CallTimeout)
		try := asTry(call, as, t.attempts+again)
		err := t.call(call, func() error { return t.w.store.Append(try, t.f.key, batch) })
		cancel()
		if err == nil || errors.Is(err, errHangs) || t.attempts >= o.Attempts || ctx.Err() != nil ||
			errors.Is(err, sessionstore.ErrInvalidEntry) || errors.Is(err, sessionstore.ErrInvalidKey) {
			return err
		}
		select {
		case <-time.After(o.Pauses[min(t.attempts, len(o.Pauses))-1]):
		case <-ctx.Done():
			return err
		}
	}
}

// call calls the store. A call that has not returned some time after its
// context has ended keeps the transcript: see waitForStuck.
func (t *turn) call(ctx context.Context, f func() error) error {
	done := begin(f)
	if err, returned := await(ctx, done, closeGrace); returned {
		return err
	}
	stuck := make(chan struct{})
	t.f.stuck = stuck
	go func() {
		<-done
		close(stuck)
	}()
	return fmt.Errorf("%w: %w", errHangs, context.Cause(ctx))
}

// waitForStuck waits for a call that was given up, at the last look only: other
// transcripts must not wait for it.
func (t *turn) waitForStuck(ctx context.Context) error {
	if t.f.stuck == nil {
		return nil
	}
	limit := time.Duration(0)
	if t.last {
		limit = t.w.opts.CallTimeout
	}
	select {
	case <-t.f.stuck:
		t.f.stuck = nil
		return nil
	case <-ctx.Done():
	case <-time.After(limit):
	}
	return errWaits
}
