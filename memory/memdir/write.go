package memdir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore/internal/osdir"
	"github.com/sessionstore/sessionstore/memory"
)

// locked runs an operation that writes, with all others kept away.
func (s *Store) locked(ctx context.Context, op, path string, invalid error, f func() error) error {
	err := begin(ctx, invalid)
	if err == nil && s.readOnly {
		err = memory.NothingDone(fmt.Errorf("the scope is open for reading only: %w", fs.ErrPermission))
	}
	if err == nil {
		err = s.alone(ctx, f)
	}
	return s.wrap(op, path, err)
}

func (s *Store) alone(ctx context.Context, f func() error) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return memory.NothingDone(ctx.Err())
	}
	dir, err := s.root.Open(".")
	if err != nil {
		return memory.NothingDone(err)
	}
	defer dir.Close()
	if err := osdir.Lock(ctx, dir, true); err != nil {
		return memory.NothingDone(err)
	}
	if !s.swept.Swap(true) {
		s.sweep()
	}
	return f()
}

// sweep removes what others have left behind when they died. They held the lock
// while they made it, so nobody is using it.
func (s *Store) sweep() {
	dir, err := s.root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, n := range names {
		if strings.HasPrefix(n, tempPrefix) || strings.HasPrefix(n, trashPrefix) {
			_ = s.root.RemoveAll(n) // the next one tries again
		}
	}
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	return s.locked(ctx, "write", path, memory.CheckWrite(path), func() error {
		if err := s.mayWrite(ctx, path, int64(len(data)), ifVersion, limits); err != nil {
			return memory.NothingDone(err)
		}
		return s.replace(name(path), data)
	})
}

func (s *Store) mayWrite(ctx context.Context, path string, size int64, ifVersion string, limits memory.Limits) error {
	if ifVersion == "" {
		if err := s.free(ctx, path); err != nil {
			return err
		}
		return s.checkLimits(ctx, limits, 1, size)
	}
	old, err := s.read(path, 0)
	if errors.Is(err, memory.ErrNotFound) || err == nil && versionOf(old) != ifVersion {
		return memory.ErrConflict
	}
	if err != nil {
		return err
	}
	return s.checkLimits(ctx, limits, 0, size-int64(len(old)))
}

func (s *Store) checkLimits(ctx context.Context, limits memory.Limits, addFiles int, addBytes int64) error {
	if (limits.Files == 0 || addFiles <= 0) && (limits.Bytes == 0 || addBytes <= 0) {
		return nil
	}
	list, err := s.list(ctx, memory.Root)
	if err != nil {
		return err
	}
	var bytes int64
	for _, f := range list {
		bytes += f.Size
	}
	return limits.Check(len(list), bytes, addFiles, addBytes)
}

// free fails unless a new file or directory can have this path. Directories
// without files are removed on the way.
func (s *Store) free(ctx context.Context, p string) error {
	twin, err := s.twin(p)
	if err != nil || twin != "" {
		return errors.Join(err, twinError(name(p), twin))
	}
	for _, dir := range memory.Parents(p) {
		info, err := s.root.Stat(name(dir))
		if err == nil && !info.IsDir() {
			return memory.ErrNotDirectory
		}
		if err != nil {
			break // a link that leads nowhere shows when the directory is made
		}
	}
	_, err = s.root.Lstat(name(p))
	if err != nil {
		if err = s.missing(err); errors.Is(err, memory.ErrNotFound) {
			return nil
		}
		return err
	}
	list, err := s.list(ctx, p)
	if err != nil {
		return err
	}
	if len(list) == 0 && s.removeEmpty(name(p)) {
		return nil
	}
	return memory.ErrExists
}

