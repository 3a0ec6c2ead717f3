package s3store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Compaction writes an object that holds the segments of several others, and
// then deletes those. What keeps it safe, whatever else happens meanwhile:
//
//   - Readers take the union of segments by name. Until its sources are deleted
//     a compacted object adds nothing, and afterwards nothing is missing.
//   - Objects have a rank: the number of their segments, then their name. One is
//     deleted only when each of its segments is in another that has a higher
//     rank and was seen to exist. So of all that hold a segment the highest is
//     never deleted, however many compact at the same time and however old what
//     they know is.
//   - The newest part is left alone, so that its number can be seen in a list.
//
// A host that dies in between leaves objects of which the next compaction, of
// any host, deletes those that others cover.

const (
	// closedSize and closedTable are the size of an object, and of its table,
	// from which on it is not written again.
	closedSize  = 8 << 20
	closedTable = 1500
	// smallSize is below what sizes make no difference.
	smallSize = 64 << 10
	// batchSize and batchObjects limit what one step of a compaction holds.
	batchSize    = 16 << 20
	batchObjects = 1000
)

// compactionState is what a handle knows about the objects of a transcript.
type compactionState struct {
	gate chan struct{} // held while objects are put together or deleted

	// The mutex of the state protects these.
	tail      int // about how many small objects there are at the end
	scheduled bool
	last      time.Time // when the last one ended

	tables map[partName]knownTable // held by the gate
}

// knownTable is the table of an object; its text is empty for a plain part.
type knownTable struct {
	text   string
	count  int   // of segments
	lastMS int64 // of the last segment
}

func knowTable(name partName, text string) (knownTable, error) {
	segs, err := segmentsOf(name, text)
	if err != nil {
		return knownTable{}, err
	}
	return knownTable{text, len(segs), segs[len(segs)-1].name.ms}, nil
}

