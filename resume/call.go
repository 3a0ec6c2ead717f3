package resume

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sessionstore/sessionstore"
)

// limited is a store for reading whose every call ends within the limit.
type limited struct {
	store sessionstore.SessionStore
	limit time.Duration
}

// grace is how long a call may take to return after its context has ended. A
// call that takes longer is left behind.
const grace = 2 * time.Second

func (l limited) tooSlow(what string) error {
	return fmt.Errorf("%s within %v: %w", what, l.limit, context.DeadlineExceeded)
}

// call runs f, which is one call of the store.
func call[T any](ctx context.Context, l limited, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.limit, l.tooSlow("the store did not answer"))
	defer cancel()
	var result T
	err := errGoexit
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer recoverInto(&err)
		result, err = f(ctx)
	}()
	if !waitFor(ctx, done) {
		var none T
		return none, context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says why, where the store's error does not
	}
	return result, err
}

// waitFor reports whether done was closed before the time after the end of ctx
// was over.
func waitFor(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// errGoexit stays where a call has not returned: what it has given is not all.
var errGoexit = errors.New("the store ended its goroutine")

// recoverInto makes an error of a panic: it comes from the store.
func recoverInto(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic in the store: %v", r)
	}
}

func (l limited) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error {
	return errors.ErrUnsupported
}

func (l limited) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	return call(ctx, l, func(ctx context.Context) ([]sessionstore.Entry, error) { return l.store.Load(ctx, key) })
}

func (l limited) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	return call(ctx, l, func(ctx context.Context) ([]sessionstore.SessionInfo, error) {
		return sessionstore.ListSessions(ctx, l.store, project)
	})
}

func (l limited) ListSessionSummaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	return call(ctx, l, func(ctx context.Context) ([]sessionstore.SessionSummary, error) {
		return sessionstore.ListSessionSummaries(ctx, l.store, project)
	})
}

func (l limited) ListSubkeys(ctx context.Context, project, session string) ([]string, error) {
	return call(ctx, l, func(ctx context.Context) ([]string, error) {
		return sessionstore.ListSubkeys(ctx, l.store, project, session)
	})
}

// forSession returns the store as package session reads it best: one that reads
// single summaries is then not asked for all.
func (l limited) forSession() sessionstore.SessionStore {
	if r, ok := l.store.(summaryReader); ok {
		return limitedReader{l, r}
	}
	return l
}

type summaryReader interface {
	SessionSummary(ctx context.Context, key sessionstore.Key) (sessionstore.SessionSummary, bool, error)
}

type limitedReader struct {
	limited
	reader summaryReader
}

func (l limitedReader) SessionSummary(ctx context.Context, key sessionstore.Key) (sum sessionstore.SessionSummary, found bool, err error) {
	type result struct {
		sum   sessionstore.SessionSummary
		found bool
	}
	r, err := call(ctx, l.limited, func(ctx context.Context) (r result, err error) {
		r.sum, r.found, err = l.reader.SessionSummary(ctx, key)
		return r, err
	})
	return r.sum, r.found, err
}

// Stream yields entry by entry what chunks reads.
func (l limited) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		for chunk, err := range l.chunks(ctx, key) {
			for _, e := range chunk {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}
}

// A chunk is what is handed from the store to the disk at a time.
const (
	chunkEntries = 256
	chunkBytes   = 128 << 10
)

// chunks reads a transcript on a goroutine of its own. The limit counts while
// the store is being waited for, and begins anew with every entry.
func (l limited) chunks(ctx context.Context, key sessionstore.Key) iter.Seq2[[]sessionstore.Entry, error] {
	return func(yield func([]sessionstore.Entry, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		watch := time.AfterFunc(l.limit, func() { cancel(l.tooSlow("the store gave no further entry")) })
		failed := errGoexit
		ch, done := make(chan []sessionstore.Entry), make(chan struct{})
		go func() {
			defer close(done)
			defer watch.Stop()
			defer recoverInto(&failed)
			failed = l.produce(ctx, key, ch, watch)
		}()
		stopped := consume(ctx, ch, done, yield)
		if !stopped && waitFor(ctx, done) {
			if err := failed; err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(nil, err)
			}
		} else if !stopped {
			yield(nil, context.Cause(ctx))
		}
		cancel(nil)
		if stopped {
			waitFor(ctx, done)
		}
	}
}

// consume hands chunks on until there are no more, or the user has seen enough.
func consume(ctx context.Context, ch <-chan []sessionstore.Entry, done <-chan struct{}, yield func([]sessionstore.Entry, error) bool) (stopped bool) {
	for {
		select {
		case chunk := <-ch:
			if !yield(chunk, nil) {
				return true
			}
		case <-done:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (l limited) produce(ctx context.Context, key sessionstore.Key, ch chan<- []sessionstore.Entry, watch *time.Timer) error {
	var chunk []sessionstore.Entry
	size := 0
	send := func() error {
		watch.Stop() // what follows is not the store's time
		select {
		case ch <- chunk:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		chunk, size = nil, 0
		return nil
	}
	for e, err := range sessionstore.Stream(ctx, l.store, key) {
		if err != nil {
			return err
		}
		chunk = append(chunk, e)
		if size += len(e); size >= chunkBytes || len(chunk) >= chunkEntries {
			if err := send(); err != nil {
				return err
			}
		}
		watch.Reset(l.limit)
	}
	if len(chunk) == 0 {
		return nil
	}
	return send()
}
