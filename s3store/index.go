package s3store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// A session has an index object per handle that writes to it. Its time is that
// of the session, its body the summary. The first append of a handle writes it
// beside the part; after that it follows the appends within a second, so that
// they cost one request each.

func (s *Store) indexObject(key sessionstore.Key) string { return s.indexSessionDir(key) + s.writer }

// claimIndex reports whether the caller is the first to write the index object
// of this handle, and in which epoch.
func (st *state) claimIndex() (epoch int, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	u := st.summary
	if u.claimed {
		return 0, false
	}
	u.claimed = true
	return u.epoch, true
}

// firstIndex writes the index object together with the first part. It reports
// whether nothing of that part is missing in it.
func (s *Store) firstIndex(ctx context.Context, st *state, epoch int, name partName, lines []*sessionstore.Checked) bool {
	st.mu.Lock()
	u := st.summary
	// Before the first part of a new session lands, there is nothing else.
	exact := u.exact && u.first == 0 && len(u.flights) == 1
	st.mu.Unlock()
	var (
		f   fields
		ids idset.Set
	)
	f.add(&ids, name, foldAll(lines))
	err := s.putIndex(ctx, s.indexObject(st.key), f.encode(!exact))
	st.mu.Lock()
	defer st.mu.Unlock()
	if err != nil && u.epoch == epoch {
		u.claimed = false
	}
	return err == nil && exact && u.epoch == epoch
}

// indexSoon arranges that the index of a session is written.
func (s *Store) indexSoon(st *state) { s.indexAfter(st, s.timing.indexEvery) }

func (s *Store) indexAfter(st *state, wait time.Duration) {
	st.mu.Lock()
	due := !st.summary.scheduled && (st.summary.dirty || st.summary.unverified)
	st.summary.scheduled = st.summary.scheduled || due
	if due {
		st.pins++
	}
	st.mu.Unlock()
	if !due {
		return
	}
	spawned := s.spawn(func(ctx context.Context) {
		defer s.states.unpin(st)
		select {
		case <-time.After(wait):
		case <-s.closing:
			return // Close writes it
		}
		st.mu.Lock()
		st.summary.scheduled = false
		st.mu.Unlock()
		start := time.Now()
		if err := s.flushIndex(ctx, st); err != nil {
			s.indexAfter(st, 10*max(s.timing.indexEvery, time.Since(start)))
		}
	})
	if !spawned {
		st.mu.Lock()
		st.summary.scheduled = false
		st.mu.Unlock()
		s.states.unpin(st)
	}
}

// unsettled reports whether the index object is not what it should be.
func (st *state) unsettled() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.summary.dirty || st.summary.unverified
}

// flushAll writes the index objects of this handle that are due: of one
// project, or of all if project is empty.
func (s *Store) flushAll(ctx context.Context, project string) error {
	states := s.states.pinAll(func(key sessionstore.Key) bool {
		return key.Subpath == "" && (project == "" || key.ProjectKey == project)
	})
	defer func() {
		for _, st := range states {
			s.states.unpin(st)
		}
	}()
	due := slices.DeleteFunc(slices.Clone(states), func(st *state) bool { return !st.unsettled() })
	return s.eachOf(ctx, len(due), func(ctx context.Context, i int) error {
		err := s.flushIndex(ctx, due[i])
		if err == errBusy || errors.Is(err, sessionstore.ErrCorrupt) {
			// A session that cannot be read is no reason to fail for the others:
			// it is listed by its parts, and its own readers are told.
			return nil
		}
		return err
	})
}

// maxRebuilds is how often one flush reads a transcript that others write to.
const maxRebuilds = 2

// errBusy: others write so much that the summary is never up to date.
var errBusy = errors.New("others write to the session all the time")