func (c *compactionState) lock(ctx context.Context) error {
	select {
	case c.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *compactionState) unlock() { <-c.gate }

// compactSoon counts an append, and begins a compaction in the background when
// enough has piled up.
func (s *Store) compactSoon(st *state) {
	st.mu.Lock()
	st.compaction.tail++
	st.mu.Unlock()
	s.compactIfDue(st)
}

func (s *Store) compactIfDue(st *state) {
	st.mu.Lock()
	c := &st.compaction
	due := s.compactAfter >= 0 && c.tail > s.compactAfter && !c.scheduled
	wait := time.Until(c.last.Add(s.timing.compactEvery))
	if due {
		c.scheduled = true
		st.pins++
	}
	st.mu.Unlock()
	if !due {
		return
	}
	spawned := s.spawn(func(ctx context.Context) {
		defer s.states.unpin(st)
		if s.compactLater(ctx, st, wait) {
			s.compactIfDue(st)
		}
	})
	if !spawned {
		st.mu.Lock()
		c.scheduled = false
		st.mu.Unlock()
		s.states.unpin(st)
	}
}

// compactLater waits for its turn. It reports whether there may be more to do.
func (s *Store) compactLater(ctx context.Context, st *state, wait time.Duration) (more bool) {
	select {
	case <-time.After(wait):
	case <-s.closing:
		return false
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return false
	}
	// A failure costs nothing but time: the next append tries again.
	more, err := s.compact(ctx, st, s.compactAfter+1)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.compaction.scheduled = false
	st.compaction.last = time.Now()
	return more && err == nil
}

// Compact puts the small parts of a transcript together, all but the newest, and
// deletes what earlier compactions have left behind. Stores do it by themselves
// (see Options.CompactAfter); call it for transcripts that nobody appends to any
// more, or that other software has written.
func (s *Store) Compact(ctx context.Context, key sessionstore.Key) error {
	err := begin(ctx, key.Validate())
	if err == nil {
		st := s.states.pin(key)
		defer s.states.unpin(st)
		_, err = s.compact(ctx, st, 2)
	}
	if err != nil {
		return opError("compact", key, err)
	}
	return nil
}

// compact puts objects together where there are at least so many. It reports
// whether it has changed anything.
func (s *Store) compact(ctx context.Context, st *state, atLeast int) (changed bool, err error) {
	c := &st.compaction
	if err := c.lock(ctx); err != nil {
		return false, err
	}
	defer c.unlock()
	st.mu.Lock()
	before := c.tail
	st.mu.Unlock()
	job := &compaction{s: s, st: st, ctx: ctx, dir: s.dir(st.key)}
	if err := job.look(); err != nil {
		return false, err
	}
	if err := job.deleteCovered(); err != nil {
		return false, err
	}
	if err := job.mergeOverlapping(); err != nil {
		return job.changed, err
	}
	runs := [][]object{job.tail()}
	if atLeast == 2 {
		runs = job.allRuns()
	}
	for _, run := range runs {
		if len(run) < atLeast {
			continue
		}
		for _, batch := range batches(run) {
			if err := job.merge(batch, closedSize); err != nil {
				return job.changed, err
			}
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	c.tail = len(job.tail()) + 1 + c.tail - before
	return job.changed, nil
}

// compaction is one on its way.
type compaction struct {
	s       *Store
	st      *state
	ctx     context.Context
	dir     string
	objects []object // all but the newest part, by name
	newest  partName
	changed bool
}

// look lists the objects and finds out what those are that nobody has seen yet.
func (j *compaction) look() error {
	objects, err := j.s.parts(j.ctx, j.dir)
	if err != nil {
		return err
	}
	j.s.sawParts(j.st.key, objects)
	c := &j.st.compaction
	tables := make(map[partName]knownTable, len(objects))
	for _, o := range objects {
		if table, ok := c.tables[o.name]; ok {
			tables[o.name] = table
		}
	}
	c.tables = tables
	if n := len(objects); n > 0 {
		j.newest = objects[n-1].name
		j.objects = objects[:n-1]
	}
	j.st.mu.Lock()
	own := j.st.suffix
	j.st.mu.Unlock()
	var unknown []object
	for _, o := range j.objects {
		if _, ok := tables[o.name]; ok {
			continue
		}
		if o.name.suffix == own && j.st.isKnown() {
			tables[o.name], _ = knowTable(o.name, "")
			continue
		}
		unknown = append(unknown, o)
	}
	found := make([]knownTable, len(unknown))
	err = j.s.eachOf(j.ctx, len(unknown), func(ctx context.Context, i int) error {
		text, err := j.s.table(ctx, j.dir+unknown[i].name.String())
		if err == nil {
			found[i], err = knowTable(unknown[i].name, text)
		}
		return err
	})
	if errors.Is(err, errGone) {
		return nil // somebody else is at it
	}
	for i, o := range unknown {
		tables[o.name] = found[i]
	}
	return err
}

// closed says that an object is not written again.
func (j *compaction) closed(o object) bool {
	return o.size >= closedSize || len(j.st.compaction.tables[o.name].text) >= closedTable
}

// tail is the run of objects at the end that are worth putting together: none
// is larger than all behind it, so that an entry is written again only a number
// of times that grows with the logarithm of the length.
func (j *compaction) tail() []object {
	total := int64(0)
	i := len(j.objects)
	for ; i > 0; i-- {
		o := j.objects[i-1]
		if j.closed(o) || o.size > max(total, smallSize) {
			break
		}
		total += o.size
	}
	return j.objects[i:]
}

// allRuns are the runs of objects that are not closed.
func (j *compaction) allRuns() (runs [][]object) {
	begin := 0
	for i, o := range j.objects {
		if j.closed(o) {
			runs = append(runs, j.objects[begin:i])
			begin = i + 1
		}
	}
	return append(runs, j.objects[begin:])
}

// batches splits a run into pieces that can be held.
func batches(run []object) (all [][]object) {
	begin, size := 0, int64(0)
	for i, o := range run {
		if i > begin && (size+o.size > batchSize || i-begin == batchObjects) {
			all = append(all, run[begin:i])
			begin, size = i, 0
		}
		size += o.size
	}
	return append(all, run[begin:])
}

// wasDeleted reports whether a Delete has come in between: then what was made
// meanwhile must go too. The sources may have been deleted by another host that
// has found them in our object. But the part that was the newest is left alone,
// or goes into an object of others when there are newer ones; only a Delete
// takes it away.
//
// A list is no snapshot (see reader.list): one that shows neither may have been
// made while the part went into an object that stands where the list has been
// already. So only two equal lists tell.
func (j *compaction) wasDeleted() (bool, error) {
	var before []object
	for range maxRelists {
		objects, err := j.s.parts(j.ctx, j.dir)
		if err != nil {
			return false, err
		}
		held, err := j.newestHeld(objects)
		switch {
		case errors.Is(err, errGone): // others are at it
		case err != nil || held:
			return false, err
		case before != nil && slices.EqualFunc(before, objects, func(a, b object) bool { return a.name == b.name }):
			return true, nil
		}
		before = objects
	}
	return false, errUnsteady
}

// newestHeld reports whether the part that was the newest is in an object of a
// list.
func (j *compaction) newestHeld(objects []object) (bool, error) {
	for _, o := range objects {
		if o.name == j.newest {
			return true, nil
		}
	}
	for _, o := range objects {
		if _, known := j.st.compaction.tables[o.name]; known || o.name.ms > j.newest.ms {
			continue
		}
		table, err := j.s.table(j.ctx, j.dir+o.name.String())
		if err != nil {
			return false, err
		}
		held, err := segmentsOf(o.name, table)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(held, func(h segment) bool { return h.name == j.newest }) {
			return true, nil
		}
	}
	return false, nil
}

// delete deletes objects that others cover.
func (j *compaction) delete(objects []object) error {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = j.dir + o.name.String()
	}
	if err := j.s.deleteAll(j.ctx, names); err != nil {
		return err
	}
	for _, o := range objects {
		delete(j.st.compaction.tables, o.name)
	}
	j.objects = slices.DeleteFunc(slices.Clone(j.objects), func(o object) bool {
		return slices.ContainsFunc(objects, func(d object) bool { return d.name == o.name })
	})
	return nil
}

// deleteCovered deletes what dead hosts have left behind.
func (j *compaction) deleteCovered() error {
	var old []object
	for _, o := range j.objects {
		if j.covered(o) {
			old = append(old, o)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return j.delete(old)
}

// covered reports whether each segment of an object is in another of higher
// rank.
func (j *compaction) covered(o object) bool {
	tables := j.st.compaction.tables
	own, ok := tables[o.name]
	if !ok {
		return false
	}
	segs, err := segmentsOf(o.name, own.text)
	if err != nil {
		return false
	}
	missing := make(map[partName]bool, len(segs))
	for _, s := range segs {
		missing[s.name] = true
	}
	for _, other := range j.objects {
		// Objects are sorted by their first segments.
		if other.name.ms > own.lastMS {
			break
		}
		t := tables[other.name]
		higher := t.count > own.count || t.count == own.count && other.name.compare(o.name) > 0
		if t.text == "" || !higher || t.lastMS < segs[0].name.ms {
			continue
		}
		held, err := decodeTable(t.text)
		if err != nil {
			continue
		}
		for _, h := range held {
			delete(missing, h.name)
		}
	}
	return len(missing) == 0
}
