package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
)

// ReplayOptions are the settings of [Replay]. The zero value and nil are fine.
type ReplayOptions struct {
	// CallTimeout limits one append, and where a transcript is read the time
	// without a further entry. 0 means [DefaultCallTimeout].
	CallTimeout time.Duration
	// OnError is told of entries that the store refuses; the others of their
	// batch are stored.
	OnError func(*Error)
	// OnKey, if not nil, is told after each key what was done.
	OnKey func(ReplayKey)
	// Accept, if not nil, is asked for each key before the store is called for
	// it. A key that it refuses keeps its files, and its error, which wraps
	// [ErrNotAccepted], is among those that Replay returns. The agents whose
	// frames were spilled could have named any key below their projects
	// directory.
	Accept func(key sessionstore.Key) error
	// DryRun looks and counts, and changes nothing.
	DryRun bool
}

// ReplayKey is what [Replay] did for one key.
type ReplayKey struct {
	Key     sessionstore.Key
	Batches int // delivered, those included that were stored already
	Entries int // of the batches that were appended
	Already int // entries of the batches that the store held already
	Left    int // batches still in files
	Missing int // files that lack between others; see [ErrBatchMissing]
	Err     error
}

// ReplayReport sums up what [Replay] did.
type ReplayReport struct {
	Keys    int
	Batches int
	Entries int
	Already int
	Left    int
	Missing int
}

// ErrBusy is wrapped when another process or mirror is delivering the files of
// a key, or a call of the store that was given up there has not returned.
var ErrBusy = errors.New("the files are being delivered elsewhere")

// ErrNotAccepted is wrapped where ReplayOptions.Accept has refused a key.
var ErrNotAccepted = errors.New("not accepted")

// Replay delivers the batches that mirrors have left in a directory of
// Options.Spill, in their order, and removes each file once its batch is
// stored. A batch that the store holds already, because it had landed although
// its append failed or because an earlier Replay was interrupted, is not stored
// again. A missing directory is an empty one.
//
// A key whose batches cannot be delivered keeps its files and does not stop the
// others; the error joins those of all keys. A damaged file is named in it,
// wrapped with sessionstore.ErrCorrupt. The files before it are delivered, and
// those behind it wait: mend it, or move it away and run Replay again. A file
// that is missing between others is an error that wraps [ErrBatchMissing], and
// the others are delivered.
//
// A call of the store that does not return some seconds after its context has
// ended is left behind, and nobody delivers files of its key until it returns.
//
// How much is stored is found by comparing with the end of the transcript, and
// by uuids anywhere in it. Where that leaves a doubt a batch is appended: it can
// be stored twice if it has no uuid, and another writer has followed it with
// entries of its own, or equal entries came before it and no entry with a uuid
// that the same mirror had stored.
func Replay(ctx context.Context, dir string, store sessionstore.SessionStore, opts *ReplayOptions) (ReplayReport, error) {
	var o ReplayOptions
	if opts != nil {
		o = *opts
	}
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	var report ReplayReport
	dirs, err := os.ReadDir(dir)
	if err := ignoreMissing(err); err != nil {
		return report, fmt.Errorf("mirror: replay: %w", err)
	}
	var errs []error
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		done := replayDir(ctx, filepath.Join(dir, d.Name()), store, o)
		if done.Err != nil {
			errs = append(errs, done.Err)
		}
		if done.Key == (sessionstore.Key{}) && done.Err == nil {
			continue // no files
		}
		report.add(done)
		if o.OnKey != nil {
			o.OnKey(done)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return report, fmt.Errorf("mirror: replay: %w", err)
	}
	return report, nil
}

func (r *ReplayReport) add(done ReplayKey) {
	r.Keys++
	r.Batches += done.Batches
	r.Entries += done.Entries
	r.Already += done.Already
	r.Left += done.Left
	r.Missing += done.Missing
}

func replayDir(ctx context.Context, dir string, store sessionstore.SessionStore, o ReplayOptions) ReplayKey {
	r := replayer{store: store, dir: dir, dryRun: o.DryRun, accept: o.Accept}
	r.call = func(_ string, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, o.CallTimeout)
		defer cancel()
		return r.wait(ctx, func() error { return f(ctx) })
	}
	r.reading = func(f func(context.Context, func()) error) error {
		ctx, progress, cancel := withProgress(ctx, o.CallTimeout)
		defer cancel()
		return r.wait(ctx, func() error { return reason(ctx, f(ctx, progress)) })
	}
	r.refused = func(e sessionstore.Entry, err error) {
		if o.OnError != nil {
			o.OnError(&Error{Key: r.key, Entries: []sessionstore.Entry{e}, Attempts: 1, Err: err})
		}
	}
	err := r.run(ctx)
	for _, f := range r.gone {
		err = errors.Join(err, fmt.Errorf("%w: %s", ErrBatchMissing, f.name))
	}
	r.report.Missing = len(r.gone)
	if err != nil {
		at := dir
		if r.key != (sessionstore.Key{}) {
			at = r.key.String()
		}
		err = fmt.Errorf("%s: %w", at, err)
	}
	r.report.Key, r.report.Err = r.key, err
	return r.report
}

