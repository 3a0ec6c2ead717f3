package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonl"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
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
	t := turn{w: w, f: f, last: last}
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
	size     int // of batch in bytes
	attempts int // to append it
}

// stored is what the store holds of a transcript, less what has been found in
// the file.
type stored struct {
	uuids  idset.Set
	others map[idset.ID]int // entries without uuid, counted
}

func (t *turn) run(ctx context.Context) (more bool, err error) {
	f := t.f
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
	nothing, err := t.begin(ctx, size)
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
		if more, err = t.readLines(ctx, file, size); err != nil || more {
			return more, err
		}
	}
	t.addMetadata(metadata)
	if err := t.flush(ctx); err != nil {
		return false, err
	}
	f.compared, f.comparing = true, nil
	f.seenLines, f.seenSidecar = f.lines, f.sidecar
	return false, nil
}

// begin compares the transcript with the store if that has not been done, or if
// the file became shorter or is another one. Nothing says that the store holds
// nothing of it.
func (t *turn) begin(ctx context.Context, size int64) (nothing bool, err error) {
	f := t.f
	if size < f.offset || f.seenLines.info != nil && !os.SameFile(f.seenLines.info, f.lines.info) {
		f.compared, f.comparing = false, nil
	}
	if f.compared || f.comparing != nil {
		return false, nil
	}
	return t.compare(ctx)
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

// compare reads what the store holds.
func (t *turn) compare(ctx context.Context) (nothing bool, err error) {
	f := t.f
	f.offset, f.line, f.metadata, f.unfinished = 0, 0, nil, false
	f.seenLines, f.seenSidecar = fileState{}, fileState{}
	s := &stored{others: make(map[idset.ID]int)}
	nothing = true
	for e, err := range sessionstore.Stream(ctx, t.w.store, f.key) {
		if err != nil {
			return false, err
		}
		nothing = false
		if f.key.Subpath != "" && e.Type() == sessionstore.MetadataType {
			f.metadata = e
			continue
		}
		if id := identify(e); id.unique {
			s.uuids.Add(id.id)
		} else {
			s.others[id.id]++
		}
	}
	f.comparing = s
	return nothing, nil
}

// take reports whether the store holds the entry.
func (s *stored) take(id identity) bool {
	if id.unique {
		return s.uuids.Has(id.id)
	}
	if s.others[id.id] == 0 {
		return false
	}
	s.others[id.id]--
	return true
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
			t.w.skip(WatchSkip{Path: f.lines.name, Line: number, Offset: s.Offset, Err: s.Err})
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
	if t.f.comparing != nil && t.f.comparing.take(identifyAs(e, line.UUID)) {
		return
	}
	if !line.Owned {
		e = bytes.Clone(e)
	}
	t.batch = append(t.batch, e)
	t.size += len(e)
}

// addMetadata adds the metadata entry unless it is the last one stored.
func (t *turn) addMetadata(e sessionstore.Entry) {
	if e == nil || e.Equal(t.f.metadata) {
		return
	}
	t.f.metadata = e
	t.batch = append(t.batch, e)
	t.size += len(e)
}

// readSidecar returns the metadata entry if there may be a new one. A sidecar
// that is being written is looked at again when it has changed.
func (t *turn) readSidecar(root *os.Root) (sessionstore.Entry, error) {
	f := t.f
	if f.sidecar.name == "" || f.key.Subpath == "" || f.compared && f.sidecar.same(f.seenSidecar) {
		return nil, nil
	}
	file, err := root.Open(f.sidecar.name)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer file.Close()
	if f.sidecar.info, err = file.Stat(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, sessionstore.MaxEntryLen))
	if err != nil {
		return nil, err
	}
	e, err := metadataEntry(text)
	if err != nil {
		t.w.skip(WatchSkip{Path: f.sidecar.name, Offset: f.sidecar.info.Size(), Err: err})
		return nil, nil
	}
	return e, nil
}

// metadataEntry makes an entry of what a sidecar holds, which lacks its type.
func metadataEntry(text []byte) (sessionstore.Entry, error) {
	text = bytes.TrimRight(text, "\x00 \t\r\n")
	hasType := false
	err := jsonscan.Object(text, func(key, _ []byte) { hasType = hasType || jsonscan.KeyIs(key, "type") })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sessionstore.ErrInvalidEntry, err)
	}
	const ours = `"type":"` + sessionstore.MetadataType + `"`
	first := bytes.IndexByte(text, '{') + 1
	switch inside := text[first : len(text)-1]; {
	case len(bytes.TrimSpace(inside)) == 0:
		return sessionstore.Entry("{" + ours + "}"), nil
	case hasType: // the last one of a repeated key counts
		return sessionstore.Entry(fmt.Sprintf("{%s,%s}", inside, ours)).Line(), nil
	default:
		return sessionstore.Entry(fmt.Sprintf("{%s,%s}", ours, inside)).Line(), nil
	}
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
	t.batch, t.size = nil, 0
	return nil
}

// append stores a batch. Entries that the store refuses are reported, and the
// others stored.
func (t *turn) append(ctx context.Context, batch []sessionstore.Entry) error {
	err := t.attempt(ctx, batch)
	switch {
	case err == nil:
		t.w.appended(t.f, batch)
		return nil
	case !errors.Is(err, sessionstore.ErrInvalidEntry):
		return err
	case len(batch) == 1:
		t.w.count(func(r *WatchReport) { r.Skipped++ })
		t.w.tellError(&Error{Key: t.f.key, Entries: batch, Attempts: t.attempts, Err: err})
		return nil
	}
	half := len(batch) / 2
	if err := t.append(ctx, batch[:half]); err != nil {
		return err
	}
	return t.append(ctx, batch[half:])
}

func (t *turn) attempt(ctx context.Context, batch []sessionstore.Entry) error {
	o := &t.w.opts
	for t.attempts = 1; ; t.attempts++ {
		call, cancel := context.WithTimeout(ctx, o.CallTimeout)
		err := t.w.store.Append(call, t.f.key, batch)
		cancel()
		if err == nil || t.attempts >= o.Attempts || ctx.Err() != nil ||
			errors.Is(err, sessionstore.ErrInvalidEntry) || errors.Is(err, sessionstore.ErrInvalidKey) {
			return err
		}
		select {
		case <-time.After(o.Pauses[min(t.attempts, len(o.Pauses))-1]):
		case <-ctx.Done():
			return err
		}
	}
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

func (w *watcher) count(change func(*WatchReport)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.report)
}

func (w *watcher) appended(f *watched, batch []sessionstore.Entry) {
	done := WatchAppend{Key: f.key, Entries: len(batch), CatchUp: f.comparing != nil}
	for _, e := range batch {
		done.Bytes += len(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Batches++
	w.report.Entries += int64(done.Entries)
	w.report.Bytes += int64(done.Bytes)
	if w.opts.OnAppend != nil {
		w.opts.OnAppend(done)
	}
}

func (w *watcher) failed(e *Error) {
	w.count(func(r *WatchReport) { r.Failures++ })
	w.tellError(e)
}

func (w *watcher) tellError(e *Error) {
	if w.opts.Logger != nil {
		w.opts.Logger.Error("watch: not stored", "key", e.Key.String(), "entries", len(e.Entries), "error", e.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opts.OnError != nil {
		w.opts.OnError(e)
	}
}
