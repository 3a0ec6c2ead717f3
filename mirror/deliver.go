package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// hangGrace is how long a call may take to return after its context has ended.
const hangGrace = 5 * time.Second

var (
	errHangs  = errors.New("the call of the store has not returned")
	errBehind = errors.New("waits behind a batch that was given up")
)

// deliver appends a batch or gives it up. For a key with batches in files it
// delivers those first; then the batch may be empty. The error has been
// reported.
func (m *Mirror) deliver(q *queue, entries []sessionstore.Entry) error {
	if m.isHeld(q) {
		if err := m.deliverHeld(q); err != nil {
			if len(entries) == 0 {
				return err
			}
			return m.giveUp(q, entries, 0, fmt.Errorf("%w: %w", errBehind, err))
		}
	}
	return m.storeNow(q, entries)
}

// storeNow appends a batch of a key that is not held.
func (m *Mirror) storeNow(q *queue, entries []sessionstore.Entry) error {
	entries, unusable := m.withoutForeign(q, entries)
	if len(entries) == 0 {
		return unusable
	}
	attempts, err := m.attempt(q, entries)
	switch {
	case err == nil:
		m.stored(q, entries)
		return unusable
	case errors.Is(err, sessionstore.ErrInvalidEntry):
		return errors.Join(unusable, m.separate(q, entries, attempts, err))
	}
	return errors.Join(unusable, m.giveUp(q, entries, attempts, err))
}

// withoutForeign takes out what is not even the beginning of an object. Stores
// refuse that too, but not every store that people write does.
func (m *Mirror) withoutForeign(q *queue, entries []sessionstore.Entry) ([]sessionstore.Entry, error) {
	isObject := func(e sessionstore.Entry) bool {
		i := jsonscan.SkipSpace(e, 0)
		return i < len(e) && e[i] == '{'
	}
	return m.filter(q, entries, 0, func(e sessionstore.Entry) error {
		if isObject(e) {
			return nil
		}
		return e.Validate()
	})
}

// filter reports the entries that check refuses and returns the others.
func (m *Mirror) filter(q *queue, entries []sessionstore.Entry, attempts int, check func(sessionstore.Entry) error) ([]sessionstore.Entry, error) {
	var errs []error
	var good []sessionstore.Entry
	for i, e := range entries {
		err := check(e)
		if err == nil {
			if errs != nil {
				good = append(good, e)
			}
			continue
		}
		if errs == nil {
			good = append(good, entries[:i]...)
		}
		errs = append(errs, m.unusable(q, e, attempts, err))
	}
	if errs == nil {
		return entries, nil
	}
	return good, errors.Join(errs...)
}

// separate is for a batch that the store refuses because of an entry: that one
// is reported, and the rest appended. If no entry is wrong by our own rules the
// store has others, and halving the batch finds it.
func (m *Mirror) separate(q *queue, entries []sessionstore.Entry, attempts int, cause error) error {
	good, unusable := m.filter(q, entries, attempts, sessionstore.Entry.Validate)
	if unusable != nil {
		return errors.Join(unusable, m.deliver(q, good))
	}
	if len(entries) == 1 {
		return m.unusable(q, entries[0], attempts, cause)
	}
	half := len(entries) / 2
	first := m.deliver(q, entries[:half])
	return errors.Join(first, m.deliver(q, entries[half:]))
}

// attempt calls the store until it has the batch, and returns how often.
func (m *Mirror) attempt(q *queue, entries []sessionstore.Entry) (int, error) {
	for n := 1; ; n++ {
		start := time.Now()
		timedOut, err := m.call(q, m.opts.CallTimeout, func(ctx context.Context) error {
			return m.store.Append(ctx, q.key, entries)
		})
		m.tellAppend(q.key, entries, n, time.Since(start), err)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, sessionstore.ErrInvalidEntry), errors.Is(err, sessionstore.ErrInvalidKey),
			errors.Is(err, errHangs), timedOut && m.opts.NoRetryAfterTimeout,
			n >= m.opts.Attempts, m.calls.Err() != nil:
			return n, err
		}
		m.count(func(s *Stats) { s.Retries++ })
		m.log("append failed, trying again", q.key, len(entries), err)
		select {
		case <-time.After(m.opts.Pauses[min(n, len(m.opts.Pauses))-1]):
		case <-m.calls.Done():
			return n, err
		}
	}
}

// call calls the store once. A call that does not return although its context
// has ended keeps the key: nothing else is appended to it until it returns.
func (m *Mirror) call(q *queue, timeout time.Duration, f func(context.Context) error) (timedOut bool, err error) {
	if err := m.waitForStuck(q); err != nil {
		return false, err
	}
	if m.calls.Err() != nil {
		return false, context.Cause(m.calls)
	}
	ctx, cancel := context.WithTimeout(m.calls, timeout)
	done := make(chan error, 1)
	m.calling.Add(1)
	go func() {
		defer m.calling.Done()
		done <- m.contain(func() error { return f(ctx) })
	}()
	err, returned := m.await(done, timeout+hangGrace)
	if !returned {
		q.stuck = make(chan struct{})
		go func(stuck chan struct{}) {
			<-done
			cancel()
			close(stuck)
		}(q.stuck)
		m.count(func(s *Stats) { s.Timeouts++ })
		return true, fmt.Errorf("%w after %v", errHangs, timeout)
	}
	timedOut = err != nil && ctx.Err() == context.DeadlineExceeded && m.calls.Err() == nil
	if timedOut {
		m.count(func(s *Stats) { s.Timeouts++ })
	}
	cancel()
	return timedOut, err
}

