package s3store

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

const (
	// streamWindow is about how many bytes Stream holds.
	streamWindow = 24 << 20
	// streamPiece is how much Stream fetches at a time of an object that is
	// larger than that.
	streamPiece = 8 << 20
	// maxRelists is how often a read looks again because the transcript is
	// being put together differently meanwhile.
	maxRelists = 20
)

var errUnsteady = errors.New("the objects of the transcript change all the time")

// Load returns all entries of a transcript.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := begin(ctx, key.Validate()); err != nil {
		return nil, opError("load", key, err)
	}
	r := s.newReader(ctx, key, math.MaxInt64, math.MaxInt64)
	defer r.close()
	var entries []sessionstore.Entry
	err := r.read(func(_ partName, l line) bool {
		entries = append(entries, l.data)
		return true
	})
	if err != nil {
		return nil, opError("load", key, err)
	}
	return entries, nil
}

// Stream yields the entries of a transcript one by one. It holds some MiB of
// them at a time, or one entry that is longer.
func (s *Store) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		err := begin(ctx, key.Validate())
		if err == nil {
			err = s.stream(ctx, key, func(_ partName, l line) bool { return yield(l.data, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, opError("stream", key, err))
		}
	}
}

// errStopped: the reader of a stream has had enough.
var errStopped = errors.New("stopped")

func (s *Store) stream(ctx context.Context, key sessionstore.Key, yield func(partName, line) bool) error {
	r := s.newReader(ctx, key, streamWindow, streamPiece)
	defer r.close()
	return r.read(yield)
}

// reader reads a transcript: the union of the segments of all its objects, by
// name and in the order of names.
type reader struct {
	s     *Store
	ctx   context.Context
	key   sessionstore.Key
	dir   string
	fetch *fetcher

	objects  []object // the newest list
	pending  []object // of them, those that have not been opened
	open     []*source
	opened   map[partName]bool
	segment  partName // the one that was emitted last
	relists  int
	seen     idset.Set
	onObject func(partName) // may be nil
}

// source is an object that is being read.
type source struct {
	*fetch
	segs []segment // that have not been read
}

func (s *Store) newReader(ctx context.Context, key sessionstore.Key, window, largeAbove int64) *reader {
	dir := s.dir(key)
	return &reader{
		s: s, ctx: ctx, key: key, dir: dir,
		fetch:  s.newFetcher(ctx, dir, window, largeAbove),
		opened: make(map[partName]bool),
	}
}

func (r *reader) close() { r.fetch.close() }

// read yields all entries, without repeats, each with the segment it is from.
func (r *reader) read(yield func(partName, line) bool) error {
	if err := r.list(); err != nil {
		return err
	}
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		next, ok, err := r.advance()
		if err != nil || !ok {
			return err
		}
		if err := r.emit(next, yield); err != nil {
			return err
		}
	}
}

// list finds the objects. A list is no snapshot: while it is made, page by page
// or directory by directory, a compaction may put an object where the list has
// been already, and delete its sources where it has not. So it is made twice,
// the second time while the objects are being fetched, until two are alike.
func (r *reader) list() error {
	objects, err := r.s.parts(r.ctx, r.dir)
	if err != nil {
		return err
	}
	for ; r.relists < maxRelists; r.relists++ {
		r.update(objects)
		again, err := r.s.parts(r.ctx, r.dir)
		if err != nil {
			return err
		}
		if grown(objects, again) {
			r.s.sawParts(r.key, again)
			return nil
		}
		objects = again
	}
	return errUnsteady
}

// grown reports whether the second list is the first one, perhaps with newer
// parts behind it.
func grown(first, second []object) bool {
	if len(second) < len(first) {
		return false
	}
	for i, o := range first {
		if second[i].name != o.name {
			return false
		}
	}
	return true
}

