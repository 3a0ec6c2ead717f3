package filestore

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonl"
)

// Load returns all entries. See [sessionstore.SessionStore]. Lines that are no
// entries are passed over and reported to Options.OnSkip.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	entries, err := s.load(ctx, key)
	if err != nil {
		return nil, fail("load", key, err)
	}
	return entries, nil
}

func (s *Store) load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	r, err := s.openTranscript(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	defer r.close()
	entries := make([]sessionstore.Entry, 0, 64)
	slab := slab{left: r.size}
	for {
		e, err := r.next(ctx)
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		data := sessionstore.Entry(e.Data)
		if !e.Owned {
			data = slab.copy(e.Data)
		}
		if len(entries) == cap(entries) {
			entries = grown(entries, e.Offset, r.size)
		}
		entries = append(entries, data)
	}
}

// grown makes room for as many entries as the file has if it goes on as it
// began, rather than for twice as many. Short lines at the beginning must not
// make it ask for more than a twentieth of the file's size.
func grown(entries []sessionstore.Entry, offset, size int64) []sessionstore.Entry {
	const header = 24 // bytes of a slice
	n := int64(len(entries))
	want := n * 5 / 4
	if offset > 0 {
		guess := int64(float64(n) * (float64(size) / float64(offset)) * 1.02)
		want = max(want, min(guess, size/20/header))
	}
	more := make([]sessionstore.Entry, n, want+16)
	copy(more, entries)
	return more
}

// slabLen is how much memory entries share: allocating each one alone takes
// longer than reading it.
const slabLen = 1 << 20

// slab gives away memory by the piece.
type slab struct {
	free []byte
	left int64 // bytes of the file that are still to come, at most
}

func (s *slab) copy(data []byte) sessionstore.Entry {
	n := len(data)
	if n > len(s.free) {
		s.free = make([]byte, max(min(s.left, slabLen), int64(n)))
	}
	piece := s.free[:n:n]
	s.free = s.free[n:]
	s.left -= int64(n)
	copy(piece, data)
	return piece
}

// Stream yields all entries in bounded memory: that of one entry, and some 40
// bytes for each uuid. See [sessionstore.Streamer].
func (s *Store) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		r, err := s.openTranscript(ctx, key)
		if err != nil {
			yield(nil, fail("stream", key, err))
			return
		}
		if r == nil {
			return
		}
		defer r.close()
		for {
			e, err := r.next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, fail("stream", key, err))
				return
			}
			data := sessionstore.Entry(e.Data)
			if !e.Owned {
				data = append(make(sessionstore.Entry, 0, len(data)), data...)
			}
			if !yield(data, nil) {
				return
			}
		}
	}
}

// transcript reads the entries that were there when it was opened.
type transcript struct {
	file     *os.File // nil when there is only a sidecar
	size     int64
	metadata sessionstore.Entry
	entries  *jsonl.Entries
	seen     idset.Set
}

// openTranscript returns nil if there is no such transcript.
func (s *Store) openTranscript(ctx context.Context, key sessionstore.Key) (*transcript, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.checkCase(key); err != nil {
		return nil, err
	}
	p := placeOf(key)
	for {
		t := &transcript{}
		exists, changed, err := t.open(ctx, s, key, p)
		if err == nil && !changed && exists {
			return t, nil
		}
		t.close()
		if !changed {
			return nil, err
		}
	}
}

// open takes the size of the transcript and its metadata at one moment, at
// which no append is under way. If that has not worked out it reports changed.
func (t *transcript) open(ctx context.Context, s *Store, key sessionstore.Key, p place) (exists, changed bool, err error) {
	if t.file, _, err = s.openToRead(p.lines); err != nil {
		return false, false, err
	}
	if t.file != nil {
		info, err := committed(ctx, t.file)
		if err != nil {
			return false, false, err
		}
		t.size = info.Size()
		defer unlock(t.file)
	}
	sidecar := false
	if p.sidecar != "" {
		if sidecar, err = t.readSidecar(s, key, p.sidecar); err != nil {
			return false, false, err
		}
		if t.file == nil && sidecar {
			// The lines may have come with the sidecar, after we looked for them.
			if _, err := s.root.Lstat(p.lines); err == nil {
				return false, true, nil
			}
		}
	}
	lines := jsonl.NewLinesAt(reader{ctx, t.file}, 0, t.size, sessionstore.MaxEntryLen)
	t.entries = jsonl.NewEntries(lines, func(sk jsonl.Skip) { s.skipLine(key, p.lines, sk) })
	return t.size > 0 || sidecar, false, nil
}

// openToRead opens a file for reading. A missing one is nil; a link that leads
// nowhere or outside is an error.
func (s *Store) openToRead(name string) (f *os.File, info os.FileInfo, err error) {
	exists, err := s.present(name, func() (err error) {
		f, info, err = s.openRegular(name)
		return err
	})
	if exists {
		s.calls.opened(name)
	}
	return f, info, err
}

// committed waits for an append under way and returns the size and time of the
// file, still locked. Where a file system has no locks it goes without.
func committed(ctx context.Context, f *os.File) (os.FileInfo, error) {
	if err := lockFile(ctx, f, false); err != nil && ctx.Err() != nil {
		return nil, err
	}
	return f.Stat()
}

func (s *Store) skipLine(key sessionstore.Key, name string, sk jsonl.Skip) {
	s.skip(Skip{
		Key: key, Path: name,
		Line: sk.Line, Offset: sk.Offset, Length: sk.Length, Torn: sk.Torn,
		Err: fmt.Errorf("%w: %w", sessionstore.ErrInvalidEntry, sk.Err),
	})
}

// readSidecar reports whether there is anything beside the lines.
func (t *transcript) readSidecar(s *Store, key sessionstore.Key, name string) (exists bool, err error) {
	f, info, err := s.openToRead(name)
	if err != nil || f == nil {
		return false, err
	}
	defer f.Close()
	entry, bad, err := readSidecar(f, info.Size())
	if err != nil {
		return false, err
	}
	if bad != nil {
		s.skip(Skip{Key: key, Path: name, Err: bad})
	}
	if id, ok := idOf(entry); ok {
		t.seen.Add(id)
	}
	t.metadata = entry
	return info.Size() > 0, nil
}

// next returns the metadata and then the lines, without repeats: the agent's
// own files can hold copies of earlier lines. It looks at the context each
// time, because one entry can be large.
func (t *transcript) next(ctx context.Context) (jsonl.Entry, error) {
	if err := ctx.Err(); err != nil {
		return jsonl.Entry{}, err
	}
	if e := t.metadata; e != nil {
		t.metadata = nil
		return jsonl.Entry{Data: e, Owned: true}, nil
	}
	for {
		e, err := t.entries.Next()
		if err != nil {
			return jsonl.Entry{}, err
		}
		if len(e.UUID) == 0 || t.seen.Add(idset.Of(e.UUID)) {
			return e, nil
		}
	}
}

func (t *transcript) close() {
	if t.file != nil {
		t.file.Close()
	}
}
