package sessionstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// Defaults of [CopyOptions].
const (
	DefaultBatchEntries = 500
	DefaultBatchBytes   = 4 << 20
)

// CopyOptions are the options of [Copy]. The zero value and nil are fine.
type CopyOptions struct {
	// BatchEntries and BatchBytes limit one append. A longer entry is a batch
	// of its own. 0 means [DefaultBatchEntries] and [DefaultBatchBytes].
	BatchEntries int
	BatchBytes   int
	// Concurrency is how many sessions are copied at a time. 0 means 1, which
	// keeps the sessions of a project in their order by time.
	Concurrency int
	// SkipDiverged copies everything else when sessions have diverged, instead
	// of nothing. Copy then still ends with an error, after the work.
	SkipDiverged bool
	// DryRun reads and counts, and writes nothing.
	DryRun bool
	// Unreadable, if not nil, is called when something of the source cannot be
	// read or listed: with the key of a transcript, of a session or of a
	// project. If it returns nil, that session or project is left out, and Copy
	// goes on with the others; what it returns otherwise ends Copy. It may be
	// called by several goroutines at a time. Without it the first such error
	// ends Copy.
	Unreadable func(key Key, err error) error
	// Progress, if not nil, is called after every transcript that was checked
	// and after every batch that was appended; never by two goroutines at a
	// time.
	Progress func(CopyProgress)
}

// CopyProgress is how far a [Copy] has come.
type CopyProgress struct {
	Key              Key   // the transcript being checked or copied
	Checking         bool  // still comparing, nothing is written yet
	Transcripts      int   // transcripts checked, then transcripts copied
	TotalTranscripts int   // in the scope
	Entries          int   // entries appended so far
	Bytes            int64 // their bytes
}

// CopyReport says what [Copy] did, or with DryRun would do.
type CopyReport struct {
	Sessions    int   // sessions in the scope
	Transcripts int   // transcripts in the scope
	Unchanged   int   // transcripts that the destination held whole
	Entries     int   // entries appended
	Bytes       int64 // their bytes
	// Diverged lists the transcripts whose destination holds something else.
	Diverged []Difference
	// Unreadable lists what CopyOptions.Unreadable has passed over.
	Unreadable []Key
	// MainOnly says that the source cannot list subpaths, so that only main
	// transcripts were copied.
	MainOnly bool
}

// Copy copies transcripts between any two stores, in bounded memory. The scope
// is a key that may be filled in part:
//
//	Key{}                       everything (the source must list projects)
//	Key{ProjectKey}             a project (the source must list sessions)
//	Key{ProjectKey, SessionID}  a session: main transcript and all subpaths
//	Key{…, Subpath}             one transcript
//
// Copy adds only what is missing. It compares what the destination holds with
// the source, entry by entry, so entries without uuid are not repeated, and a
// run after an interruption completes what an earlier one has begun. If a
// destination holds anything that the source does not have at that place, the
// error wraps [ErrDiverged] and nothing is changed at all, unless SkipDiverged
// is set.
//
// The metadata entries of a subagent's transcript (type agent_metadata) are
// compared by the last one, which is the only one that counts and the only one
// that the agent's own files keep.
//
// A project or session that the source does not hold gives [ErrNotFound]. A
// source that is no [OrphanLister] hides sessions that have only subpaths, so
// that copying a project leaves them out; copy those by their id. Nobody else
// may append to the destination's transcripts meanwhile.
func Copy(ctx context.Context, dst, src SessionStore, scope Key, opts *CopyOptions) (CopyReport, error) {
	c := copier{dst: dst, src: src}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.BatchEntries <= 0 {
		c.opts.BatchEntries = DefaultBatchEntries
	}
	if c.opts.BatchBytes <= 0 {
		c.opts.BatchBytes = DefaultBatchBytes
	}
	err := c.run(ctx, scope)
	if err != nil {
		err = &OpError{Package: "sessionstore", Op: "copy", Key: scope, Err: err}
	}
	return c.report, err
}

type copier struct {
	dst, src SessionStore
	opts     CopyOptions

	mu     sync.Mutex // guards the rest, and calls of Progress
	report CopyReport
	done   int // transcripts checked, then transcripts copied
}

// sessionCopy is the work on one session, found by comparing.
type sessionCopy struct {
	keys       []Key
	alignments []alignment
}

