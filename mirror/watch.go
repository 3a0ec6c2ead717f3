package mirror

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// Defaults of [WatchOptions].
const (
	DefaultInterval         = time.Second
	DefaultFinalTimeout     = 30 * time.Second
	DefaultWatchConcurrency = 4
)

// WatchOptions are the settings of [Watch]. The zero value and nil are fine; a
// zero field means its default.
type WatchOptions struct {
	// Once brings the store up to date and returns.
	Once bool
	// Interval is the pause between two looks at the directory. It is longer
	// where listing the files takes long, so that it takes a tenth of the time
	// at most.
	Interval time.Duration
	// MaxAge leaves out transcripts that were last written longer ago than this
	// when Watch starts, until they are written to again. 0 means none.
	MaxAge time.Duration
	// FinalTimeout limits the last look, after the context has ended, up to the
	// second that calls of the store have to return.
	FinalTimeout time.Duration

	// MaxEntries and MaxBytes limit one append. A longer entry is appended
	// alone.
	MaxEntries int
	MaxBytes   int
	// Attempts, Pauses and CallTimeout are those of [Options]. A batch that
	// fails is not given up: its transcript is compared with the store again a
	// while later. When a transcript is read from the store, CallTimeout is the
	// longest time without a further entry; a store that is no
	// [sessionstore.Streamer] gives all of them at once.
	Attempts    int
	Pauses      []time.Duration
	CallTimeout time.Duration
	// Concurrency is how many transcripts are read and appended to at a time.
	Concurrency int

	// The callbacks are never called by two goroutines at a time.

	// OnAppend is told of each batch that was stored.
	OnAppend func(WatchAppend)
	// OnSkip is told, once for each, of lines and files that are passed over
	// because they are no entries or no transcripts.
	OnSkip func(WatchSkip)
	// OnError is told of each batch that failed, and of entries that the store
	// refuses for good, whose error wraps sessionstore.ErrInvalidEntry.
	OnError func(*Error)
	// Logger, if not nil, gets errors and what was passed over.
	Logger *slog.Logger
}

// WatchAppend is a batch that [Watch] has stored.
type WatchAppend struct {
	Key     sessionstore.Key
	Entries int
	Bytes   int
	// CatchUp says that the transcript was compared with the store, as it is
	// when Watch sees it first.
	CatchUp bool
}

// WatchSkip is something that [Watch] passed over.
type WatchSkip struct {
	Path string // below the directory, with slashes
	// Line counts from 1, and Offset is where the line starts, in bytes. Line
	// is 0 for a whole file.
	Line   int64
	Offset int64
	// Unfinished says that it is a last line without its end, as one is left by
	// an agent that was killed while it wrote.
	Unfinished bool
	Err        error
}

// WatchReport sums up what [Watch] did.
type WatchReport struct {
	Transcripts int   // seen
	Batches     int   // appended
	Entries     int64 // appended
	Bytes       int64 // appended
	NotMirrored int64 // lines of the kinds that agents never mirror
	Skipped     int64 // lines and files that are no entries or no transcripts
	Failures    int64 // batches and comparisons that failed, and were tried again
}

// Watch mirrors an agent's projects directory into a store as it grows, for
// hosts that cannot change how the agent is started. It looks at the directory
// again and again, reads what is new in complete lines, and appends it. It
// returns when the context has ended, after a last look. The error then says
// what could not be stored; without one the store holds what the files hold.
//
// When Watch sees a transcript first, it compares it with the store and appends
// what is missing, so nothing is lost while it is not running. An entry with a
// uuid is missing if the uuid is not stored; of equal entries without uuid, as
// many are missing as the store has fewer. What only the store holds, such as a
// title that was set there, does not matter. To compare, every transcript is
// read, here and in the store; see WatchOptions.MaxAge. A file that became
// shorter, was replaced or was rewritten in place is compared again. A rewrite
// is seen by the file's time if its length stays, otherwise by the first and
// the last few thousand bytes of what had been read.
//
// A call of the store that does not return although its context has ended, for
// reading too, is left behind. Nothing else is appended to its transcript until it returns.
//
// As in the frames of an agent, the sidecar <name>.meta.json of a subagent is
// an entry of type agent_metadata, appended when it is new or has changed, and
// lines whose type begins with api-request are left out, and files named
// journal.jsonl below a session. A last line without its end waits until it is
// whole, or counts if it is an entry and the file has not grown for some
// seconds, or at the last look. Links that lead out of the directory are not
// followed.
//
// Do not watch a directory whose agents are mirrored at the same time: entries
// without uuid would be stored twice.
func Watch(ctx context.Context, dir string, store sessionstore.SessionStore, opts *WatchOptions) (WatchReport, error) {
	w := &watcher{dir: dir, store: store, files: make(map[string]*watched)}
	if opts != nil {
		w.opts = *opts
	}
	w.opts.setDefaults()
	err := w.run(ctx)
	if err != nil {
		err = fmt.Errorf("mirror: watch %s: %w", dir, err)
	}
	return w.result(), err
}