// update plans to read what is listed and was not read yet.
func (r *reader) update(objects []object) {
	r.objects = objects
	r.pending = r.pending[:0:0]
	for _, o := range objects {
		if !r.opened[o.name] {
			r.pending = append(r.pending, o)
		}
	}
	r.fetch.plan(r.pending)
}

// advance finds the segment that comes next. Objects are listed in the order of
// their first segments, so those behind it need not be open.
func (r *reader) advance() (next partName, ok bool, err error) {
	for {
		next, ok = r.lowest()
		if len(r.pending) == 0 || ok && r.pending[0].name.ms > next.ms {
			return next, ok, nil
		}
		if err := r.openNext(); err != nil {
			return partName{}, false, err
		}
	}
}

// lowest is the first segment of the open objects.
func (r *reader) lowest() (next partName, ok bool) {
	for _, src := range r.open {
		if name := src.segs[0].name; !ok || name.compare(next) < 0 {
			next, ok = name, true
		}
	}
	return next, ok
}

// openNext opens the next object. If it is gone, it was compacted or deleted,
// and a new list tells.
func (r *reader) openNext() error {
	f, err := r.fetch.next()
	if errors.Is(err, errGone) && r.relists < maxRelists {
		r.relists++
		return r.list()
	}
	if err != nil {
		return err
	}
	r.pending = r.pending[1:]
	r.opened[f.name] = true
	if r.onObject != nil {
		r.onObject(f.name)
	}
	if len(r.opened) == 1 {
		r.expect(f)
	}
	src := &source{f, f.content.segs}
	r.open = append(r.open, src)
	return r.skip(src, r.segment)
}

// expect makes room for the ids of a transcript whose other objects are like
// the first one. A set that grows costs as much as all else that is done here.
func (r *reader) expect(first *fetch) {
	total := first.size
	for _, o := range r.pending {
		total += o.size
	}
	const atMost = 1 << 16
	r.seen.Grow(int(min(total*int64(len(first.content.lines))/max(first.size, 1), atMost)))
}

// emit yields the segment from one of the objects that hold it, and passes over
// it in the others.
func (r *reader) emit(name partName, yield func(partName, line) bool) error {
	i := slices.IndexFunc(r.open, func(src *source) bool { return src.segs[0].name == name })
	src := r.open[i]
	err := src.each(func(l line) bool {
		if l.hasID && !r.seen.Add(l.id) {
			return true
		}
		return r.ctx.Err() == nil && yield(name, l)
	})
	if err == nil {
		r.segment = name
		for _, other := range slices.Clone(r.open) {
			if err = r.skip(other, name); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errStopped) {
		if ctxErr := r.ctx.Err(); ctxErr != nil {
			err = ctxErr
		}
	}
	return err
}

// skip passes over the segments of an object up to last, and drops the object
// when nothing is left of it.
func (r *reader) skip(src *source, last partName) error {
	for len(src.segs) > 0 && src.segs[0].name.compare(last) <= 0 {
		if err := src.each(func(line) bool { return true }); err != nil {
			return err
		}
	}
	if len(src.segs) == 0 {
		r.open = slices.DeleteFunc(r.open, func(o *source) bool { return o == src })
		r.fetch.release(src.fetch)
		if _, err := src.content.next(); err != io.EOF {
			if err == nil {
				err = corrupt("%s%s has more entries than its table says", r.dir, src.name)
			}
			return err
		}
	}
	return nil
}

// each calls f for the lines of the first segment that is left, which is then
// done with.
func (src *source) each(f func(line) bool) error {
	seg := src.segs[0]
	n := 0
	for ; seg.lines < 0 || n < seg.lines; n++ {
		l, err := src.content.next()
		if err == io.EOF && seg.lines < 0 && n > 0 {
			break
		}
		if err == io.EOF {
			return corrupt("%s ends in segment %s behind %d of %d entries", src.name, seg.name, n, seg.lines)
		}
		if err != nil {
			return err
		}
		if !f(l) {
			return errStopped
		}
	}
	src.segs = src.segs[1:]
	return nil
}