func (c *copier) run(ctx context.Context, scope Key) error {
	inv, err := listScope(ctx, c.src, scope, c.leaveOut)
	if err != nil {
		return err
	}
	if scope != (Key{}) && len(inv.sessions) == 0 && len(c.report.Unreadable) == 0 {
		return ErrNotFound
	}
	c.report.MainOnly = inv.mainOnly
	c.report.Sessions = len(inv.sessions)
	work := make([]sessionCopy, len(inv.sessions))
	for i, keys := range inv.sessions {
		work[i] = sessionCopy{keys: keys, alignments: make([]alignment, len(keys))}
		c.report.Transcripts += len(keys)
	}
	err = c.each(ctx, work, c.check)
	if err != nil {
		return err
	}
	if scope.SessionID != "" && nothingThere(work) && len(c.report.Unreadable) == 0 {
		return ErrNotFound
	}
	diverged := c.divergedError()
	if diverged != nil && !c.opts.SkipDiverged {
		return diverged
	}
	c.done = 0
	if err := c.each(ctx, work, c.write); err != nil {
		return err
	}
	return diverged
}

// each runs f on all sessions, Concurrency of them at a time.
func (c *copier) each(ctx context.Context, work []sessionCopy, f func(context.Context, *sessionCopy) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var crash any // of a callback: it belongs on the caller's goroutine
	slots := make(chan struct{}, max(1, c.opts.Concurrency))
	for i := range work {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					cancel(errCrash)
					c.mu.Lock()
					crash = cmp.Or(crash, r)
					c.mu.Unlock()
				}
				<-slots
			}()
			if err := f(ctx, &work[i]); err != nil {
				cancel(err) // the first one counts
			}
		})
	}
	wg.Wait()
	if crash != nil {
		panic(crash)
	}
	return context.Cause(ctx)
}

// leaveOut is told of something of the source that cannot be read.
func (c *copier) leaveOut(ctx context.Context, key Key, err error) error {
	if c.opts.Unreadable == nil || ctx.Err() != nil {
		return err
	}
	if err := c.opts.Unreadable(key, err); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Unreadable = append(c.report.Unreadable, key)
	return nil
}

// sourceError is an error of reading the source.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// readSource marks the errors of the source: those of the destination always
// end the copy.
type readSource struct{ SessionStore }

func (s readSource) Stream(ctx context.Context, key Key) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range Stream(ctx, s.SessionStore, key) {
			if err != nil {
				err = sourceError{err}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// passOver reports whether the session is left out because of an error.
func (c *copier) passOver(ctx context.Context, s *sessionCopy, key Key, err error) (bool, error) {
	if !errors.As(err, new(sourceError)) {
		return false, err
	}
	err = c.leaveOut(ctx, key, err)
	if err == nil {
		s.keys = nil
	}
	return err == nil, err
}

var errCrash = errors.New("panic")

func (c *copier) check(ctx context.Context, s *sessionCopy) error {
	diverged := false
	for i, key := range s.keys {
		a, err := align(ctx, c.dst, readSource{c.src}, key)
		if err != nil {
			left, err := c.passOver(ctx, s, key, err)
			if left {
				return nil
			}
			return fmt.Errorf("%v: %w", key, err)
		}
		s.alignments[i] = a
		diverged = diverged || a.difference != nil
		c.note(key, true, func() {
			c.done++
			switch {
			case a.difference != nil:
				c.report.Diverged = append(c.report.Diverged, *a.difference)
			case a.empty():
				c.report.Transcripts-- // such as the main one of a session that has none
				c.done--
			case a.complete():
				c.report.Unchanged++
			}
		})
	}
	if diverged {
		s.keys = nil // a session is copied whole or not at all
	}
	return nil
}

func nothingThere(work []sessionCopy) bool {
	for _, s := range work {
		for _, a := range s.alignments {
			if !a.empty() {
				return false
			}
		}
	}
	return true
}

func (c *copier) divergedError() error {
	if len(c.report.Diverged) == 0 {
		return nil
	}
	more := ""
	if n := len(c.report.Diverged) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more transcripts)", n)
	}
	return fmt.Errorf("%w: %v%s", ErrDiverged, c.report.Diverged[0], more)
}

// write appends what the destination lacks.
func (c *copier) write(ctx context.Context, s *sessionCopy) error {
	for i, key := range s.keys {
		if !s.alignments[i].complete() {
			if err := c.appendRest(ctx, key, s.alignments[i]); err != nil {
				left, err := c.passOver(ctx, s, key, err)
				if left {
					return nil
				}
				return fmt.Errorf("%v: %w", key, err)
			}
		}
		if !s.alignments[i].empty() {
			c.note(key, false, func() { c.done++ })
		}
	}
	return nil
}

