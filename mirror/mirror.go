package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Mode says when entries are appended.
type Mode int

const (
	// Batched appends at results and when enough is pending.
	Batched Mode = iota
	// Eager appends every frame by itself, as soon as the one before it in the
	// same file is stored.
	Eager
)

// Defaults of [Options].
const (
	DefaultMaxEntries  = 500
	DefaultMaxBytes    = 1 << 20
	DefaultMaxPending  = 64 << 20
	DefaultConcurrency = 8
	DefaultAttempts    = 3
	DefaultCallTimeout = 60 * time.Second
	DefaultSpillRetry  = 30 * time.Second
)

// Options are the settings of a [Mirror]. The zero value and nil are fine; a
// zero field means its default.
//
// Callbacks are called from several goroutines, also while a Flush waits. They
// must not call Frame, Flush or Close of the mirror. Stats, Failed and Losses
// are allowed.
type Options struct {
	Mode Mode

	// MaxEntries and MaxBytes are how much may be pending in Batched mode
	// before it is appended without a result.
	MaxEntries int
	MaxBytes   int
	// MaxPending limits the bytes of entries in memory, those of appends under
	// way included. Frame waits when it is reached.
	MaxPending int
	// Concurrency is how many keys are appended to at a time.
	Concurrency int

	// Attempts is how often an append is tried in all.
	Attempts int
	// Pauses are the waits before the second attempt, the third and so on. The
	// last one is repeated if there are more attempts. Nil means 200 ms and
	// 800 ms.
	Pauses []time.Duration
	// CallTimeout limits one call of the store. A call that has not returned
	// 5 seconds later is given up, and keeps its key until it does.
	CallTimeout time.Duration
	// NoRetryAfterTimeout gives a batch up at once when a call has exceeded
	// CallTimeout. It is for stores that would store a batch twice when it is
	// appended again after an attempt that has landed all the same.
	NoRetryAfterTimeout bool

	// Spill is a directory for batches that were given up. New creates it, with
	// mode 0700. Several mirrors may share it. Empty means that such batches
	// are not kept.
	Spill string
	// SpillRetry is how long a key whose batches are in Spill waits before the
	// store is tried again.
	SpillRetry time.Duration

	// InjectErrors makes Reader insert a message of type system and subtype
	// mirror_error for each Error, as the agent's own hosts see it, before the
	// result that it belongs to. The mirror must then serve one agent only.
	InjectErrors bool

	// OnError is told of each batch that was given up, and of entries that no
	// store can hold.
	OnError func(*Error)
	// OnForeign is told of each frame whose path is no transcript below the
	// projects directory.
	OnForeign func(*ForeignError)
	// OnAppend is told of each call of the store, for metrics and traces.
	OnAppend func(AppendInfo)
	// Logger, if not nil, gets retries and errors.
	Logger *slog.Logger
}

// AppendInfo describes one call of the store.
type AppendInfo struct {
	Key      sessionstore.Key
	Entries  int
	Bytes    int
	Attempt  int // from 1
	Duration time.Duration
	Err      error // nil if the batch is stored
}

// ErrClosed is returned by Frame after Close.
var ErrClosed = errors.New("mirror is closed")

// Mirror appends frames to a store. It is safe for concurrent use. Make one
// with [New], and close it.
type Mirror struct {
	store sessionstore.SessionStore
	opts  Options
	paths *paths
	calls context.Context // of all calls of the store
	abort context.CancelCauseFunc

	mu      sync.Mutex
	room    sync.Cond // of mu: memory has been freed, or the mirror was closed
	closed  bool
	queues  map[sessionstore.Key]*queue
	waiting []*queue // hold frames that are not due
	ready   []*queue // hold frames that are due, and no worker has them
	flushes map[*flush]struct{}
	running sync.WaitGroup // workers
	calling sync.WaitGroup // calls of the store

	bytes        int // of entries in memory
	entries      int // their number
	workers      int
	waitEntries  int // not due yet
	waitBytes    int
	stats        Stats
	losses       map[sessionstore.Key]*Loss
	gone         bool        // a file with a batch was not there at Close
	injections   [][]byte    // messages that are not yet in the agent's output
	blocked      atomic.Bool // a callback has not returned at Close
	closeOnce    sync.Once
	closeOutcome error
}

