package memdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/osdir"
	"github.com/sessionstore/sessionstore/memory"
)

// List returns the files at path or below it.
func (s *Store) List(ctx context.Context, path string) ([]memory.FileInfo, error) {
	err := begin(ctx, memory.CheckPath(path))
	var list []memory.FileInfo
	if err == nil {
		list, err = s.listWhole(ctx, path)
	}
	if err != nil {
		return nil, s.wrap("list", path, err)
	}
	return list, nil
}

// listWhole keeps those who write away, so that no rename is seen halfway.
func (s *Store) listWhole(ctx context.Context, path string) ([]memory.FileInfo, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := osdir.Lock(ctx, dir, false); err != nil {
		return nil, err
	}
	return s.list(ctx, path)
}

func (s *Store) list(ctx context.Context, path string) ([]memory.FileInfo, error) {
	err := s.exactly(path)
	var info os.FileInfo
	if err == nil {
		info, err = s.root.Lstat(name(path))
	}
	if err != nil {
		if err = s.missing(err); errors.Is(err, memory.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	var list []memory.FileInfo
	if info.IsDir() {
		if err := s.walk(ctx, path, &list); err != nil {
			return nil, err
		}
	} else {
		list = s.add(list, path, info)
	}
	slices.SortFunc(list, func(a, b memory.FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// walk adds the files below a directory. What cannot be read is left out: one
// bad entry must not hide the others.
func (s *Store) walk(ctx context.Context, dir string, list *[]memory.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := openDir(s.root, name(dir))
	if err != nil {
		return s.unreadable(dir, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return s.unreadable(dir, err)
	}
	for _, e := range entries {
		elem, err := keyenc.Decode(e.Name())
		path := dir + "/" + elem
		if err != nil || memory.CheckPath(path) != nil {
			continue
		}
		if e.IsDir() {
			if err := s.walk(ctx, path, list); err != nil {
				return err
			}
			continue
		}
		// Not e.Info(), which does not know the directory any more.
		if info, err := s.root.Lstat(name(path)); err == nil {
			*list = s.add(*list, path, info)
		}
	}
	return nil
}

// unreadable passes over a directory below the root, and over nothing else.
func (s *Store) unreadable(dir string, err error) error {
	if dir == memory.Root {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || isNotDirectory(err) {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil // not the system's: it has become a link that leads out
	}
	return err
}

// add adds a regular file, or a link to one within the scope.
func (s *Store) add(list []memory.FileInfo, path string, info os.FileInfo) []memory.FileInfo {
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := s.root.Stat(name(path))
		if err != nil {
			return list
		}
		info = to
	}
	if !info.Mode().IsRegular() {
		return list
	}
	return append(list, memory.FileInfo{Path: path, Size: info.Size(), Used: info.ModTime()})
}
