package mems3

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// intent is a rename or delete that has begun: the object "!intent". There is
// one at a time in a scope. Whoever meets it carries it out to its end; all
// steps can be made by several hosts at once, and more than once:
//
//	rename   each file is copied to its new place, if nothing is there, and then
//	         replaced by a tombstone, if it is still what was copied; else it is
//	         copied again. When all are, the tombstones are deleted.
//	delete   files are deleted until a list has none.
//
// At last the intent itself is deleted.
type intent struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Op      string `json:"op"`
	From    string `json:"from"`
	To      string `json:"to,omitempty"`

	etag string
}

const (
	intentVersion = 1
	opRename      = "rename"
	opDelete      = "delete"

	// tombstone begins an object in the place of a file that was renamed. Nobody
	// sees one without its intent.
	tombstone = "sessionstore memory: moved by "

	// tombstoneSize is with the name of the intent and a line feed.
	tombstoneSize = int64(len(tombstone) + 26 + 1)

	// moveTries is how often a file is copied anew because it was edited.
	moveTries = 20
	// sweeps is how often a delete lists anew because files were edited.
	sweeps = 100
)

// errCompleted: somebody else has ended the intent.
var errCompleted = errors.New("completed by another host")

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

// carryOut writes an intent down and completes it. Check is asked before and
// after, since others may be faster.
func (s *Store) carryOut(ctx context.Context, in intent, check func(inventory) error) error {
	in.Version, in.ID = intentVersion, rand.Text()
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	lost := false // an answer, so that others may have carried it out already
	for {
		all, err := s.settled(ctx)
		if err != nil {
			return err
		}
		if err := check(all); err != nil {
			return s.unless(ctx, in, all, lost, err)
		}
		in.etag, err = s.putWatched(ctx, s.base+intentName, data, condition{}, []string{in.ID}, "", &lost)
		if err == nil {
			break
		}
		if !errors.Is(err, memory.ErrConflict) {
			return err
		}
	}
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	if err := check(all); err != nil {
		// If somebody has carried it out by now, there is nothing at from.
		if open := s.open(ctx, in); errors.Is(open, errCompleted) {
			return nil
		}
		if endErr := s.end(ctx, in); endErr != nil {
			return fmt.Errorf("%w (%v)", endErr, err) // others may carry it out
		}
		return s.unless(ctx, in, all, lost, err)
	}
	return s.run(ctx, in)
}

// unless returns why an intent cannot be carried out, unless that may be
// because others have done so, after the answer to writing it down was lost.
func (s *Store) unless(ctx context.Context, in intent, all inventory, lost bool, why error) error {
	if !lost {
		return why
	}
	if in.Op == opRename {
		for _, p := range all.at(in.To) {
			o, err := s.get(ctx, s.name(p), 0)
			if err == nil && o.intent == in.ID {
				return nil
			}
		}
	}
	return fmt.Errorf("an answer of the server was lost, and the files have changed since then, so it is not known whether it was carried out (%v)", why)
}

// complete carries out what somebody has begun.
func (s *Store) complete(ctx context.Context, in intent) error {
	err := s.run(ctx, in)
	if errors.Is(err, memory.ErrExists) {
		return nil // for the one who has begun it
	}
	return err
}

func (s *Store) run(ctx context.Context, in intent) error {
	var err error
	if in.Op == opRename {
		err = s.runRename(ctx, in)
	} else {
		err = s.runDelete(ctx, in)
	}
	if errors.Is(err, errCompleted) {
		return nil
	}
	return err
}

// open fails with errCompleted if the intent has been ended.
func (s *Store) open(ctx context.Context, in intent) error {
	now, err := s.getIntent(ctx)
	if errors.Is(err, s3util.ErrGone) || err == nil && now.ID != in.ID {
		return errCompleted
	}
	return err
}

func (s *Store) end(ctx context.Context, in intent) error {
	_, err := s.deleteIf(ctx, s.base+intentName, in.etag)
	return err
}

func (s *Store) runDelete(ctx context.Context, in intent) error {
	for range sweeps {
		all, err := s.list(ctx)
		if err != nil {
			return err
		}
		paths := all.at(in.From)
		if err := s.open(ctx, in); err != nil {
			return err
		}
		if len(paths) == 0 {
			return s.end(ctx, in)
		}
		objects := make([]s3util.Object, len(paths))
		for i, p := range paths {
			objects[i] = s3util.Object{Key: s.name(p), ETag: all.files[p].etag}
		}
		if err := s.deleter.Delete(ctx, s.client, s.bucket, parallel, objects); err != nil {
			return err
		}
	}
	return fmt.Errorf("files below %s are written all the time", in.From)
}

func (s *Store) runRename(ctx context.Context, in intent) error {
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
	paths := all.at(in.From)
	var mu sync.Mutex
	var errs []error
	var moved []s3util.Object
	taken := false
	s3util.Parallel(len(paths), parallel, func(i int) {
		etag, err := s.move(ctx, in, paths[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, memory.ErrExists):
			taken = true
		case err != nil:
			errs = append(errs, err)
		case etag != "":
			moved = append(moved, s3util.Object{Key: s.name(paths[i]), ETag: etag})
		}
	})
	if len(errs) > 0 {
		return errs[0]
	}
	if err := s.open(ctx, in); err != nil {
		return err
	}
	if err := s.deleter.Delete(ctx, s.client, s.bucket, parallel, moved); err != nil {
		return err
	}
	if err := s.end(ctx, in); err != nil {
		return err
	}
	if taken {
		return memory.ErrExists
	}
	return nil
}

// deleteIf deletes an object if it has this etag, and says whether it has. Not
// every server heeds a condition here, so it looks first.
func (s *Store) deleteIf(ctx context.Context, name, etag string) (bool, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
	if err = s3util.Gone(err); errors.Is(err, s3util.ErrGone) {
		return false, nil
	}
	if err != nil || aws.ToString(out.ETag) != etag {
		return false, err
	}
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &name, IfMatch: &etag})
	if s3util.IsPrecondition(err) || errors.Is(s3util.Gone(err), s3util.ErrGone) {
		return false, nil
	}
	return err == nil, err
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