// flushIndex writes the index object of a session, and looks whether the
// transcript is what the summary was made of.
func (s *Store) flushIndex(ctx context.Context, st *state) error {
	u := st.summary
	select {
	case u.flushing <- struct{}{}:
		defer func() { <-u.flushing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rebuilds := 0
	for st.unsettled() {
		if !st.isExact() {
			if rebuilds++; rebuilds > maxRebuilds {
				return errBusy
			}
			if err := s.rebuild(ctx, st); err != nil {
				return err
			}
		}
		version, body := st.indexDue()
		if body != nil {
			if err := s.putIndex(ctx, s.indexObject(st.key), body); err != nil {
				return err
			}
		}
		objects, err := s.parts(ctx, s.dir(st.key))
		if err != nil {
			return err
		}
		if !st.verify(objects, version, body != nil) {
			continue
		}
		if len(objects) == 0 {
			return s.deleteEach(ctx, []string{s.indexObject(st.key)})
		}
		if rebuilds > 0 {
			return s.dropSubsumed(ctx, st)
		}
		return nil
	}
	return nil
}

// dropSubsumed deletes the index objects of other handles that have not been
// written for long: what they say is in ours, which was made of the whole
// transcript. A handle that goes on writes its own again.
func (s *Store) dropSubsumed(ctx context.Context, st *state) error {
	dir := s.indexSessionDir(st.key)
	objects, _, err := s.listAll(ctx, dir, false)
	if err != nil {
		return err
	}
	var own time.Time
	for _, o := range objects {
		if o.rest == s.writer {
			own = o.modified
		}
	}
	var old []string
	for _, o := range objects {
		if o.rest != s.writer && o.modified.Before(own.Add(-s.timing.subsumedAge)) {
			old = append(old, dir+o.rest)
		}
	}
	return s.deleteAll(ctx, old)
}

func (st *state) isExact() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.summary.exact
}

// indexDue returns what the index object should hold, or nil if it does.
func (st *state) indexDue() (version int, body []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	u := st.summary
	if u.dirty && u.first > 0 {
		u.claimed = true
		body = u.fields.encode(!u.exact)
	}
	return u.version, body
}

// verify compares the objects of a transcript with what the summary was made
// of. A Delete by another host, and parts of other writers, make it inexact.
func (st *state) verify(objects []object, version int, written bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.raise(objects)
	u := st.summary
	if len(objects) == 0 {
		u.begin(len(u.flights) == 0 && u.version == version)
		u.claimed = false
		u.epoch++
		u.dirty = u.version != version
		u.unverified = u.dirty
		return true
	}
	known := make(map[partName]bool)
	fine := objects[0].name.ms <= u.first
	for _, o := range objects {
		if u.known[o.name] {
			known[o.name] = true
		} else if o.name.suffix != st.suffix {
			fine = false
		}
	}
	if len(u.known) > 2*len(known)+64 {
		u.known = known // forget what is gone
	}
	if !fine || !u.exact {
		u.doubt()
		u.dirty = true
		return false
	}
	if u.version == version {
		u.dirty = u.dirty && !written
		u.unverified = false
	}
	return true
}

// rebuild makes the summary of a session anew out of its transcript.
func (s *Store) rebuild(ctx context.Context, st *state) error {
	st.mu.Lock()
	u := st.summary
	u.rebuilding, u.queue = true, nil
	doubts := u.doubts
	st.mu.Unlock()

	r := s.newReader(ctx, st.key, streamWindow, streamPiece)
	defer r.close()
	c := &collector{}
	r.onObject = c.object
	err := r.read(c.take)

	st.mu.Lock()
	defer st.mu.Unlock()
	queue := u.queue
	u.rebuilding, u.queue = false, nil
	if err != nil {
		return err
	}
	u.ids, u.fields, u.first, u.known = r.seen, c.fields, c.first, c.known
	u.dirty = u.dirty || c.first > 0
	u.exact = u.doubts == doubts
	for _, f := range queue {
		if c.has(f.name) {
			continue
		}
		if f.name.compare(c.last) < 0 { // it has landed behind the reader's back
			u.doubt()
		}
		u.fold(f)
	}
	return nil
}

// collector folds a transcript that is being read.
type collector struct {
	fields   fields
	known    map[partName]bool
	first    int64
	last     partName
	lineNo   int
	segments []partName // that were read
}

func (c *collector) object(name partName) {
	if c.known == nil {
		c.known = make(map[partName]bool)
	}
	c.known[name] = true
}

func (c *collector) take(part partName, l line) bool {
	if part != c.last {
		if c.first == 0 {
			c.first = part.ms
		}
		c.last, c.lineNo = part, 0
		c.segments = append(c.segments, part)
	}
	state := untagged
	state.Fold(l.data)
	for _, got := range contributions(&state) {
		c.fields.put(got.member, value{place{part, c.lineNo}, got.text})
	}
	c.lineNo++
	return true
}

// has reports whether a part has been read.
func (c *collector) has(name partName) bool {
	_, ok := slices.BinarySearchFunc(c.segments, name, func(a, b partName) int { return a.compare(b) })
	return ok
}
