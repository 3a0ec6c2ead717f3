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

// stored is what the store holds of a transcript, less what has been found in
// the file.
type stored struct {
	uuids    idset.Set
	others   map[idset.ID]int   // entries without uuid, counted
	metadata sessionstore.Entry // the last one
	nothing  bool               // it holds no entry
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
			f.before, err = digestBefore(file, f.offset)
		}
		if err != nil || more {
			return more, err
		}
	}
	t.addMetadata(metadata)
	if err := t.flush(ctx); err != nil {
		return false, err
	}
	if f.comparing != nil {
		f.surplus = f.comparing.others
	}
	f.compared, f.comparing = true, nil
	f.seenLines, f.seenSidecar = f.lines, f.sidecar
	return false, nil
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

// compare reads what the store holds.
func (t *turn) compare(ctx context.Context) (nothing bool, err error) {
	f := t.f
	f.offset, f.line, f.metadata, f.unfinished = 0, 0, nil, false
	f.seenLines, f.seenSidecar = fileState{}, fileState{}
	f.surplus = nil
	s := &stored{others: make(map[idset.ID]int), nothing: true}
	err = t.call(ctx, func() error { return s.read(ctx, t.w.store, f.key) })
	if err != nil {
		return false, err // the call may still be under way
	}
	f.comparing, f.metadata = s, s.metadata
	return s.nothing, nil
}

// read reads what the store holds.
func (s *stored) read(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) error {
	for e, err := range sessionstore.Stream(ctx, store, key) {
		if err != nil {
			return err
		}
		s.nothing = false
		if key.Subpath != "" && e.Type() == sessionstore.MetadataType {
			s.metadata = e
			continue
		}
		if id := identify(e); id.unique {
			s.uuids.Add(id.id)
		} else {
			s.others[id.id]++
		}
	}
	return nil
}

// useUp reports whether the store has more of an entry than the file has so
// far. A file that was cut off and written again has it again.
func (f *watched) useUp(id identity) bool {
	if id.unique {
		return false // the store drops it
	}
	return takeOne(f.surplus, id.id)
}

func takeOne(counts map[idset.ID]int, id idset.ID) bool {
	n := counts[id]
	if n > 1 {
		counts[id] = n - 1
	} else {
		delete(counts, id) // few are left when all of the file is read
	}
	return n > 0
}

// take reports whether the store holds the entry.
func (s *stored) take(id identity) bool {
	if id.unique {
		return s.uuids.Has(id.id)
	}
	return takeOne(s.others, id.id)
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
	t.batch, t.size, t.from, t.f.triedFrom = nil, 0, -1, -1
	return nil
}

// append stores a batch. Entries that the store refuses are reported, and the
// others stored.
func (t *turn) append(ctx context.Context, batch []sessionstore.Entry) error {
	err := t.attempt(ctx, batch)
	if err != nil {
		t.f.triedFrom = t.from
	}
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
	again := 0
	if t.from >= 0 && t.from == t.f.triedFrom {
		again = 1 // the comparison has found that it did not land, but it may yet
	}
	for t.attempts = 1; ; t.attempts++ {
		call, cancel := context.WithTimeout(ctx, o.CallTimeout)
		try := asTry(call, t.attempts+again)
		err := t.call(call, func() error { return t.w.store.Append(try, t.f.key, batch) })
		cancel()
		if err == nil || errors.Is(err, errHangs) || t.attempts >= o.Attempts || ctx.Err() != nil ||
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

// call calls the store. A call that has not returned some time after its
// context has ended keeps the transcript: see waitForStuck.
func (t *turn) call(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v", r)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(closeGrace):
	}
	stuck := make(chan struct{})
	t.f.stuck = stuck
	go func() {
		<-done
		close(stuck)
	}()
	return fmt.Errorf("%w: %w", errHangs, context.Cause(ctx))
}

// waitForStuck waits for a call that was given up, at the last look only: other
// transcripts must not wait for it.
func (t *turn) waitForStuck(ctx context.Context) error {
	if t.f.stuck == nil {
		return nil
	}
	limit := time.Duration(0)
	if t.last {
		limit = t.w.opts.CallTimeout
	}
	select {
	case <-t.f.stuck:
		t.f.stuck = nil
		return nil
	case <-ctx.Done():
	case <-time.After(limit):
	}
	return errWaits
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
