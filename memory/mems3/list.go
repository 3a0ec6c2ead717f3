package mems3

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// listed is a file in a list.
type listed struct {
	size     int64
	etag     string
	modified time.Time
}

// inventory is what is in a scope.
type inventory struct {
	files     map[string]listed
	hasIntent bool
	hasUsed   bool
}

// list reads the names of all objects of the scope.
func (s *Store) list(ctx context.Context) (inventory, error) {
	all := inventory{files: map[string]listed{}}
	err := s3util.List(ctx, s.client, s.bucket, s.base, func(rest string, o types.Object) {
		switch rest {
		case intentName:
			all.hasIntent = true
		case usedName:
			all.hasUsed = true
		}
		below, err := keyenc.DecodePath(strings.Replace(rest, cut, "", 1))
		path := memory.Root + "/" + below
		if err == nil && s.name(path) == s.base+rest && memory.CheckPath(path) == nil {
			all.files[path] = listed{aws.ToInt64(o.Size), bare(o.ETag), aws.ToTime(o.LastModified)}
		}
	}, nil)
	return all, err
}

// settled is list once nothing is half done.
func (s *Store) settled(ctx context.Context) (inventory, error) {
	for {
		all, err := s.list(ctx)
		if err != nil {
			return all, err
		}
		found := map[string]object{}
		if !all.hasIntent {
			found, err = s.marked(ctx, all, all.at(memory.Root))
			if err != nil || len(found) == 0 {
				return all, err
			}
		}
		in, err := s.getIntent(ctx)
		switch {
		case err == nil:
			err = s.complete(ctx, in)
		case !errors.Is(err, s3util.ErrGone):
		case all.hasIntent: // somebody has completed it
			err = nil
		default:
			if err = nil; !s.healAll(ctx, all, found) {
				return all, nil
			}
		}
		if err != nil {
			return all, err
		}
	}
}

func (v inventory) bytes() (n int64) {
	for _, f := range v.files {
		n += f.size
	}
	return n
}

// at returns, sorted, the paths of the files at a path or below it.
func (v inventory) at(path string) []string {
	var paths []string
	for p := range v.files {
		if p == path || memory.Below(p, path) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// free fails unless a new file or directory can have this path.
func (v inventory) free(path string) error {
	for _, dir := range memory.Parents(path) {
		if _, ok := v.files[dir]; ok {
			return memory.ErrNotDirectory
		}
	}
	if len(v.at(path)) > 0 {
		return memory.ErrExists
	}
	return nil
}

// List returns the files at path or below it.
func (s *Store) List(ctx context.Context, path string) ([]memory.FileInfo, error) {
	err := cmp.Or(memory.CheckPath(path), ctx.Err())
	var list []memory.FileInfo
	if err == nil {
		list, err = s.listBelow(ctx, path)
	}
	if err != nil {
		return nil, s.wrap("list", path, err)
	}
	return list, nil
}

func (s *Store) listBelow(ctx context.Context, path string) ([]memory.FileInfo, error) {
	all, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	var used used
	if all.hasUsed {
		if used, _, err = s.getUsed(ctx); err != nil {
			return nil, err
		}
	}
	var list []memory.FileInfo
	for _, p := range all.at(path) {
		f := all.files[p]
		list = append(list, memory.FileInfo{Path: p, Size: f.size, Used: used.last(p, f.modified)})
	}
	return list, nil
}

// used says when files were read: milliseconds by path.
type used map[string]int64

func (u used) last(path string, modified time.Time) time.Time {
	if t := time.UnixMilli(u[path]); u[path] != 0 && t.After(modified) {
		return t
	}
	return modified
}

func (s *Store) getUsed(ctx context.Context) (u used, o object, err error) {
	o, err = s.get(ctx, s.base+usedName, 0)
	if errors.Is(err, s3util.ErrGone) {
		return used{}, object{}, nil
	}
	if err != nil {
		return nil, o, err
	}
	if err := json.Unmarshal(o.data, &u); err != nil {
		return nil, o, corrupt(usedName, err)
	}
	return u, o, nil
}

func (s *Store) lastTouch(path string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touched[path]
}

// touchTries is how often others may be noting uses at the same moment.
const touchTries = 5

// touch notes that a file was used, as well as it can: the next read tries
// again, and that it was used is not worth failing for.
func (s *Store) touch(ctx context.Context, path string) {
	now := s.now()
	for range touchTries {
		u, o, err := s.getUsed(ctx)
		if err != nil {
			return
		}
		if now.UnixMilli()-u[path] > memory.UseInterval.Milliseconds() {
			if err = s.putUsed(ctx, u, o, path, now); errors.Is(err, memory.ErrConflict) {
				continue
			}
		}
		if err == nil {
			s.mu.Lock()
			s.touched[path] = now
			s.mu.Unlock()
		}
		return
	}
}

// putUsed also leaves out what is not there any more, or was written since.
func (s *Store) putUsed(ctx context.Context, u used, o object, path string, now time.Time) error {
	if u == nil {
		u = used{}
	}
	if len(u) > 0 {
		all, err := s.list(ctx)
		if err != nil {
			return err
		}
		for p, ms := range u {
			if f, ok := all.files[p]; !ok || f.modified.UnixMilli() > ms {
				delete(u, p)
			}
		}
	}
	u[path] = now.UnixMilli()
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = s.put(ctx, s.base+usedName, data, condition{o.etag}, metadata{ops: []string{rand.Text()}})
	return err
}

// Expire deletes the files that were last used before that time.
func (s *Store) Expire(ctx context.Context, before time.Time) ([]string, error) {
	err := ctx.Err()
	var gone []string
	if err == nil {
		gone, err = s.expire(ctx, before)
	}
	return gone, s.wrap("expire", "", err)
}

func (s *Store) expire(ctx context.Context, before time.Time) (gone []string, err error) {
	all, err := s.settled(ctx)
	if err != nil {
		return nil, err
	}
	u, _, err := s.getUsed(ctx)
	if err != nil {
		return nil, err
	}
	var old []string
	for _, p := range all.at(memory.Root) {
		if u.last(p, all.files[p].modified).Before(before) {
			old = append(old, p)
		}
	}
	// One by one, so that it is known which of them are gone.
	for _, p := range old {
		deleted, err := s.expireFile(ctx, p, before)
		if err != nil {
			return gone, err
		}
		if deleted {
			gone = append(gone, p)
		}
	}
	return gone, nil
}

// expireFile deletes a file unless it was used since the list. It holds the file
// first, without an intent: whoever meets that restores it, so the hold is gone
// then and the delete, which is bound to it, does nothing.
func (s *Store) expireFile(ctx context.Context, path string, before time.Time) (bool, error) {
	name := s.name(path)
	o, err := s.get(ctx, name, 0)
	if errors.Is(err, s3util.ErrGone) {
		return false, nil
	}
	if err != nil || o.mark != (mark{}) || !o.modified.Before(before) {
		return false, err
	}
	op := rand.Text()
	d := metadata{ops: append([]string{op}, o.ops...), intent: o.intent, mark: mark{held, "expire", op}}
	etag, err := s.put(ctx, name, o.data, condition{o.etag}, d)
	if errors.Is(err, memory.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Whoever has read the file before the hold has noted it.
	u, _, err := s.getUsed(ctx)
	if err != nil || !u.last(path, o.modified).Before(before) {
		o.etag = etag
		return false, errors.Join(err, s.restore(ctx, name, o))
	}
	return s.deleteIf(ctx, name, etag)
}
