package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"strconv"
	"strings"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
)

// windowEntries is how many entries a read gets at most at a time. Their
// lengths come with the window before.
const windowEntries = 4096

// errReplaced: the transcript was deleted, and perhaps written anew, between
// two windows.
var errReplaced = errors.New("the transcript was deleted while it was read")

// row is what meta says about a transcript.
type row struct {
	count, ids int
	generation string
	time       int64 // of a main transcript
	folded     int   // how many of its entries are in the summary
}

func parseRow(text string) (row, error) {
	var r row
	bad := false
	number := func() int64 {
		var part string
		part, text, _ = strings.Cut(text, " ")
		n, err := strconv.ParseInt(part, 10, 64)
		bad = bad || err != nil
		return n
	}
	whole := text
	r.count, r.ids = int(number()), int(number())
	r.generation, text, _ = strings.Cut(text, " ")
	if text != "" {
		r.time, r.folded = number(), int(number())
	}
	if bad || r.generation == "" {
		return row{}, corrupt("unreadable row %q", whole)
	}
	return r, nil
}

// maxRestarts is how often a read begins anew because the transcript was
// replaced before anything of it had been handed out.
const maxRestarts = 5

// Load returns all entries of a transcript.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := begin(ctx, key.Validate()); err != nil {
		return nil, opError("load", key, err)
	}
	for n := 0; ; n++ {
		entries, err := s.load(ctx, key)
		if err == nil {
			return entries, nil
		}
		if !errors.Is(err, errReplaced) || n == maxRestarts {
			return nil, opError("load", key, err)
		}
	}
}

func (s *Store) load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	r, err := s.open(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	entries := make([]sessionstore.Entry, 0, r.row.count)
	for r.next < r.row.count {
		window, err := r.window(ctx)
		if err != nil {
			return nil, err
		}
		for _, line := range window {
			entries = append(entries, bytesOf(line))
		}
	}
	return entries, nil
}

// Stream yields the entries of a transcript one by one. It holds some MiB of
// them at a time, or one entry that is longer. If the transcript is deleted
// meanwhile, the sequence ends with an error.
func (s *Store) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		err := begin(ctx, key.Validate())
		more := err == nil
		for n := 0; more; n++ {
			more, err = s.stream(ctx, key, yield)
			more = more && n < maxRestarts
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, opError("stream", key, err))
		}
	}
}

// errStopped: the reader of a stream has had enough.
var errStopped = errors.New("stopped")

// stream reads a transcript once. It reports whether to begin anew.
func (s *Store) stream(ctx context.Context, key sessionstore.Key, yield func(sessionstore.Entry, error) bool) (bool, error) {
	r, err := s.open(ctx, key)
	if err != nil || r == nil {
		return false, err
	}
	for r.next < r.row.count {
		first := r.next == 0
		window, err := r.window(ctx)
		if err != nil {
			return first && errors.Is(err, errReplaced), err
		}
		for i, line := range window {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			window[i] = "" // the caller's now
			if !yield(bytesOf(line), nil) {
				return false, errStopped
			}
		}
	}
	return false, nil
}