// New returns a mirror for an agent whose transcripts lie in projectsDir, which
// is the directory "projects" of its configuration directory. It need not exist
// yet.
func New(store sessionstore.SessionStore, projectsDir string, opts *Options) (*Mirror, error) {
	if store == nil {
		return nil, errors.New("mirror: no store")
	}
	paths, err := newPaths(projectsDir)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	m := &Mirror{
		store: store, paths: paths,
		queues:  make(map[sessionstore.Key]*queue),
		flushes: make(map[*flush]struct{}),
		losses:  make(map[sessionstore.Key]*Loss),
	}
	if opts != nil {
		m.opts = *opts
	}
	m.opts.setDefaults()
	if m.opts.Spill != "" {
		if err := os.MkdirAll(m.opts.Spill, dirMode); err != nil {
			return nil, fmt.Errorf("mirror: directory for batches that are given up: %w", err)
		}
	}
	m.room.L = &m.mu
	m.calls, m.abort = context.WithCancelCause(context.Background())
	return m, nil
}

func (o *Options) setDefaults() {
	o.MaxEntries = cmp.Or(max(o.MaxEntries, 0), DefaultMaxEntries)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), DefaultMaxBytes)
	o.MaxPending = cmp.Or(max(o.MaxPending, 0), DefaultMaxPending)
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), DefaultConcurrency)
	o.Attempts = cmp.Or(max(o.Attempts, 0), DefaultAttempts)
	o.CallTimeout = cmp.Or(max(o.CallTimeout, 0), DefaultCallTimeout)
	o.SpillRetry = cmp.Or(max(o.SpillRetry, 0), DefaultSpillRetry)
	if len(o.Pauses) == 0 {
		o.Pauses = defaultPauses()
	}
}

func defaultPauses() []time.Duration {
	return []time.Duration{200 * time.Millisecond, 800 * time.Millisecond}
}

// Frame takes the entries of one frame. The mirror copies them. It waits when
// Options.MaxPending is reached. The error is a [*ForeignError] if the path is
// no transcript below the projects directory, or [ErrClosed]; whether the
// entries were stored is told by Flush, Close and Options.OnError.
func (m *Mirror) Frame(filePath string, entries []sessionstore.Entry) error {
	size := 0
	for _, e := range entries {
		size += len(e)
	}
	own := make([]sessionstore.Entry, len(entries))
	slab := make([]byte, 0, size)
	for i, e := range entries {
		start := len(slab)
		slab = append(slab, e...)
		own[i] = slab[start:len(slab):len(slab)]
	}
	return m.frame(filePath, own)
}

// frame takes entries that nobody changes any more.
func (m *Mirror) frame(filePath string, entries []sessionstore.Entry) error {
	key, foreign := m.key(filePath)
	if foreign != nil {
		foreign.Entries = entries
		m.reportForeign(foreign)
		return foreign
	}
	if err := m.add(key, entries); err != nil {
		return fmt.Errorf("mirror: frame for %v: %w", key, err)
	}
	return nil
}

// key is the key of a transcript file in the store.
func (m *Mirror) key(filePath string) (sessionstore.Key, *ForeignError) {
	key, foreign := m.paths.key(filePath)
	if foreign == nil {
		key = storeKey(m.store, key)
	}
	return key, foreign
}

// Flush appends what is pending and waits until it is stored or given up. The
// error says what was given up, or that the context ended first; the appends
// go on then.
func (m *Mirror) Flush(ctx context.Context) error {
	f := m.startFlush()
	select {
	case <-f.done:
		return errors.Join(f.errs...)
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.flushes, f)
		m.mu.Unlock()
		return fmt.Errorf("mirror: flush: %w", context.Cause(ctx))
	}
}

