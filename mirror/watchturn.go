package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonl"
)

// notMirrored begins the types of lines that agents keep for themselves.
const notMirrored = "api-request"

// turnBytes is how much of a transcript one turn reads. Then the others have
// their turns, so that a long one does not keep them from being mirrored.
const turnBytes = 16 << 20

// maxRetryPause limits the pause after failures of one transcript.
const maxRetryPause = time.Minute

// turn brings one transcript up to date, or a part of it. After an error it is
// compared with the store again.
func (w *watcher) turn(ctx context.Context, f *watched, last bool) (more bool, err error) {
	t := turn{w: w, f: f, last: last, from: -1}
	defer func() {
		if r := recover(); r != nil { // of the store
			err = fmt.Errorf("panic: %v", r)
		}
		if err == nil {
			f.failures, f.retryAt = 0, time.Time{}
			return
		}
		f.compared, f.comparing = false, nil
		f.failures++
		f.retryAt = time.Now().Add(min(w.opts.Interval<<min(f.failures, 10), maxRetryPause))
		if ctx.Err() == nil {
			w.failed(&Error{Key: f.key, Entries: t.batch, Attempts: t.attempts, Err: err})
		}
	}()
	return t.run(ctx)
}

// turn is the work of one turn.
type turn struct {
	w        *watcher
	f        *watched
	last     bool
	batch    []sessionstore.Entry
	size     int   // of batch in bytes
	from     int64 // where its first line begins, -1 if it has none
	attempts int   // to append it
}

