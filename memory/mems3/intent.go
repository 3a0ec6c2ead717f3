package mems3

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// intent is a rename or delete that has begun: the object "!intent". There is
// one at a time in a scope. Whoever meets it carries it out to its end; all
// steps can be made by several hosts at once, and more than once.
//
//  1. While it is open, each file below From is held, which is a write over it
//     that marks it. For a rename a draft is put into the new place, if nothing
//     is there, and a file made of it. Then what is held is deleted.
//  2. The intent is closed, which is a write over it. Now a list shows all that
//     was marked before: what is unfinished is taken back, or deleted for a
//     delete.
//  3. The intent is deleted.
//
// A host looks whether the intent is open after each mark it has put, and goes
// on only if it is. So what is marked when its intent is gone was marked too
// late, by a host that will not go on with it, and anybody may take it back. All
// other steps have the etag of a marked object as their condition, and so do
// nothing when they come too late.
type intent struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Op      string `json:"op"`
	From    string `json:"from"`
	To      string `json:"to,omitempty"`
	Helped  bool   `json:"helped,omitempty"` // others have begun to carry it out
	Closed  bool   `json:"closed,omitempty"`

	etag string
}

const (
	intentVersion = 1
	opRename      = "rename"
	opDelete      = "delete"

	// moveTries is how often a file is held anew because it was edited.
	moveTries = 20
)

// errClosed: the intent is not open any more.
var errClosed = errors.New("closed by another host")

// getIntent returns the intent of the scope; none is ErrGone.
func (s *Store) getIntent(ctx context.Context) (in intent, err error) {
	o, err := s.get(ctx, s.base+intentName, 0)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(o.data, &in); err != nil {
		return in, corrupt(intentName, err)
	}
	if in.Version != intentVersion || in.Op != opRename && in.Op != opDelete {
		return in, corrupt(intentName, fmt.Errorf("version %d, operation %q, which this version does not know", in.Version, in.Op))
	}
	in.etag = o.etag
	return in, nil
}

// carryOut writes an intent down and completes it. Check is asked before, so
// that nothing is written for a mistake.
func (s *Store) carryOut(ctx context.Context, in intent, check func(inventory) error) error {
	in.Version, in.ID = intentVersion, rand.Text()
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	lost := false // an answer, so that others may have carried it out already
	for {
		all, err := s.settled(ctx)
		if err != nil && !lost {
			return memory.NothingDone(err)
		}
		if err != nil {
			return err
		}
		if err := check(all); err != nil {
			return s.unless(ctx, in, lost, err)
		}
		in.etag, err = s.putWatched(ctx, s.base+intentName, data, condition{}, metadata{ops: []string{in.ID}}, &lost)
		if err == nil {
			break
		}
		if !errors.Is(err, memory.ErrConflict) {
			return surely(err, lost)
		}
	}
	err = s.run(ctx, in)
	if refused(err) {
		return s.unless(ctx, in, lost, err)
	}
	return err
}

// refused says whether an intent was ended without having changed anything.
func refused(err error) bool {
	return errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrExists) || errors.Is(err, memory.ErrNotDirectory)
}

// unless returns why an intent was refused, unless that may be because others
// have carried it out, after the answer to writing it down was lost.
func (s *Store) unless(ctx context.Context, in intent, lost bool, why error) error {
	if !lost {
		return why
	}
	if in.Op == opRename {
		begun := false
		all, err := s.list(ctx)
		if err == nil {
			begun, err = s.begun(ctx, in, all)
		}
		if err != nil {
			return fmt.Errorf("%w (%v)", err, why)
		}
		if begun {
			return nil
		}
	}
	return fmt.Errorf("an answer of the server was lost, and the files have changed since then, so it is not known whether it was carried out (%v)", why)
}

// begun says whether there is a file that a rename has brought.
func (s *Store) begun(ctx context.Context, in intent, all inventory) (bool, error) {
	for _, p := range all.at(in.To) {
		o, err := s.head(ctx, s.name(p))
		if err == nil && (o.mark.intent == in.ID || strings.HasPrefix(o.intent, in.ID+" ")) {
			return true, nil
		}
		if err != nil && !errors.Is(err, s3util.ErrGone) {
			return false, err
		}
	}
	return false, nil
}

// complete carries out what somebody else has begun.
func (s *Store) complete(ctx context.Context, in intent) error {
	err := s.probe(ctx)
	if err == nil && !in.Helped && !in.Closed {
		next := in
		next.Helped = true
		in, err = s.change(ctx, in, next)
	}
	if err == nil {
		err = s.run(ctx, in)
	}
	var taken *takenError
	if errors.Is(err, errClosed) || refused(err) || errors.As(err, &taken) {
		return nil // for the one who has begun it
	}
	return err
}

// change writes over an intent, if it is as it was. Otherwise it returns what it
// is now, or errClosed if it has ended.
func (s *Store) change(ctx context.Context, in, next intent) (intent, error) {
	data, err := json.Marshal(next)
	if err != nil {
		return in, err
	}
	next.etag, err = s.put(ctx, s.base+intentName, data, condition{in.etag}, metadata{ops: []string{rand.Text(), in.ID}})
	if !errors.Is(err, memory.ErrConflict) {
		return next, err
	}
	now, err := s.getIntent(ctx)
	if errors.Is(err, s3util.ErrGone) || err == nil && now.ID != in.ID {
		err = errClosed
	}
	return now, err
}

// takenError: somebody has made files in the new place while the rename ran.
type takenError struct{ files, of int }