// removeEmpty removes a directory in which there is nothing but directories.
func (s *Store) removeEmpty(dir string) bool {
	f, err := openDir(s.root, dir)
	if err != nil {
		return false
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	for _, e := range entries {
		if !e.IsDir() || !s.removeEmpty(dir+"/"+e.Name()) {
			return false
		}
	}
	return err == nil && s.root.Remove(dir) == nil
}

// replace writes a file beside its place and renames it into it.
func (s *Store) replace(name string, data []byte) error {
	temp := tempPrefix + rand.Text()
	err := s.writeTemp(temp, data)
	if err == nil {
		err = s.moveTo(temp, name)
	}
	if err != nil {
		_ = s.root.Remove(temp)
		return memory.NothingDone(err)
	}
	s.step("renamed")
	return s.syncDirs(path.Dir(name))
}

func (s *Store) writeTemp(temp string, data []byte) error {
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	half := len(data) / 2
	_, err = f.Write(data[:half])
	if err == nil {
		s.step("half")
		_, err = f.Write(data[half:])
	}
	if err == nil {
		s.step("written")
		err = f.Sync()
	}
	// The clock of the store, so that all times of use are of one kind.
	now := s.now()
	return errors.Join(err, f.Close(), s.root.Chtimes(temp, now, now))
}

// moveTo renames, and makes the directory that it renames to.
func (s *Store) moveTo(from, to string) error {
	if dir := path.Dir(to); dir != "." {
		if err := s.root.MkdirAll(dir, dirMode); err != nil {
			return err
		}
	}
	s.step("ready")
	return s.root.Rename(from, to)
}

// syncDirs makes names durable, from a directory up to the root.
func (s *Store) syncDirs(dir string) error {
	if runtime.GOOS == "windows" { // where directories cannot be synced
		return nil
	}
	for ; ; dir = path.Dir(dir) {
		f, err := openDir(s.root, dir)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil || dir == "." {
			return err
		}
	}
}

// Delete removes a file, or a directory with all in it.
func (s *Store) Delete(ctx context.Context, path string) error {
	return s.locked(ctx, "delete", path, memory.CheckDelete(path), func() error {
		if err := s.there(ctx, path); err != nil {
			return memory.NothingDone(err)
		}
		return s.remove(name(path))
	})
}

// there fails unless there is a file at a path or below it.
func (s *Store) there(ctx context.Context, path string) error {
	list, err := s.list(ctx, path)
	if err == nil && len(list) == 0 {
		err = memory.ErrNotFound
	}
	return err
}

// remove takes a file or a directory away at once, and what it holds afterwards.
func (s *Store) remove(name string) error {
	trash := trashPrefix + rand.Text()
	if err := s.root.Rename(name, trash); err != nil {
		return memory.NothingDone(err)
	}
	s.step("trashed")
	_ = s.root.RemoveAll(trash) // what stays is swept later
	s.prune(path.Dir(name))
	return s.syncDirs(".")
}

// prune removes directories that have become empty.
func (s *Store) prune(dir string) {
	for ; dir != "." && s.root.Remove(dir) == nil; dir = path.Dir(dir) {
	}
}

// Rename moves a file, or a directory with all in it.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	return s.locked(ctx, "rename", from, memory.CheckRename(from, to), func() error {
		err := s.there(ctx, from)
		if err == nil {
			err = s.free(ctx, to)
		}
		if err == nil {
			err = s.moveTo(name(from), name(to))
		}
		if err != nil {
			return memory.NothingDone(err)
		}
		s.step("renamed")
		if err := s.syncDirs(path.Dir(name(to))); err != nil {
			return err
		}
		s.prune(path.Dir(name(from)))
		return nil
	})
}

// Expire deletes the files that were last used before that time.
func (s *Store) Expire(ctx context.Context, before time.Time) (gone []string, err error) {
	err = s.locked(ctx, "expire", "", nil, func() error {
		list, err := s.list(ctx, memory.Root)
		for _, f := range list {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !f.Used.Before(before) {
				continue
			}
			// A read does not wait for the lock: it may have moved the time since.
			info, statErr := s.root.Stat(name(f.Path))
			if statErr != nil || !info.ModTime().Before(before) {
				continue
			}
			if err = s.remove(name(f.Path)); err == nil {
				gone = append(gone, f.Path)
			}
		}
		return err
	})
	return gone, err
}