// await waits for a call to return: as long as given, or for a moment once the
// mirror has cancelled all calls.
func (m *Mirror) await(done <-chan error, limit time.Duration) (err error, returned bool) {
	hang := time.NewTimer(limit)
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
	case <-q.stuck:
	case <-m.calls.Done():
		return context.Cause(m.calls)
	case <-time.After(m.opts.CallTimeout):
		return errHangs
	}
	q.stuck = nil
	return nil
}

// contain turns a panic into an error.
func (m *Mirror) contain(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			m.count(func(s *Stats) { s.Panics++ })
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// stored notes a success.
func (m *Mirror) stored(q *queue, entries []sessionstore.Entry) {
	if m.opts.Spill != "" {
		q.anchor = anchorOf(q.anchor, entries)
	}
	m.count(func(s *Stats) {
		s.Batches++
		s.Entries += int64(len(entries))
		for _, e := range entries {
			s.Bytes += int64(len(e))
		}
	})
}

// giveUp keeps the batch in a file, if there is a directory for them, and
// reports it.
func (m *Mirror) giveUp(q *queue, entries []sessionstore.Entry, attempts int, cause error) error {
	var unusable error
	if m.opts.Spill != "" { // a file holds what can be delivered from it
		entries, unusable = m.filter(q, entries, attempts, sessionstore.Entry.Validate)
		if len(entries) == 0 {
			return unusable
		}
	}
	e := &Error{Key: q.key, Entries: entries, Attempts: attempts, Err: cause}
	if m.opts.Spill != "" {
		name, err := m.spill(q, e)
		if err != nil {
			e.Err = fmt.Errorf("%w; and it could not be kept in a file: %w", cause, err)
		}
		e.Spilled = name
		if attempts > 0 && !errors.Is(cause, errHangs) && !m.opts.NoRetryAfterTimeout {
			q.tried = name
		}
	}
	m.count(func(s *Stats) {
		s.GivenUpBatches++
		s.GivenUpEntries += int64(len(entries))
		if e.Spilled != "" {
			s.Spilled += int64(len(entries))
		}
	})
	m.report(e)
	return errors.Join(unusable, e)
}

func (m *Mirror) unusable(q *queue, entry sessionstore.Entry, attempts int, cause error) error {
	e := &Error{Key: q.key, Entries: []sessionstore.Entry{entry}, Attempts: attempts, Err: cause}
	m.count(func(s *Stats) { s.Unusable++ })
	m.report(e)
	return e
}

// isHeld reports whether batches of the key lie in files. The directory is
// looked at once: an earlier process may have left some.
func (m *Mirror) isHeld(q *queue) bool {
	if !q.looked && m.opts.Spill != "" {
		q.looked = true
		files, err := spillFiles(keyDir(m.opts.Spill, q.key))
		if len(files) > 0 {
			q.anchor, err = anchorBehind(files[len(files)-1])
		}
		if err != nil {
			m.log("kept batches could not be read", q.key, 0, err)
		}
		if err != nil || len(files) > 0 {
			m.setHeld(q, true)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.held
}

func (m *Mirror) setHeld(q *queue, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q.held = held
}

// spill writes a batch to a file and holds the key.
func (m *Mirror) spill(q *queue, e *Error) (name string, err error) {
	err = m.contain(func() error {
		name, err = writeSpill(m.opts.Spill, q, e)
		return err
	})
	if err != nil {
		return "", err
	}
	q.anchor = anchorOf(q.anchor, e.Entries) // it will be stored before the next
	m.mu.Lock()
	defer m.mu.Unlock()
	if !q.held {
		q.held, q.retryAt = true, time.Now().Add(m.opts.SpillRetry)
	}
	return name, nil
}

var errNotYet = errors.New("the store is not tried again yet")

// mayTry reports whether it is time to deliver the files of a held key.
func (m *Mirror) mayTry(q *queue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed && !q.lastTry {
		q.lastTry = true
		return true
	}
	return !time.Now().Before(q.retryAt)
}

// deliverHeld delivers the files of a key, unless that was tried a short while
// ago.
func (m *Mirror) deliverHeld(q *queue) error {
	if !m.mayTry(q) {
		return errNotYet
	}
	r := replayer{
		store: m.store, key: q.key, dir: keyDir(m.opts.Spill, q.key), tried: q.tried,
		call: func(f func(context.Context) error) error {
			_, err := m.call(q, m.opts.CallTimeout, f)
			return err
		},
		refused: func(e sessionstore.Entry, err error) { _ = m.unusable(q, e, 1, err) },
	}
	err := r.run(m.calls)
	q.tried = r.tried
	if errors.Is(err, errHangs) || m.opts.NoRetryAfterTimeout {
		q.tried = ""
	}
	m.count(func(s *Stats) {
		s.Delivered += int64(r.report.Entries)
		if l := m.losses[q.key]; l != nil && err == nil {
			if l.Entries -= l.Spilled; l.Entries <= 0 {
				delete(m.losses, q.key)
			}
			l.Spilled = 0
		}
		q.held, q.retryAt = err != nil, time.Now().Add(m.opts.SpillRetry)
	})
	if err != nil {
		m.log("kept batches could not be delivered", q.key, 0, err)
		return err
	}
	q.nextNum = 0
	return nil
}