// replayer delivers the files of one key.
type replayer struct {
	store  sessionstore.SessionStore
	dir    string
	key    sessionstore.Key // empty: as the files say
	dryRun bool
	// tried is the file whose batch this process has appended to this store
	// handle last, and failed. The handle knows it again and stores it once.
	tried   string
	triedAs *attempt.Batch // the identity that it had
	landed  string         // the file whose batch is known to be stored
	// call calls the store. File keeps the batch that is appended, if it is a
	// whole one. Reading does so for the entries of a transcript.
	call    func(file string, f func(context.Context) error) error
	reading func(func(ctx context.Context, progress func()) error) error
	refused func(sessionstore.Entry, error)
	accept  func(sessionstore.Key) error // nil: all keys
	settled func(keptFile)               // if not nil, told of kept files that are delivered

	kept    []keptFile      // files that must be there, or have been delivered elsewhere
	missing map[string]bool // files that are known to be missing
	gone    []keptFile      // files that were found to be missing
	lock    *keyLock
	report  ReplayKey
}

func (r *replayer) run(ctx context.Context) error {
	if len(r.kept) > 0 { // where all are gone there must be something to lock
		if err := os.MkdirAll(r.dir, dirMode); err != nil {
			return err
		}
	} else if _, err := os.Stat(r.dir); err != nil {
		return ignoreMissing(err)
	}
	var err error
	if r.lock, err = lockKey(r.dir); err != nil {
		return ignoreMissing(err)
	}
	defer r.lock.release()
	if !r.dryRun {
		removeTemps(r.dir)
	}
	for { // a mirror may add files meanwhile
		files, err := spillFiles(r.dir)
		if err == nil {
			err = r.findMissing(files)
		}
		if err != nil {
			return err
		}
		if len(files) == 0 {
			if !r.dryRun {
				_ = os.Remove(r.dir) // fails if a mirror is writing to it
			}
			return nil
		}
		if err := r.deliver(ctx, files); err != nil || r.dryRun {
			return err
		}
	}
}

// wait calls the store. One that does not return some time after the context has
// ended is left behind; it keeps the lock of the files.
func (r *replayer) wait(ctx context.Context, f func() error) error {
	done := begin(f)
	err, returned := await(ctx, done, hangGrace)
	if returned {
		return err
	}
	lock := r.lock
	lock.holders.Add(1)
	go func() {
		<-done
		lock.release()
	}()
	return fmt.Errorf("%w: %w", errHangs, context.Cause(ctx))
}

// findMissing notes files that are gone. One that lies between others was not
// delivered; one before all others may have been, by another process, and then
// the transcript holds its end.
func (r *replayer) findMissing(files []string) error {
	for _, name := range gaps(files) {
		if !r.missing[name] {
			f := keptFile{name: name}
			if i := slices.IndexFunc(r.kept, func(k keptFile) bool { return k.name == name }); i >= 0 {
				f = r.kept[i]
			}
			r.miss(f)
		}
	}
	var before []keptFile
	for _, k := range r.kept {
		if !slices.Contains(files, k.name) {
			before = append(before, k)
		}
	}
	return r.findBefore(before)
}

// findBefore looks whether the transcript holds what was in files.
func (r *replayer) findBefore(before []keptFile) error {
	if len(before) == 0 {
		return nil
	}
	matchers := make([]*matcher, len(before))
	for i, k := range before {
		matchers[i] = newMatcher(k.tail, nil)
	}
	err := r.stream(func(e sessionstore.Entry) {
		if e.Type() != sessionstore.MetadataType {
			id := identify(e)
			for _, m := range matchers {
				m.next(id)
			}
		}
	})
	if err != nil {
		return err
	}
	for i, k := range before {
		if matchers[i].foundAnchor() {
			r.settle(k.name)
		} else {
			r.miss(k)
		}
	}
	return nil
}

func (r *replayer) miss(f keptFile) {
	if r.missing == nil {
		r.missing = make(map[string]bool)
	}
	r.missing[f.name] = true
	r.gone = append(r.gone, f)
	r.forget(f.name)
}

// settle forgets a file whose batch is stored.
func (r *replayer) settle(name string) {
	i := slices.IndexFunc(r.kept, func(k keptFile) bool { return k.name == name })
	if i >= 0 && r.settled != nil {
		r.settled(r.kept[i])
	}
	r.forget(name)
}

func (r *replayer) forget(name string) {
	r.kept = slices.DeleteFunc(r.kept, func(k keptFile) bool { return k.name == name })
}

