package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

var errBehind = errors.New("waits behind a batch that was given up")

// deliver appends a batch or gives it up. For a key with batches in files it
// delivers those first; then the batch may be empty. The error has been
// reported.
func (m *Mirror) deliver(q *queue, entries []sessionstore.Entry) error {
	if m.isHeld(q) {
		if err := m.deliverHeld(q); err != nil {
			if len(entries) == 0 {
				return err
			}
			return m.giveUp(q, nil, entries, 0, fmt.Errorf("%w: %w", errBehind, err))
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
	batch := new(attempt.Batch)
	attempts, err := m.attempt(q, batch, entries)
	switch {
	case err == nil:
		m.stored(q, entries)
		return unusable
	case errors.Is(err, sessionstore.ErrInvalidEntry):
		return errors.Join(unusable, m.separate(q, entries, attempts, err))
	}
	return errors.Join(unusable, m.giveUp(q, batch, entries, attempts, err))
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
func (m *Mirror) attempt(q *queue, batch *attempt.Batch, entries []sessionstore.Entry) (int, error) {
	for n := 1; ; n++ {
		start := time.Now()
		timedOut, err := m.call(q, func(ctx context.Context) error {
			return m.store.Append(asTry(ctx, batch, n), q.key, entries)
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

// asTry is the context of the n-th try of a batch. The store must not take it
// for a repetition of an earlier batch that was equal and failed.
func asTry(ctx context.Context, batch *attempt.Batch, n int) context.Context {
	if n == 1 {
		return batch.First(ctx)
	}
	return batch.Again(ctx)
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
func (m *Mirror) giveUp(q *queue, batch *attempt.Batch, entries []sessionstore.Entry, attempts int, cause error) error {
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
		if name != "" && attempts > 0 && !errors.Is(cause, errWaits) {
			q.tried, q.triedAs = name, batch
			q.hangs(cause, name)
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
		} else { // what a killed process was writing
			clearKey(keyDir(m.opts.Spill, q.key))
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
	q.kept = append(q.kept, keptFile{name, len(e.Entries), q.anchor})
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
	if err := m.waitForStuck(q); err != nil {
		return err // the call has the lock
	}
	if m.opts.NoRetryAfterTimeout {
		q.tried = ""
	}
	r := m.replayerOf(q)
	q.delivering = r
	err := r.run(m.calls)
	q.delivering = nil
	q.tried, q.triedAs, q.landed, q.kept, q.missing = r.tried, r.triedAs, r.landed, r.kept, r.missing
	m.reportMissing(q.key, r.gone)
	m.count(func(s *Stats) {
		s.Delivered += int64(r.report.Entries)
		if l := m.losses[q.key]; l != nil && err == nil {
			m.countOff(l, l.Spilled)
		}
		q.held, q.retryAt = err != nil, time.Now().Add(m.opts.SpillRetry)
	})
	if err != nil {
		m.log("kept batches could not be delivered", q.key, 0, err)
		return err
	}
	q.nextNum, q.tried, q.landed, q.missing = 0, "", "", nil // numbers begin anew
	return nil
}

// replayerOf delivers the files of a key with the mirror's own calls.
func (m *Mirror) replayerOf(q *queue) *replayer {
	return &replayer{
		store: m.store, key: q.key, dir: keyDir(m.opts.Spill, q.key),
		tried: q.tried, triedAs: q.triedAs, landed: q.landed, kept: q.kept, missing: q.missing,
		call: func(file string, f func(context.Context) error) error {
			_, err := m.call(q, f)
			q.hangs(err, file)
			return err
		},
		reading: func(f func(context.Context, func()) error) error { return m.read(q, f) },
		refused: func(e sessionstore.Entry, err error) { _ = m.unusable(q, e, 1, err) },
		settled: func(k keptFile) {
			m.count(func(*Stats) {
				if l := m.losses[q.key]; l != nil {
					m.countOff(l, min(k.entries, l.Spilled))
				}
			})
		},
	}
}

// countOff takes entries that were delivered from files out of a loss.
func (m *Mirror) countOff(l *Loss, entries int) {
	l.Entries -= entries
	l.Spilled -= entries
	if l.Entries <= 0 && l.Missing == 0 {
		delete(m.losses, l.Key)
	}
}
