package s3store

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonl"

	"github.com/sessionstore/sessionstore"
)

// line is one entry with its identity.
type line struct {
	data  []byte
	id    idset.ID
	hasID bool
}

// content is an object that has been fetched: its segments, and their lines
// one after the other.
type content struct {
	segs  []segment
	lines []line      // of an object that is held whole
	large *largeLines // or the reader of one that is not
}

// fetch is the fetching of one object.
type fetch struct {
	object
	done    chan struct{}
	content content
	err     error
	taken   bool // a worker has begun
	held    int64
}

// fetcher fetches the objects of a transcript, in their order and some ahead of
// the reader, but not more than a window of bytes.
type fetcher struct {
	s      *Store
	dir    string
	window int64
	// largeAbove is the size of objects that are read piece by piece.
	largeAbove int64

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*fetch // not taken by the reader yet
	wanted  *fetch   // the reader waits for it
	held    int64
	workers int
}

// newFetcher starts nothing. End it with close.
func (s *Store) newFetcher(ctx context.Context, dir string, window, largeAbove int64) *fetcher {
	f := &fetcher{s: s, dir: dir, window: window, largeAbove: largeAbove}
	f.ctx, f.stop = context.WithCancel(ctx)
	f.wake = sync.NewCond(&f.mu)
	return f
}

// close stops the workers and waits for them.
func (f *fetcher) close() {
	f.stop()
	f.mu.Lock()
	f.wake.Broadcast()
	f.mu.Unlock()
	f.wg.Wait()
}

// plan says which objects are to come, in order. What has been fetched of them
// before is kept.
func (f *fetcher) plan(objects []object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := make(map[partName]*fetch, len(f.queue))
	for _, q := range f.queue {
		known[q.name] = q
	}
	queue := make([]*fetch, 0, len(objects))
	for _, o := range objects {
		q := known[o.name]
		delete(known, o.name)
		if q == nil || q.size != o.size || q.failed() {
			if q != nil {
				f.held -= q.held
			}
			q = &fetch{object: o, done: make(chan struct{})}
		}
		queue = append(queue, q)
	}
	for _, q := range known {
		f.held -= q.held // nobody will take it
	}
	f.queue = queue
	for f.workers < min(f.s.concurrency, len(queue)) {
		f.workers++
		f.wg.Go(f.work)
	}
	f.wake.Broadcast()
}

func (q *fetch) failed() bool {
	select {
	case <-q.done:
		return q.err != nil
	default:
		return false
	}
}

// work fetches one object after the other until there are none left.
func (f *fetcher) work() {
	for {
		q := f.take()
		if q == nil {
			return
		}
		q.content, q.err = f.fetch(q.object)
		close(q.done)
	}
}

// take waits until there is an object to fetch, and room for it.
func (f *fetcher) take() *fetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var next *fetch
		for _, q := range f.queue {
			if !q.taken {
				next = q
				break
			}
		}
		if next == nil || f.ctx.Err() != nil {
			f.workers--
			return nil
		}
		size := min(next.size, f.largeAbove)
		if next == f.wanted || f.held == 0 || f.held+size <= f.window {
			next.taken = true
			next.held = size
			f.held += size
			return next
		}
		f.wake.Wait()
	}
}

// next returns what comes next in the plan, and takes it out.
func (f *fetcher) next() (*fetch, error) {
	f.mu.Lock()
	q := f.queue[0]
	f.wanted = q
	f.wake.Broadcast()
	f.mu.Unlock()
	select {
	case <-q.done:
	case <-f.ctx.Done():
		return nil, f.ctx.Err()
	}
	if q.err != nil {
		return nil, q.err
	}
	f.mu.Lock()
	f.queue[0] = nil // the array stays, and must not hold what was read
	f.queue = f.queue[1:]
	f.mu.Unlock()
	return q, nil
}

// release says that the reader is done with an object.
func (f *fetcher) release(q *fetch) {
	f.mu.Lock()
	f.held -= q.held
	q.held = 0
	f.wake.Broadcast()
	f.mu.Unlock()
}