// deliver appends the batches that the store does not hold.
func (r *replayer) deliver(ctx context.Context, files []string) error {
	r.report.Left = len(files)
	batches, anchor, damaged := r.identities(files)
	if len(batches) == 0 {
		return damaged
	}
	if r.accept != nil {
		if err := r.accept(r.key); err != nil {
			return errors.Join(damaged, fmt.Errorf("%w: %w", ErrNotAccepted, err))
		}
	}
	landed, metadata, err := r.compare(batches, anchor)
	if err != nil {
		return err
	}
	for i, name := range files[:len(batches)] {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		batch, err := r.read(name)
		if err != nil {
			return err
		}
		already := name == r.landed || name != r.tried &&
			(i < landed || len(batches[i]) == 0 && onlyMetadata(batch) && batch[len(batch)-1].Equal(metadata))
		if already {
			r.report.Already += len(batch)
		} else if err := r.appendFile(name, batch); err != nil {
			return err
		}
		if err := r.delivered(name); err != nil {
			return err
		}
		r.report.Batches++
		r.report.Left--
	}
	if r.dryRun {
		r.report.Left = len(files)
	}
	return damaged
}

// delivered removes the file of a batch that is stored.
func (r *replayer) delivered(name string) error {
	if r.dryRun {
		return nil
	}
	if r.tried == name {
		r.tried = ""
	}
	if err := os.Remove(name); err != nil {
		r.landed = name
		return err
	}
	if r.landed == name {
		r.landed = ""
	}
	r.settle(name)
	return nil
}

func onlyMetadata(batch []sessionstore.Entry) bool {
	for _, e := range batch {
		if e.Type() != sessionstore.MetadataType {
			return false
		}
	}
	return len(batch) > 0
}

// identities reads what is in the files, without metadata entries. With an
// error it returns the files before the one that cannot be read.
func (r *replayer) identities(files []string) (batches [][]identity, anchor []identity, err error) {
	for i, name := range files {
		f, err := openSpill(name)
		if err != nil {
			return batches, anchor, err
		}
		key := sessionstore.Key(f.header.Key)
		if r.key == (sessionstore.Key{}) {
			if err := key.Validate(); err != nil {
				f.f.Close()
				return nil, nil, fmt.Errorf("%s: %w", name, corrupt(err))
			}
			r.key = key
		}
		ids := []identity{}
		for err == nil {
			var e sessionstore.Entry
			if e, err = f.next(); err == nil && e.Type() != sessionstore.MetadataType {
				ids = append(ids, identify(e))
			}
		}
		f.f.Close()
		if err == io.EOF && key != r.key {
			err = corrupt(fmt.Errorf("holds a batch of %v", key))
		}
		if err != io.EOF {
			return batches, anchor, fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			anchor = f.anchor
		}
		batches = append(batches, ids)
	}
	return batches, anchor, nil
}

// compare finds out how many batches the store holds, and what its last
// metadata entry is.
func (r *replayer) compare(batches [][]identity, anchor []identity) (landed int, metadata sessionstore.Entry, err error) {
	anchored, plain := newMatcher(anchor, batches), newMatcher(nil, batches)
	err = r.stream(func(e sessionstore.Entry) {
		if e.Type() == sessionstore.MetadataType {
			metadata = e
			return
		}
		id := identify(e)
		anchored.next(id)
		plain.next(id)
	})
	if err != nil {
		return 0, nil, err // the call may still be under way
	}
	if len(anchor) > 0 && anchored.foundAnchor() {
		return anchored.landed(), metadata, nil
	}
	return plain.landed(), metadata, nil
}

// stream reads what the store holds.
func (r *replayer) stream(each func(sessionstore.Entry)) error {
	return r.reading(func(ctx context.Context, progress func()) error {
		for e, err := range sessionstore.Stream(ctx, r.store, r.key) {
			if err != nil {
				return err
			}
			progress()
			each(e)
		}
		return nil
	})
}

func (r *replayer) read(name string) ([]sessionstore.Entry, error) {
	f, err := openSpill(name)
	if err != nil {
		return nil, err
	}
	defer f.f.Close()
	batch, err := f.all()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return batch, nil
}

// appendFile appends the batch of a file, again if it was the last to fail.
func (r *replayer) appendFile(name string, batch []sessionstore.Entry) error {
	n, as := 2, r.triedAs
	if name != r.tried || as == nil {
		n, as = 1, new(attempt.Batch)
	}
	err := r.append(name, batch, func(ctx context.Context) context.Context { return asTry(ctx, as, n) })
	if err != nil {
		r.tried, r.triedAs = name, as
	}
	return err
}

// append stores a batch. Entries that the store refuses are reported, and the
// others stored. Name is the file of a whole batch.
func (r *replayer) append(name string, batch []sessionstore.Entry, as func(context.Context) context.Context) error {
	if r.dryRun {
		r.report.Entries += len(batch)
		return nil
	}
	err := r.call(name, func(ctx context.Context) error {
		return r.store.Append(as(ctx), r.key, batch)
	})
	switch {
	case err == nil:
		r.report.Entries += len(batch)
		return nil
	case !errors.Is(err, sessionstore.ErrInvalidEntry):
		return err
	case len(batch) == 1:
		r.refused(batch[0], err)
		return nil
	}
	if err := r.append("", batch[:len(batch)/2], as); err != nil {
		return err
	}
	return r.append("", batch[len(batch)/2:], as)
}