func (c *copier) appendRest(ctx context.Context, key Key, a alignment) error {
	var batch []Entry
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if !c.opts.DryRun {
			if err := c.dst.Append(ctx, key, batch); err != nil {
				return err
			}
		}
		c.note(key, false, func() {
			c.report.Entries += len(batch)
			c.report.Bytes += int64(size)
		})
		batch, size = nil, 0
		return nil
	}
	for e, err := range a.rest(Stream(ctx, readSource{c.src}, key)) {
		if err != nil {
			if flushErr := flush(); flushErr != nil {
				return errors.Join(errors.Unwrap(err), flushErr) // it counts as one of the destination
			}
			return err
		}
		if len(batch) == c.opts.BatchEntries || size+len(e) > c.opts.BatchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch = append(batch, e)
		size += len(e)
	}
	return flush()
}

// note counts what has been done and reports it.
func (c *copier) note(key Key, checking bool, count func()) {
	c.mu.Lock()
	defer c.mu.Unlock() // Progress may panic
	count()
	if c.opts.Progress != nil {
		c.opts.Progress(CopyProgress{
			Key: key, Checking: checking,
			Transcripts: c.done, TotalTranscripts: c.report.Transcripts,
			Entries: c.report.Entries, Bytes: c.report.Bytes,
		})
	}
}

// inventory holds the keys of a scope, session by session.
type inventory struct {
	sessions [][]Key
	mainOnly bool
	leaveOut func(context.Context, Key, error) error
}

// listScope finds the transcripts of a scope. Older sessions come first, so
// that the newest one is written last and stays the newest. Subpaths come
// before the main transcript, so that a session is listed only when it is
// about to be whole. What can't be listed is left out if leaveOut returns nil.
func listScope(ctx context.Context, s SessionStore, scope Key, leaveOut func(context.Context, Key, error) error) (inventory, error) {
	inv := inventory{leaveOut: leaveOut}
	switch {
	case scope == (Key{}):
		projects, err := ListProjects(ctx, s)
		if err != nil {
			return inv, err
		}
		for _, p := range projects {
			if err := inv.addProject(ctx, s, p); err != nil {
				return inv, err
			}
		}
		return inv, nil
	case scope.SessionID == "" && scope.Subpath == "":
		if err := ValidateProjectKey(scope.ProjectKey); err != nil {
			return inv, err
		}
		return inv, inv.addProject(ctx, s, scope.ProjectKey)
	}
	if err := scope.Validate(); err != nil {
		return inv, err
	}
	if scope.Subpath != "" {
		inv.sessions = [][]Key{{scope}}
		return inv, nil
	}
	return inv, inv.addSession(ctx, s, scope)
}

func (inv *inventory) addProject(ctx context.Context, s SessionStore, project string) error {
	key := Key{ProjectKey: project}
	sessions, err := ListSessions(ctx, s, project)
	if errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err != nil {
		// What it has found is copied all the same.
		if err := inv.leaveOut(ctx, key, err); err != nil {
			return err
		}
	}
	orphans, orphansErr := ListOrphans(ctx, s, project)
	if errors.Is(orphansErr, errors.ErrUnsupported) {
		orphans, orphansErr = nil, nil
	}
	if orphansErr != nil && err == nil {
		if err := inv.leaveOut(ctx, key, orphansErr); err != nil {
			return err
		}
	}
	for _, id := range orphans {
		if err := inv.addSession(ctx, s, Key{ProjectKey: project, SessionID: id}); err != nil {
			return err
		}
	}
	for i := len(sessions) - 1; i >= 0; i-- {
		if err := inv.addSession(ctx, s, Key{ProjectKey: project, SessionID: sessions[i].SessionID}); err != nil {
			return err
		}
	}
	return nil
}

func (inv *inventory) addSession(ctx context.Context, s SessionStore, main Key) error {
	subpaths, err := ListSubkeys(ctx, s, main.ProjectKey, main.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		inv.mainOnly = true
	} else if err != nil {
		return inv.leaveOut(ctx, main, err) // a session is copied whole or not at all
	}
	keys := make([]Key, 0, len(subpaths)+1)
	for _, sub := range subpaths {
		keys = append(keys, Key{ProjectKey: main.ProjectKey, SessionID: main.SessionID, Subpath: sub})
	}
	inv.sessions = append(inv.sessions, append(keys, main))
	return nil
}