// bytesOf turns a string of the client into an entry without copying it.
// Nobody else holds the string, so the caller may change the bytes.
func bytesOf(s string) sessionstore.Entry {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// reader reads a transcript as it was when it was opened, window by window.
// Entries are only ever added behind, so the windows fit together as long as
// the generation is the same.
type reader struct {
	s     *Store
	names names
	row   row
	next  int    // the entry that comes next
	lens  []byte // lengths of the entries from there on
}

// open starts reading. Without such a transcript it returns nil.
func (s *Store) open(ctx context.Context, key sessionstore.Key) (*reader, error) {
	n := s.names(key)
	for try := 1; ; try++ {
		var h head
		err := s.retry(ctx, func() (err error) { h, err = s.readHead(ctx, n, 0); return err })
		if err != nil {
			return nil, err
		}
		r, err := h.check()
		if err == nil {
			if r.generation == "" {
				return nil, nil
			}
			s.prime(key, r, h.summary)
			return &reader{s: s, names: n, row: r, lens: []byte(h.lens)}, nil
		}
		// The keys are read one after the other: they may have expired, or
		// another append may have come, in between. Look again before blaming
		// the data.
		if try == 3 {
			return nil, err
		}
	}
}

// head is what there is to know about a transcript before its entries.
type head struct {
	version           string
	row, rowAfter     string
	list, ids, lensOf int // sizes of the keys
	lens              string
	summary           string
}

// readHead gets it, with the lengths of the first entries, in one round trip.
func (s *Store) readHead(ctx context.Context, n names, from int) (head, error) {
	pipe := s.client.Pipeline()
	meta := pipe.HMGet(ctx, n.meta, n.field, "v", "s")
	list := pipe.LLen(ctx, n.list)
	ids := pipe.SCard(ctx, n.ids)
	lensOf := pipe.StrLen(ctx, n.lens)
	lens := getLens(ctx, pipe, n, from)
	after := pipe.HGet(ctx, n.meta, n.field)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return head{}, err
	}
	text := func(i int) string { t, _ := meta.Val()[i].(string); return t }
	return head{
		row: text(0), version: text(1), summary: text(2), rowAfter: after.Val(),
		list: int(list.Val()), ids: int(ids.Val()), lensOf: int(lensOf.Val()), lens: lens.Val(),
	}, nil
}

func getLens(ctx context.Context, c redis.Cmdable, n names, from int) *redis.StringCmd {
	return c.GetRange(ctx, n.lens, int64(4*from), int64(4*(from+windowEntries)-1))
}

// check compares what meta says with what is there. An empty row is that of no
// transcript.
func (h head) check() (row, error) {
	if h.version != "" && h.version != formatVersion {
		return row{}, laterFormat(h.version)
	}
	var r row
	if h.row != "" {
		var err error
		if r, err = parseRow(h.row); err != nil {
			return row{}, err
		}
	}
	if h.row != h.rowAfter {
		return row{}, corrupt("the transcript changes all the time")
	}
	if h.list != r.count || h.ids != r.ids || h.lensOf != 4*r.count {
		return row{}, corrupt("%d of %d entries are there, %d of %d ids and %d of %d bytes of lengths",
			h.list, r.count, h.ids, r.ids, h.lensOf, 4*r.count)
	}
	return r, nil
}

// window reads the next entries: about windowBytes, at least one.
func (r *reader) window(ctx context.Context) ([]string, error) {
	n, size := 0, 0
	for known := len(r.lens) / 4; n < known && r.next+n < r.row.count; n++ {
		size += r.len(n)
		if n > 0 && size > r.s.windowBytes {
			break
		}
	}
	if n == 0 {
		return nil, corrupt("the lengths end at entry %d of %d", r.next, r.row.count)
	}
	var (
		window      []string
		lens, after string
	)
	err := r.s.retry(ctx, func() (err error) { window, lens, after, err = r.get(ctx, n); return err })
	if err != nil {
		return nil, err
	}
	if now, err := parseRow(after); err != nil || now.generation != r.row.generation {
		return nil, errReplaced
	}
	if len(window) != n {
		return nil, corrupt("entry %d of %d is missing", r.next+len(window)+1, r.row.count)
	}
	for i, line := range window {
		if len(line) != r.len(i) {
			return nil, corrupt("entry %d of %d has %d bytes, not %d", r.next+i+1, r.row.count, len(line), r.len(i))
		}
	}
	r.next += n
	r.lens = []byte(lens)
	return window, nil
}

func (r *reader) len(i int) int { return int(binary.LittleEndian.Uint32(r.lens[4*i:])) }

// get reads n entries, the lengths of those behind them, and at last the row,
// which says whether this is still the same transcript.
func (r *reader) get(ctx context.Context, n int) (entries []string, lens, after string, err error) {
	pipe := r.s.client.Pipeline()
	list := pipe.LRange(ctx, r.names.list, int64(r.next), int64(r.next+n-1))
	more := getLens(ctx, pipe, r.names, r.next+n)
	row := pipe.HGet(ctx, r.names.meta, r.names.field)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, "", "", err
	}
	return list.Val(), more.Val(), row.Val(), nil
}