func (e *takenError) Error() string {
	return fmt.Sprintf("others have made %d of the %d files in the new place meanwhile; the rest was moved", e.files, e.of)
}

// run carries out an intent to its end, or returns nil if others have.
func (s *Store) run(ctx context.Context, in intent) error {
	var why error
	for helped := in.Helped; !in.Closed; {
		err := s.moveAll(ctx, in)
		var taken *takenError
		switch {
		case refused(err) || errors.As(err, &taken):
			why = err
		case err != nil && !errors.Is(err, errClosed):
			return err
		}
		next := in
		next.Closed = true
		in, err = s.change(ctx, in, next)
		if (errors.Is(err, errClosed) || in.Helped && !helped) && errors.Is(why, memory.ErrNotFound) {
			why = nil // since others have moved the files
		}
		if errors.Is(err, errClosed) {
			return why
		}
		if err != nil {
			return err
		}
	}
	if err := s.clean(ctx, in); err != nil {
		return err
	}
	if _, err := s.deleteIf(ctx, s.base+intentName, in.etag); err != nil {
		return err
	}
	return why
}

// open fails with errClosed unless the intent is open.
func (s *Store) open(ctx context.Context, in intent) error {
	now, err := s.getIntent(ctx)
	if errors.Is(err, s3util.ErrGone) || err == nil && (now.ID != in.ID || now.Closed) {
		return errClosed
	}
	return err
}

// moveAll carries out an open intent for all files. A file that is made while
// it runs counts as made after it.
func (s *Store) moveAll(ctx context.Context, in intent) error {
	all, err := s.list(ctx)
	if err == nil {
		err = s.possible(ctx, in, all)
	}
	if err != nil {
		return err
	}
	paths := all.at(in.From)
	errs := make([]error, len(paths))
	var failed atomic.Bool
	s3util.Parallel(len(paths), parallel, func(i int) {
		if !failed.Load() {
			errs[i] = s.move(ctx, in, paths[i])
			failed.CompareAndSwap(false, errs[i] != nil && !errors.Is(errs[i], memory.ErrExists))
		}
	})
	taken := &takenError{of: len(paths)}
	for i, err := range errs {
		switch {
		case errors.Is(err, memory.ErrExists):
			taken.files++
		case errors.Is(err, memory.ErrConflict):
			return fmt.Errorf("%s is written all the time, so the %s is not finished (%v)", paths[i], in.Op, err)
		case err != nil:
			return err
		}
	}
	switch taken.files {
	case 0:
		return nil
	case taken.of:
		return memory.ErrExists
	}
	return taken
}

// possible looks whether an open intent can be carried out, which others may
// have prevented before it was written down.
func (s *Store) possible(ctx context.Context, in intent, all inventory) error {
	if len(all.at(in.From)) == 0 {
		return memory.ErrNotFound
	}
	if in.Op == opDelete {
		return nil
	}
	taken := all.free(in.To)
	if taken == nil {
		return nil
	}
	begun, err := s.begun(ctx, in, all)
	if begun || err != nil {
		return err
	}
	return taken
}

// clean finishes what is marked by a closed intent.
func (s *Store) clean(ctx context.Context, in intent) error {
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	marked, err := s.marked(ctx, all, all.at(in.From))
	if err != nil {
		return err
	}
	for p, o := range marked {
		if o.mark.kind == held && o.mark.intent == in.ID {
			if err := s.cleanHeld(ctx, in, p, o); err != nil {
				return err
			}
		}
	}
	if in.Op == opDelete {
		return nil
	}
	if marked, err = s.marked(ctx, all, all.at(in.To)); err != nil {
		return err
	}
	for p, o := range marked {
		if o.mark.kind == draft && o.mark.intent == in.ID {
			if _, err := s.deleteIf(ctx, s.name(p), o.etag); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanHeld deletes a held file if it is to be deleted, or has been moved;
// otherwise it stays.
func (s *Store) cleanHeld(ctx context.Context, in intent, path string, o object) error {
	if in.Op == opRename {
		dest := s.name(in.To + strings.TrimPrefix(path, in.From))
		there, err := s.head(ctx, dest)
		for err == nil && there.mark == (mark{draft, in.ID, o.mark.hold}) {
			if _, err = s.deleteIf(ctx, dest, there.etag); err == nil {
				there, err = s.head(ctx, dest)
			}
		}
		if err != nil && !errors.Is(err, s3util.ErrGone) {
			return err
		}
		if err != nil || there.mark != (mark{}) || there.intent != origin(o) {
			return s.restore(ctx, s.name(path), o)
		}
	}
	_, err := s.deleteIf(ctx, s.name(path), o.etag)
	return err
}

// Delete removes a file, or a directory with all in it.
func (s *Store) Delete(ctx context.Context, path string) error {
	err := cmp.Or(memory.CheckDelete(path), ctx.Err())
	if err == nil {
		err = s.probe(ctx)
	}
	if err == nil {
		err = s.carryOut(ctx, intent{Op: opDelete, From: path}, func(all inventory) error {
			if len(all.at(path)) == 0 {
				return memory.ErrNotFound
			}
			return nil
		})
	}
	return s.wrap("delete", path, err)
}

// Rename moves a file, or a directory with all in it.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	err := cmp.Or(memory.CheckRename(from, to), ctx.Err())
	if err == nil {
		err = s.probe(ctx)
	}
	if err == nil {
		err = s.carryOut(ctx, intent{Op: opRename, From: from, To: to}, func(all inventory) error {
			if len(all.at(from)) == 0 {
				return memory.ErrNotFound
			}
			return all.free(to)
		})
	}
	return s.wrap("rename", from, err)
}
