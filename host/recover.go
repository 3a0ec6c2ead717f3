package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// RecoverOptions are the settings of [Recover] and [RecoverDir]. The zero value
// and nil are fine.
type RecoverOptions struct {
	// Spill is the directory of mirror.Options.Spill. What earlier mirrors have
	// left there is delivered first.
	Spill string
	// Accept, if not nil, is asked for each transcript, by its key in the
	// store, before it is read or written there. An error leaves the transcript
	// out, and its directory is kept. The agent that ran in a directory could
	// have written any key there; a host whose tenants must not reach each
	// other's sessions checks here that the key is one of this directory's.
	// For batches in Spill dir is Spill: which agent they come from is not
	// known. Those of a key that is refused stay there.
	Accept func(dir string, key sessionstore.Key) error
	// Watch are the settings for reading the directories: limits, tries and
	// callbacks. Once is always set, and MaxAge does not count: a directory is
	// removed only when all of it is in the store.
	Watch mirror.WatchOptions
}

// RecoverReport sums up what [Recover] did.
type RecoverReport struct {
	Replayed mirror.ReplayReport
	Removed  int   // directories whose sessions are whole in the store now
	InUse    int   // directories of hosts that are alive
	Entries  int64 // appended from directories
}

// Recover brings into the store what a host that was killed has left behind:
// the private directories in its resume.Options.TempDir, and with
// RecoverOptions.Spill the batches that its mirrors had spilled. If those can't
// all be delivered it does no more. Each transcript
// is compared with the store, under the project key that the host had used for
// it, and what is missing is appended. Then the directory is removed.
//
// Call it when a host starts, before it runs an agent. Directories of this user
// that are in use are passed over, on systems with flock(2); elsewhere a
// directory for temporary files must belong to one host. A directory whose
// agent still ends counts as left behind, so that agent must have ended.
//
// A directory that could not be recovered is kept, without credentials and
// settings, and named in the error, which joins those of all directories:
// the store is away, or Accept has refused a key, or there are damaged lines
// (other than a last one that was not finished). A second Recover goes on.
func Recover(ctx context.Context, store sessionstore.SessionStore, tempDir string, opts *RecoverOptions) (report RecoverReport, err error) {
	var o RecoverOptions
	if opts != nil {
		o = *opts
	}
	if tempDir == "" {
		return report, errors.New("host: recover: no directory; name the one that this host gives its agents")
	}
	if report.Replayed, err = replaySpill(ctx, store, o); err != nil {
		return report, err
	}
	dirs, err := resume.Leftovers(ctx, tempDir)
	if errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	errs := []error{err}
	for _, dir := range dirs {
		done, err := recoverDir(ctx, store, dir, o)
		report.Entries += done.Entries
		switch {
		case errors.Is(err, errNothing), err != nil && isGone(dir): // another Recover had it
		case errors.Is(err, resume.ErrInUse):
			report.InUse++
		case err != nil:
			errs = append(errs, err)
		default:
			report.Removed++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return report, fmt.Errorf("host: recover: %w", err)
	}
	return report, nil
}

// RecoverDir is Recover for one private directory, such as the one that a
// [*resume.KeptError] names. A directory in use is an error.
func RecoverDir(ctx context.Context, store sessionstore.SessionStore, dir string, opts *RecoverOptions) (mirror.WatchReport, error) {
	var o RecoverOptions
	if opts != nil {
		o = *opts
	}
	if _, err := replaySpill(ctx, store, o); err != nil {
		return mirror.WatchReport{}, err
	}
	report, err := recoverDir(ctx, store, dir, o)
	if err != nil {
		err = fmt.Errorf("host: recover: %w", err)
	}
	return report, err
}

// replaySpill comes first: what is in order must not come behind what is only
// compared.
func replaySpill(ctx context.Context, store sessionstore.SessionStore, o RecoverOptions) (mirror.ReplayReport, error) {
	if o.Spill == "" {
		return mirror.ReplayReport{}, nil
	}
	opts := &mirror.ReplayOptions{CallTimeout: o.Watch.CallTimeout, OnError: o.Watch.OnError}
	if o.Accept != nil {
		opts.Accept = func(key sessionstore.Key) error { return o.Accept(o.Spill, key) }
	}
	report, err := mirror.Replay(ctx, o.Spill, store, opts)
	if err != nil {
		err = fmt.Errorf("host: recover: %w", err)
	}
	return report, err
}

// errNothing: a directory without a record and without files. Its host was
// killed at once, or is just beginning.
var errNothing = errors.New("there is nothing to recover")

func isGone(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

func recoverDir(ctx context.Context, store sessionstore.SessionStore, dir string, o RecoverOptions) (report mirror.WatchReport, err error) {
	l, err := resume.OpenLeftover(dir)
	if err != nil {
		return report, withoutRecord(dir, err)
	}
	defer l.Close()
	if err := l.Strip(); err != nil { // whatever comes: tokens don't stay
		return report, err
	}
	s := sweep{dir: dir, o: o}
	report, err = mirror.Watch(ctx, l.ProjectsDir(), confined{l.Store(store), s.accept}, s.options())
	if err == nil {
		err = s.verdict()
	}
	if err != nil {
		return report, fmt.Errorf("%s is kept: %w", dir, err)
	}
	return report, l.Remove()
}

// withoutRecord is for a directory that can't be opened, because of cause. If
// it is ours, no tokens stay in it all the same.
func withoutRecord(dir string, cause error) error {
	for _, other := range []error{resume.ErrInUse, resume.ErrNotOurs} {
		if errors.Is(cause, other) {
			return cause
		}
	}
	if isGone(dir) {
		return cause
	}
	if errors.Is(cause, fs.ErrNotExist) && holdsNothing(dir) {
		return errNothing
	}
	removed, err := resume.StripLeftover(dir)
	if removed {
		return nil
	}
	return errors.Join(cause, err)
}

// holdsNothing reports whether there are directories only.
func holdsNothing(dir string) bool {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil
}

// sweep counts what a look at a directory can't bring into the store.
type sweep struct {
	dir              string
	o                RecoverOptions
	damaged, refused int
}

func (s *sweep) accept(key sessionstore.Key) error {
	if s.o.Accept == nil {
		return nil
	}
	return s.o.Accept(s.dir, key)
}

// verdict is an error if there is anything that is only in the directory.
func (s *sweep) verdict() error {
	if s.damaged > 0 || s.refused > 0 {
		return fmt.Errorf("lines or files that are damaged: %d, entries that the store refuses: %d", s.damaged, s.refused)
	}
	return nil
}

func (s *sweep) options() *mirror.WatchOptions {
	w, onSkip, onError := s.o.Watch, s.o.Watch.OnSkip, s.o.Watch.OnError
	w.Once, w.MaxAge = true, 0
	w.OnSkip = func(skip mirror.WatchSkip) {
		if !skip.Unfinished {
			s.damaged++
		}
		if onSkip != nil {
			onSkip(skip)
		}
	}
	w.OnError = func(e *mirror.Error) {
		if errors.Is(e, sessionstore.ErrInvalidEntry) {
			s.refused++
		}
		if onError != nil {
			onError(e)
		}
	}
	return &w
}

// confined is a store of which only some transcripts are to be touched.
type confined struct {
	store  sessionstore.SessionStore
	accept func(sessionstore.Key) error
}

// StoreKey makes it a mirror.Renamer if the store is one.
func (c confined) StoreKey(key sessionstore.Key) sessionstore.Key {
	return storeKey(c.store, key)
}

func storeKey(store sessionstore.SessionStore, key sessionstore.Key) sessionstore.Key {
	if r, ok := store.(mirror.Renamer); ok {
		return r.StoreKey(key)
	}
	return key
}

func (c confined) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	if err := c.accept(key); err != nil {
		return notAccepted(err)
	}
	return c.store.Append(ctx, key, entries)
}

func (c confined) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := c.accept(key); err != nil {
		return nil, notAccepted(err)
	}
	return c.store.Load(ctx, key)
}

func (c confined) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	if err := c.accept(key); err != nil {
		return func(yield func(sessionstore.Entry, error) bool) { yield(nil, notAccepted(err)) }
	}
	return sessionstore.Stream(ctx, c.store, key)
}

func notAccepted(err error) error { return fmt.Errorf("not accepted: %w", err) }