func (t *turn) run(ctx context.Context) (more bool, err error) {
	f := t.f
	if err := t.waitForStuck(ctx); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(t.w.dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	file, size, err := openLines(root, f)
	if err != nil {
		return false, err
	}
	if file != nil {
		defer file.Close()
	}
	more, err = t.update(ctx, root, file, size)
	if err != nil || more {
		return more, err
	}
	if f.comparing != nil {
		f.surplus = f.comparing.others
	}
	f.compared, f.comparing = true, nil
	f.seenLines, f.seenSidecar = f.lines, f.sidecar
	return false, nil
}

// update appends what is new in the file and in the sidecar.
func (t *turn) update(ctx context.Context, root *os.Root, file *os.File, size int64) (more bool, err error) {
	nothing, err := t.begin(ctx, file, size)
	if err != nil {
		return false, err
	}
	metadata, err := t.readSidecar(root)
	if err != nil {
		return false, err
	}
	if nothing {
		t.addMetadata(metadata) // agents report it first
	}
	if file != nil {
		if more, err = t.readLines(ctx, file, size); err == nil {
			t.f.before, err = digestBefore(file, t.f.offset)
		}
		if err != nil || more {
			return more, err
		}
	}
	t.addMetadata(metadata)
	return false, t.flush(ctx)
}

// begin compares the transcript with the store if that has not been done, or if
// the file was rewritten. Nothing says that the store holds nothing of it.
func (t *turn) begin(ctx context.Context, file *os.File, size int64) (nothing bool, err error) {
	f := t.f
	rewritten, err := f.rewritten(file, size)
	if err != nil {
		return false, err
	}
	if rewritten {
		f.compared, f.comparing = false, nil
	}
	if f.compared || f.comparing != nil {
		return false, nil
	}
	return t.compare(ctx)
}

// rewritten reports whether a file has changed other than by growing.
func (f *watched) rewritten(file *os.File, size int64) (bool, error) {
	if size < f.offset {
		return true, nil
	}
	if seen := f.seenLines.info; seen != nil {
		if !os.SameFile(seen, f.lines.info) || seen.Size() == size && !seen.ModTime().Equal(f.lines.info.ModTime()) {
			return true, nil
		}
	}
	if f.offset == 0 || file == nil {
		return false, nil
	}
	now, err := digestBefore(file, f.offset)
	return now != f.before, err
}

// digestLen is how much of both ends digestBefore reads.
const digestLen = 4 << 10

// digestBefore stands for the bytes of a file before an offset. It reads the
// ends only: a transcript can be long, and grow every second.
func digestBefore(file *os.File, offset int64) (sum [sha256.Size]byte, err error) {
	buf := make([]byte, min(2*digestLen, offset))
	first := buf[:len(buf)/2]
	last := buf[len(first):]
	if _, err := file.ReadAt(first, 0); err != nil {
		return sum, err
	}
	if _, err := file.ReadAt(last, offset-int64(len(last))); err != nil {
		return sum, err
	}
	return sha256.Sum256(buf), nil
}

// openLines opens the file and notes its state, as it is now. There may be a
// sidecar only.
func openLines(root *os.Root, f *watched) (*os.File, int64, error) {
	if f.lines.name == "" {
		return nil, 0, nil
	}
	file, err := root.Open(f.lines.name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	f.lines.info = info
	return file, info.Size(), nil
}

// readLines appends what is new, or up to turnBytes of it.
func (t *turn) readLines(ctx context.Context, file *os.File, size int64) (more bool, err error) {
	f := t.f
	from, base := f.offset, f.line
	end, number := size, base
	f.unfinished = false
	lines := jsonl.NewLinesAt(contextReader{ctx, file}, from, size, sessionstore.MaxEntryLen)
	entries := jsonl.NewEntries(lines, func(s jsonl.Skip) {
		if s.Torn && !t.last {
			end = s.Offset // it may become one
			return
		}
		number = base + s.Line
		if s.Length > 0 {
			t.w.skip(WatchSkip{Path: f.lines.name, Line: number, Offset: s.Offset, Unfinished: s.Torn, Err: s.Err})
		}
	})
	for {
		e, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if e.Torn && !t.last && time.Since(f.lines.info.ModTime()) < settled {
			f.unfinished, end = true, e.Offset
			break
		}
		full := t.full(len(e.Data))
		more = e.Offset-from > turnBytes
		if full || more {
			if err := t.flushTo(ctx, e.Offset, base+e.Line-1); err != nil || more {
				return more, err
			}
		}
		number = base + e.Line
		t.add(e)
	}
	return false, t.flushTo(ctx, end, number)
}

func (t *turn) full(more int) bool {
	return len(t.batch) > 0 && (len(t.batch) >= t.w.opts.MaxEntries || t.size+more > t.w.opts.MaxBytes)
}

// add adds an entry to the batch unless it is stored, or is never mirrored.
func (t *turn) add(line jsonl.Entry) {
	e := sessionstore.Entry(line.Data)
	if bytes.Contains(e, []byte(notMirrored)) && strings.HasPrefix(e.Type(), notMirrored) {
		t.w.count(func(r *WatchReport) { r.NotMirrored++ })
		return
	}
	switch f := t.f; {
	case f.comparing != nil && f.comparing.take(identifyAs(e, line.UUID)):
		return
	case len(f.surplus) > 0 && f.useUp(identifyAs(e, line.UUID)):
		return
	}
	if t.from < 0 {
		t.from = line.Offset
	}
	if !line.Owned {
		e = bytes.Clone(e)
	}
	t.batch = append(t.batch, e)
	t.size += len(e)
}

// flushTo appends the batch; then everything before offset is stored.
func (t *turn) flushTo(ctx context.Context, offset, line int64) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	t.f.offset, t.f.line = offset, line
	return nil
}

func (t *turn) flush(ctx context.Context) error {
	if len(t.batch) == 0 {
		return nil
	}
	if err := t.append(ctx, t.batch); err != nil {
		return err
	}
	t.batch, t.size, t.from, t.f.triedFrom = nil, 0, -1, -1
	return nil
}

// contextReader reads a file until the context ends.
type contextReader struct {
	ctx  context.Context
	file *os.File
}

func (r contextReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.file.ReadAt(p, off)
}