func (o *WatchOptions) setDefaults() {
	o.Interval = cmp.Or(max(o.Interval, 0), DefaultInterval)
	o.FinalTimeout = cmp.Or(max(o.FinalTimeout, 0), DefaultFinalTimeout)
	o.MaxEntries = cmp.Or(max(o.MaxEntries, 0), DefaultMaxEntries)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), DefaultMaxBytes)
	o.Attempts = cmp.Or(max(o.Attempts, 0), DefaultAttempts)
	o.CallTimeout = cmp.Or(max(o.CallTimeout, 0), DefaultCallTimeout)
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), DefaultWatchConcurrency)
	if len(o.Pauses) == 0 {
		o.Pauses = defaultPauses()
	}
}

type watcher struct {
	dir   string
	store sessionstore.SessionStore
	opts  WatchOptions
	files map[string]*watched // by path

	begun   time.Time     // the first look
	listing time.Duration // how long the last list took

	mu     sync.Mutex // guards the rest, and calls of callbacks
	report WatchReport
	told   idset.Set // skips that were reported
}

func (w *watcher) result() WatchReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

func (w *watcher) run(ctx context.Context) error {
	w.begun = time.Now()
	for !w.opts.Once && ctx.Err() == nil {
		more, err := w.look(ctx, false)
		if err != nil && ctx.Err() == nil {
			w.log("look at the directory", "", err)
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(w.opts.Interval, 9*w.listing)):
		}
	}
	last := ctx
	if !w.opts.Once {
		var cancel context.CancelFunc
		last, cancel = context.WithTimeout(context.WithoutCancel(ctx), w.opts.FinalTimeout)
		defer cancel()
	}
	for {
		more, err := w.look(last, true)
		if err != nil || !more {
			return err
		}
	}
}

// look brings the store up to date, as far as one turn of each transcript goes.
// More says that a transcript has more than that. The error joins what failed.
func (w *watcher) look(ctx context.Context, last bool) (more bool, err error) {
	start := time.Now()
	found, err := w.list(ctx)
	w.listing = time.Since(start)
	if errors.Is(err, fs.ErrNotExist) && !w.opts.Once {
		err = nil // the agent has not started yet
	}
	errs := []error{err}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, w.opts.Concurrency)
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		if !w.due(f, last) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			again, err := w.turn(ctx, f, last)
			mu.Lock()
			defer mu.Unlock()
			more = more || again
			if err != nil {
				errs = append(errs, fmt.Errorf("%v: %w", f.key, err))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return more, errors.Join(errs...)
}

// watched is one transcript.
type watched struct {
	key     sessionstore.Key
	lines   fileState
	sidecar fileState

	// As of the last turn that succeeded.
	seenLines   fileState
	seenSidecar fileState
	offset      int64              // lines before it are stored
	line        int64              // their number
	compared    bool               // with the store
	comparing   *stored            // while that takes more than one turn
	surplus     map[idset.ID]int   // what the store has more of, without uuid
	before      [sha256.Size]byte  // stands for the bytes before offset
	triedFrom   int64              // where the batch that failed last began, -1 if none did
	triedAs     *attempt.Batch     // the identity that it had
	stuck       chan struct{}      // closed when a call that did not return in time has returned
	metadata    sessionstore.Entry // the last one stored
	unfinished  bool               // a last line without its end may count later

	failures int
	retryAt  time.Time
}

// fileState tells whether a file has changed.
type fileState struct {
	name string // below the directory; empty if there is no such file
	info os.FileInfo
}

func (s fileState) same(other fileState) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	return s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime()) && os.SameFile(s.info, other.info)
}

// settled is how long a file must be left alone before a last line without its
// end counts.
const settled = 5 * time.Second

// due reports whether there is anything to do for a transcript.
func (w *watcher) due(f *watched, last bool) bool {
	if !last && time.Now().Before(f.retryAt) {
		return false
	}
	if !f.compared && w.isOld(f) {
		return false
	}
	if info := f.lines.info; info != nil {
		if last && f.offset < info.Size() || f.unfinished && time.Since(info.ModTime()) > settled {
			return true
		}
	}
	return !f.compared || !f.lines.same(f.seenLines) || !f.sidecar.same(f.seenSidecar)
}

func (w *watcher) isOld(f *watched) bool {
	if w.opts.MaxAge <= 0 {
		return false
	}
	oldest := w.begun.Add(-w.opts.MaxAge)
	old := func(s fileState) bool { return s.info == nil || s.info.ModTime().Before(oldest) }
	return old(f.lines) && old(f.sidecar)
}

// list finds all transcripts. It returns what it could find even with an error.
func (w *watcher) list(ctx context.Context) ([]*watched, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l := lister{w: w, root: root, ctx: ctx, found: make(map[string]bool)}
	l.dir(nil, nil)
	for name, f := range w.files {
		whole := len(l.errs) == 0 && ctx.Err() == nil
		if whole && !l.found[name] && f.stuck == nil {
			delete(w.files, name)
		}
	}
	list := make([]*watched, 0, len(l.found))
	for name := range l.found {
		if f := w.files[name]; f != nil {
			list = append(list, f)
		}
	}
	// A session without a main transcript is not listed, so subagents go first.
	slices.SortFunc(list, func(a, b *watched) int {
		return cmp.Or(strings.Compare(a.key.ProjectKey, b.key.ProjectKey), strings.Compare(a.key.SessionID, b.key.SessionID),
			-strings.Compare(a.key.Subpath, b.key.Subpath))
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Transcripts = max(w.report.Transcripts, len(list))
	return list, errors.Join(l.errs...)
}
