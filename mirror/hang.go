package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// hangGrace is how long a call may take to return after its context has ended.
const hangGrace = 5 * time.Second

var (
	errHangs  = errors.New("the call of the store has not returned")
	errGoexit = errors.New("the store ended its goroutine")
	errWaits  = fmt.Errorf("an earlier batch: %w", errHangs)
)

// hanging is a call of the store that did not return in time.
type hanging struct {
	returned chan struct{} // closed when it has
	err      error         // what it returned
	file     string        // keeps the batch that the call appends, empty if none does
}

// hangs notes which file keeps the batch of a call that has just been given up.
func (q *queue) hangs(err error, file string) {
	if errors.Is(err, errHangs) && !errors.Is(err, errWaits) {
		q.stuck.file = file
	}
}

// call calls the store once.
func (m *Mirror) call(q *queue, f func(context.Context) error) (timedOut bool, err error) {
	if err := m.waitForStuck(q); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(m.calls, m.opts.CallTimeout)
	err = m.callUntil(q, ctx, cancel, f)
	if err != nil && ctx.Err() == context.DeadlineExceeded && m.calls.Err() == nil {
		m.count(func(s *Stats) { s.Timeouts++ })
		return true, err
	}
	return false, err
}

// read calls the store for the entries of a transcript.
func (m *Mirror) read(q *queue, f func(ctx context.Context, progress func()) error) error {
	if err := m.waitForStuck(q); err != nil {
		return err
	}
	ctx, progress, cancel := withProgress(m.calls, m.opts.CallTimeout)
	err := m.callUntil(q, ctx, cancel, func(ctx context.Context) error { return reason(ctx, f(ctx, progress)) })
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		m.count(func(s *Stats) { s.Timeouts++ })
	}
	return err
}

// callUntil calls the store until the context ends. A call that does not return
// after that keeps the key: nothing else is appended to it until it returns.
func (m *Mirror) callUntil(q *queue, ctx context.Context, cancel func(), f func(context.Context) error) error {
	if m.calls.Err() != nil {
		cancel()
		return context.Cause(m.calls)
	}
	done := make(chan error, 1)
	m.calling.Add(1)
	go func() {
		defer m.calling.Done()
		err := errGoexit
		defer func() { done <- err }()
		err = m.contain(func() error { return f(ctx) })
	}()
	start := time.Now()
	err, returned := m.await(ctx, done)
	if !returned {
		h := &hanging{returned: make(chan struct{})}
		q.stuck = h
		lock := m.keepLocked(q)
		go func() {
			h.err = <-done
			cancel()
			if lock != nil {
				lock.release()
			}
			close(h.returned)
		}()
		return fmt.Errorf("%w after %v", errHangs, time.Since(start).Round(time.Second))
	}
	cancel()
	return err
}

// keepLocked keeps the lock of the key's files while a call hangs: whoever
// delivers them must not overtake it, also after Close.
func (m *Mirror) keepLocked(q *queue) *keyLock {
	if m.opts.Spill == "" {
		return nil
	}
	if r := q.delivering; r != nil {
		r.lock.holders.Add(1)
		return r.lock
	}
	dir := keyDir(m.opts.Spill, q.key)
	err := os.MkdirAll(dir, dirMode)
	if err != nil {
		return nil // nor can its batch be kept
	}
	lock, err := lockKey(dir)
	if err != nil {
		m.log("files of the key could not be locked", q.key, 0, err)
		return nil
	}
	return lock
}

// await waits for a call to return: until its context has ended, and then for a
// moment, which is shorter once the mirror has cancelled all calls.
func (m *Mirror) await(ctx context.Context, done <-chan error) (err error, returned bool) {
	select {
	case err := <-done:
		return err, true
	case <-ctx.Done():
	}
	hang := time.NewTimer(hangGrace)
	defer hang.Stop()
	closing := m.calls.Done()
	for {
		select {
		case err := <-done:
			return err, true
		case <-closing:
			closing = nil
			hang.Reset(closeGrace / 2)
		case <-hang.C:
			return nil, false
		}
	}
}

// waitForStuck waits as long as a call may take.
func (m *Mirror) waitForStuck(q *queue) error {
	if q.stuck == nil {
		return nil
	}
	select {
	case <-q.stuck.returned:
	case <-m.calls.Done():
		return context.Cause(m.calls)
	case <-time.After(m.opts.CallTimeout):
		return errWaits
	}
	if q.stuck.err == nil && q.stuck.file != "" {
		q.landed = q.stuck.file
	}
	q.stuck = nil
	return nil
}