func (f *fetcher) fetch(o object) (content, error) {
	name := f.dir + o.name.String()
	if o.size > f.largeAbove {
		return f.openLarge(o, name)
	}
	body, table, err := f.s.get(f.ctx, name, o.size)
	if err != nil {
		return content{}, err
	}
	return parseBody(o.name, name, table, body)
}

// parseBody splits an object into its lines. The lines share its bytes.
func parseBody(part partName, name, table string, body []byte) (content, error) {
	segs, err := segmentsOf(part, table)
	if err != nil {
		return content{}, corrupt("%s: %v", name, err)
	}
	find := scan
	if table != "" {
		find = skim
	}
	c := content{segs: segs, lines: make([]line, 0, bytes.Count(body, newline)+1)}
	for len(body) > 0 {
		text := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			text, body = body[:i:i], body[i+1:]
		} else {
			body = nil
		}
		if len(text) == 0 {
			continue
		}
		l, err := find(text)
		if err != nil {
			return content{}, corrupt("%s: line %d: %v", name, len(c.lines)+1, err)
		}
		c.lines = append(c.lines, l)
	}
	if table != "" {
		if n := countLines(segs); n != len(c.lines) {
			return content{}, corrupt("%s has %d entries of %d", name, len(c.lines), n)
		}
	} else {
		segs[0].lines = len(c.lines)
		if len(c.lines) == 0 {
			return content{}, corrupt("%s is empty", name)
		}
	}
	return c, nil
}

var newline = []byte{'\n'}

func countLines(segs []segment) (n int) {
	for _, s := range segs {
		n += s.lines
	}
	return n
}

// largeLines reads an object piece by piece, so that it need not be held.
type largeLines struct {
	s     *Store
	ctx   context.Context
	name  string
	o     object
	piece []byte // unread
	next  int64
	size  int64 // of a piece
	lines *jsonl.Lines
}

func (f *fetcher) openLarge(o object, name string) (content, error) {
	l := &largeLines{s: f.s, ctx: f.ctx, name: name, o: o, size: f.largeAbove}
	piece, table, err := f.s.getRange(f.ctx, name, o.etag, 0, min(l.size, o.size))
	if err != nil {
		return content{}, err
	}
	l.piece, l.next = piece, int64(len(piece))
	l.lines = jsonl.NewLines(l, sessionstore.MaxEntryLen)
	segs, err := segmentsOf(o.name, table)
	if err != nil {
		return content{}, corrupt("%s: %v", name, err)
	}
	return content{segs: segs, large: l}, nil
}

// Read gives the bytes of the object.
func (l *largeLines) Read(p []byte) (int, error) {
	if len(l.piece) == 0 {
		if l.next == l.o.size {
			return 0, io.EOF
		}
		piece, _, err := l.s.getRange(l.ctx, l.name, l.o.etag, l.next, min(l.next+l.size, l.o.size))
		if err != nil {
			return 0, err
		}
		l.piece, l.next = piece, l.next+int64(len(piece))
	}
	n := copy(p, l.piece)
	l.piece = l.piece[n:]
	return n, nil
}

// line returns the next line, and io.EOF behind the last one.
func (l *largeLines) line() (line, error) {
	for {
		next, err := l.lines.Next()
		if err != nil {
			return line{}, err
		}
		if next.TooLong {
			return line{}, corrupt("%s: line %d has %d bytes", l.name, next.Number, next.Length)
		}
		if len(next.Data) == 0 {
			continue
		}
		data := next.Data
		if !next.Owned {
			data = bytes.Clone(data)
		}
		found, err := scan(data)
		if err != nil {
			return line{}, corrupt("%s: line %d: %v", l.name, next.Number, err)
		}
		return found, nil
	}
}

// next returns the next line of an object, and io.EOF behind the last one.
func (c *content) next() (line, error) {
	if c.large != nil {
		return c.large.line()
	}
	if len(c.lines) == 0 {
		return line{}, io.EOF
	}
	l := c.lines[0]
	c.lines = c.lines[1:]
	return l, nil
}