// closeGrace is how long Close waits, when its context has ended, for calls of
// the store that were cancelled.
const closeGrace = time.Second

// Close appends what is pending and ends the mirror. The error is a
// [*LossError] if anything that came in since New is not in the store;
// [LossError.AllSpilled] says that it lies in Options.Spill. When the
// context ends first, what is under way is cancelled and given up, which with
// Options.Spill means kept, and neither calls of the store nor callbacks that
// don't return are waited for. Closing again gives the same error.
func (m *Mirror) Close(ctx context.Context) error {
	m.closeOnce.Do(func() { m.closeOutcome = m.close(ctx) })
	return m.closeOutcome
}

// Abort gives up what the store has not taken: calls under way are cancelled, and
// from now on each batch is given up without a call, which with Options.Spill
// means kept. So nothing waits for the store any more: Flush, Frame and a Reader
// go on. It is for ending a mirror in a hurry; Close must be called all the same.
func (m *Mirror) Abort(cause error) { m.abort(cause) }

func (m *Mirror) close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.room.Broadcast()
	for _, q := range m.queues {
		if q.held { // one more try, new frames or not
			m.schedule(q)
		}
	}
	m.mu.Unlock()
	f := m.startFlush()
	idle := make(chan struct{})
	go func() {
		<-f.done
		m.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		m.abort(context.Cause(ctx))
		<-idle // soon: only files are written now
	}
	m.abort(ErrClosed)
	m.waitForHanging()
	m.checkKept()
	return m.loss()
}

// waitForHanging gives calls that were given up a moment to return.
func (m *Mirror) waitForHanging() {
	gone := make(chan struct{})
	go func() {
		m.calling.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(closeGrace):
	}
}

// Failed reports whether anything that came in is not in the store: batches
// given up and not delivered since, entries that no store can hold, frames from
// elsewhere and broken ones. See NeedsFiles for whether it is anywhere else.
func (m *Mirror) Failed() bool { return m.loss() != nil }

// NeedsFiles reports whether the agent's local files are the only full copy: it
// is false if all that came in is in the store or waits in Options.Spill for
// being delivered. Close looks once more whether the files there are whole.
func (m *Mirror) NeedsFiles() bool {
	var loss *LossError
	return errors.As(m.loss(), &loss) && !loss.AllSpilled()
}

// checkKept looks whether the files that keep batches are there and whole. When
// the context of Close has ended nobody has done so; whether one that is gone
// was delivered by another process is not known then.
func (m *Mirror) checkKept() {
	m.mu.Lock()
	queues := slices.Collect(maps.Values(m.queues)) // no worker has them any more
	m.mu.Unlock()
	for _, q := range queues {
		broken := func(k keptFile) bool { return !k.isWhole(q.key) }
		if slices.ContainsFunc(q.kept, broken) {
			m.count(func(*Stats) { m.gone = true })
			return
		}
	}
}

// Losses lists, by key, what Failed is about, as far as it has a key.
func (m *Mirror) Losses() []Loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Loss, 0, len(m.losses))
	for _, l := range m.losses {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b Loss) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}

// loss is nil, not an interface that holds nil, if all is stored.
func (m *Mirror) loss() error {
	list := m.Losses()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(list) == 0 && m.stats.Foreign == 0 && m.stats.Broken == 0 {
		return nil
	}
	return &LossError{Losses: list, Foreign: m.stats.Foreign, Broken: m.stats.Broken, gone: m.gone}
}

// Stats returns the counters.
func (m *Mirror) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.PendingEntries, s.PendingBytes = m.entries, m.bytes
	for _, q := range m.queues {
		if q.held {
			s.HeldKeys++
		}
	}
	return s
}
