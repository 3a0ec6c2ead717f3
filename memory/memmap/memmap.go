// Package memmap keeps the files of the memory tool in the memory of the
// process, for tests and for agents that need to remember nothing for longer
// than that. It is the contract of [memory.Store] in its simplest form.
package memmap

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore/memory"
)

// Store holds the files of one scope. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	scope string
	now   func() time.Time

	mu    sync.Mutex
	files map[string]file
	last  uint64 // version given last
}

type file struct {
	data    string
	version string
	used    time.Time
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

// New returns an empty store, which shares nothing with any other. The scope
// says whose memory it is, in errors too; an empty one is an error.
func New(scope string) (*Store, error) {
	if err := memory.CheckScope(scope); err != nil {
		return nil, &memory.OpError{Package: "memmap", Op: "new", Scope: scope, Err: err}
	}
	return &Store{scope: scope, now: time.Now, files: map[string]file{}}, nil
}

// do runs an operation under the lock. A failed check, or a context that is
// done, ends it before.
func (s *Store) do(ctx context.Context, op, path string, invalid error, f func() error) error {
	err := invalid
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		err = f()
	}
	if err != nil {
		return &memory.OpError{Package: "memmap", Op: op, Scope: s.scope, Path: path, Err: err}
	}
	return nil
}

// List returns the files at path or below it.
func (s *Store) List(ctx context.Context, path string) (list []memory.FileInfo, err error) {
	err = s.do(ctx, "list", path, memory.CheckPath(path), func() error {
		for _, p := range s.at(path) {
			f := s.files[p]
			list = append(list, memory.FileInfo{Path: p, Size: int64(len(f.data)), Used: f.used})
		}
		return nil
	})
	return list, err
}

// Read returns a file.
func (s *Store) Read(ctx context.Context, path string, max int64) (got memory.File, err error) {
	err = s.do(ctx, "read", path, memory.CheckPath(path), func() error {
		f, ok := s.files[path]
		switch {
		case !ok:
			return memory.ErrNotFound
		case max > 0 && int64(len(f.data)) > max:
			return memory.ErrTooLarge
		}
		if now := s.now(); now.Sub(f.used) > memory.UseInterval {
			f.used = now
			s.files[path] = f
		}
		got = memory.File{Data: []byte(f.data), Version: f.version}
		return nil
	})
	return got, err
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	return s.do(ctx, "write", path, memory.CheckWrite(path), func() error {
		old, exists := s.files[path]
		addFiles := 0
		switch {
		case ifVersion != "" && (!exists || old.version != ifVersion):
			return memory.ErrConflict
		case ifVersion == "":
			if err := s.free(path); err != nil {
				return err
			}
			addFiles = 1
		}
		if err := limits.Check(len(s.files), s.bytes(), addFiles, int64(len(data)-len(old.data))); err != nil {
			return err
		}
		s.last++
		s.files[path] = file{data: string(data), version: strconv.FormatUint(s.last, 10), used: s.now()}
		return nil
	})
}

// Delete removes a file, or a directory with all in it.
func (s *Store) Delete(ctx context.Context, path string) error {
	return s.do(ctx, "delete", path, memory.CheckDelete(path), func() error {
		paths := s.at(path)
		if len(paths) == 0 {
			return memory.ErrNotFound
		}
		for _, p := range paths {
			delete(s.files, p)
		}
		return nil
	})
}

// Rename moves a file, or a directory with all in it.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	return s.do(ctx, "rename", from, memory.CheckRename(from, to), func() error {
		paths := s.at(from)
		if len(paths) == 0 {
			return memory.ErrNotFound
		}
		if err := s.free(to); err != nil {
			return err
		}
		for _, p := range paths {
			s.files[to+strings.TrimPrefix(p, from)] = s.files[p]
			delete(s.files, p)
		}
		return nil
	})
}

// Expire deletes the files that were last used before that time.
func (s *Store) Expire(ctx context.Context, before time.Time) (gone []string, err error) {
	err = s.do(ctx, "expire", "", nil, func() error {
		for _, p := range s.at(memory.Root) {
			if s.files[p].used.Before(before) {
				delete(s.files, p)
				gone = append(gone, p)
			}
		}
		return nil
	})
	return gone, err
}

// at returns, sorted, the paths of the files at a path or below it.
func (s *Store) at(path string) []string {
	var paths []string
	for p := range maps.Keys(s.files) {
		if p == path || memory.Below(p, path) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// free fails unless a new file or directory can have this path.
func (s *Store) free(path string) error {
	for _, dir := range memory.Parents(path) {
		if _, ok := s.files[dir]; ok {
			return memory.ErrNotDirectory
		}
	}
	if len(s.at(path)) > 0 {
		return memory.ErrExists
	}
	return nil
}

func (s *Store) bytes() (n int64) {
	for _, f := range s.files {
		n += int64(len(f.data))
	}
	return n
}
