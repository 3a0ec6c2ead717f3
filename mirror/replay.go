package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

// ReplayOptions are the settings of [Replay]. The zero value and nil are fine.
type ReplayOptions struct {
	// CallTimeout limits one append, and the reading of one transcript. 0 means
	// [DefaultCallTimeout].
	CallTimeout time.Duration
	// OnError is told of entries that the store refuses; the others of their
	// batch are stored.
	OnError func(*Error)
	// OnKey, if not nil, is told after each key what was done.
	OnKey func(ReplayKey)
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
	Err     error
}

// ReplayReport sums up what [Replay] did.
type ReplayReport struct {
	Keys    int
	Batches int
	Entries int
	Already int
	Left    int
}

// ErrBusy is wrapped when another process or mirror is delivering the files of
// a key.
var ErrBusy = errors.New("the files are being delivered elsewhere")

// Replay delivers the batches that mirrors have left in a directory of
// Options.Spill, in their order, and removes each file once its batch is
// stored. A batch that the store holds already, because it had landed although
// its append failed or because an earlier Replay was interrupted, is not stored
// again. A missing directory is an empty one.
//
// A key whose batches cannot be delivered keeps its files and does not stop the
// others; the error joins those of all keys.
//
// How much is stored is found by comparing with the end of the transcript, and
// by uuids anywhere in it. Only a batch without any uuid, which another writer
// has followed with entries of its own, can be stored twice.
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
		report.Keys++
		report.Batches += done.Batches
		report.Entries += done.Entries
		report.Already += done.Already
		report.Left += done.Left
		if o.OnKey != nil {
			o.OnKey(done)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return report, fmt.Errorf("mirror: replay: %w", err)
	}
	return report, nil
}

func replayDir(ctx context.Context, dir string, store sessionstore.SessionStore, o ReplayOptions) ReplayKey {
	r := replayer{
		store: store, dir: dir, dryRun: o.DryRun,
		call: func(f func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, o.CallTimeout)
			defer cancel()
			return f(ctx)
		},
	}
	r.refused = func(e sessionstore.Entry, err error) {
		if o.OnError != nil {
			o.OnError(&Error{Key: r.key, Entries: []sessionstore.Entry{e}, Attempts: 1, Err: err})
		}
	}
	err := r.run(ctx)
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
	// last, and failed. The store recognises it when it comes again, and must
	// be given it again: otherwise the next batch could be taken for it.
	tried   string
	call    func(func(context.Context) error) error // calls the store
	refused func(sessionstore.Entry, error)

	report ReplayKey
}

// replaying are the directories that this process delivers from.
var replaying sync.Map

func (r *replayer) run(ctx context.Context) error {
	if _, err := os.Stat(r.dir); err != nil {
		return ignoreMissing(err)
	}
	abs, err := filepath.Abs(r.dir)
	if err != nil {
		return err
	}
	if _, busy := replaying.LoadOrStore(abs, true); busy {
		return ErrBusy
	}
	defer replaying.Delete(abs)
	lock, busy, err := lockDir(r.dir)
	if busy {
		return ErrBusy
	}
	if err != nil {
		return ignoreMissing(err)
	}
	defer lock.Close()
	for { // a mirror may add files meanwhile
		files, err := spillFiles(r.dir)
		if err != nil || len(files) == 0 {
			return errors.Join(err, r.removeDir())
		}
		if err := r.deliver(ctx, files); err != nil || r.dryRun {
			return err
		}
	}
}

// removeDir removes the empty directory of a key, and what was left half
// written in it. A mirror that writes to it at this moment keeps it.
func (r *replayer) removeDir() error {
	if r.dryRun {
		return nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(r.dir, e.Name()))
		}
	}
	_ = os.Remove(r.dir) // fails if anything is in it
	return nil
}

// deliver appends the batches that the store does not hold.
func (r *replayer) deliver(ctx context.Context, files []string) error {
	r.report.Left = len(files)
	batches, anchor, err := r.identities(files)
	if err != nil {
		return err
	}
	landed, metadata, err := r.compare(batches, anchor)
	if err != nil {
		return err
	}
	for i, name := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		batch, err := r.read(name)
		if err != nil {
			return err
		}
		already := name != r.tried && (i < landed || len(batches[i]) == 0 && onlyMetadata(batch) && batch[len(batch)-1].Equal(metadata))
		if already {
			r.report.Already += len(batch)
		} else if err := r.append(batch); err != nil {
			r.tried = name
			return err
		}
		if !r.dryRun {
			if err := os.Remove(name); err != nil {
				return err
			}
			if name == r.tried {
				r.tried = ""
			}
		}
		r.report.Batches++
		r.report.Left--
	}
	if r.dryRun {
		r.report.Left = len(files)
	}
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

// identities reads what is in the files, without metadata entries.
func (r *replayer) identities(files []string) (batches [][]identity, anchor []identity, err error) {
	for i, name := range files {
		f, err := openSpill(name)
		if err != nil {
			return nil, nil, err
		}
		key := sessionstore.Key(f.header.Key)
		if r.key == (sessionstore.Key{}) {
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
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			anchor = f.anchor
		}
		batches = append(batches, ids)
	}
	return batches, anchor, r.key.Validate()
}

// compare finds out how many batches the store holds, and what its last
// metadata entry is.
func (r *replayer) compare(batches [][]identity, anchor []identity) (landed int, metadata sessionstore.Entry, err error) {
	anchored, plain := newMatcher(anchor, batches), newMatcher(nil, batches)
	err = r.call(func(ctx context.Context) error {
		for e, err := range sessionstore.Stream(ctx, r.store, r.key) {
			if err != nil {
				return err
			}
			if e.Type() == sessionstore.MetadataType {
				metadata = e
				continue
			}
			id := identify(e)
			anchored.next(id)
			plain.next(id)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err // the call may still be under way
	}
	if len(anchor) > 0 && anchored.foundAnchor() {
		return anchored.landed(), metadata, nil
	}
	return plain.landed(), metadata, nil
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

// append stores a batch. Entries that the store refuses are reported, and the
// others stored.
func (r *replayer) append(batch []sessionstore.Entry) error {
	if r.dryRun {
		r.report.Entries += len(batch)
		return nil
	}
	err := r.call(func(ctx context.Context) error { return r.store.Append(ctx, r.key, batch) })
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
	if err := r.append(batch[:len(batch)/2]); err != nil {
		return err
	}
	return r.append(batch[len(batch)/2:])
}
