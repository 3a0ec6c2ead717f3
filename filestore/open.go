package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

var (
	// errNotFile is what a directory or a pipe in the place of a file is.
	errNotFile = errors.New("not a regular file")
	// errLink is what a link is that os.Root does not follow, or that leads
	// nowhere.
	errLink = errors.New("link leads nowhere or out of the store")
	// errGone does not wrap fs.ErrNotExist: it must never pass for a name that
	// is not there.
	errGone = errors.New("the directory of the store has been deleted")
)

// isForeign tells what is no part of the store, and is passed over, from what
// could not be read: names that no key has, what is neither file nor directory,
// and links that lead nowhere or out of the store.
func isForeign(err error) bool {
	return !errors.Is(err, errGone) && !errors.Is(err, fs.ErrClosed) && !isSystemFailure(err)
}

// maxTries is how often a name may be missing when it is opened and there when
// it is looked for, before that is an error. Each time someone must have made
// it in between.
const maxTries = 100

// openRoot never waits: "." is looked up in a directory and in nothing else.
func openRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: not a directory", dir)
	}
	return os.OpenRoot(dir + string(os.PathSeparator) + ".")
}

// openDirFile opens a directory itself, to lock it or to read its names.
func (s *Store) openDirFile(name string) (*os.File, error) {
	return s.root.OpenFile(name, os.O_RDONLY|openNonblock|openDirectory, 0)
}

// openRegular opens a file for reading, and nothing that is no file.
func (s *Store) openRegular(name string) (*os.File, os.FileInfo, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, errNotFile)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// present calls open until it does not miss name or there is no such name, and
// reports whether there is. A link that leads nowhere is an error.
func (s *Store) present(name string, open func() error) (bool, error) {
	for try := 0; ; try++ {
		err := open()
		if !isMissing(err) || try == maxTries {
			return err == nil, err
		}
		s.calls.missed(name)
		if again, err := s.look(name); err != nil || !again {
			return false, err
		}
	}
}

// look finds out why name was missing. Again says that it is there now.
func (s *Store) look(name string) (again bool, err error) {
	for end := range len(name) + 1 {
		if end < len(name) && name[end] != '/' {
			continue
		}
		info, err := s.root.Lstat(name[:end])
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if _, err = s.root.Stat(name[:end]); isMissing(err) {
				err = fmt.Errorf("%s: %w", name[:end], errLink)
			}
		}
		if isMissing(err) {
			return false, s.checkRoot()
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// makeDirs does not make what a link leads to: to readers such a link is an
// error.
func (s *Store) makeDirs(name string) error {
	exists, err := s.look(name)
	if err != nil || exists {
		return err
	}
	return s.root.MkdirAll(name, dirMode)
}

// checkRoot fails if the store's own directory has been deleted. It can still
// be asked for names then, and has none. Not every file system counts the
// links of a directory, but a deleted one has no list of names.
func (s *Store) checkRoot() error {
	info, err := s.root.Stat(".")
	if isMissing(err) || err == nil && isUnlinked(info) {
		return errGone
	}
	if err != nil {
		return err
	}
	f, err := s.openDirFile(".")
	if err != nil {
		return nil // it may be searched though it may not be listed
	}
	defer f.Close()
	if _, err := f.Readdirnames(1); isMissing(err) {
		return errGone
	}
	return nil
}

// failures keeps the first of many errors. One bad disk must not make an error
// of a thousand lines.
type failures struct {
	first error
	more  int
}

func (f *failures) add(err error) {
	if f.first == nil {
		f.first = err
	} else {
		f.more++
	}
}

func (f *failures) err() error {
	if f.more == 0 {
		return f.first
	}
	return fmt.Errorf("%w (the first of %d errors)", f.first, f.more+1)
}

// reader reads a file until the context ends. So lines that are passed over
// and lines of many megabytes do not delay a cancellation.
type reader struct {
	ctx  context.Context
	file *os.File
}

func (r reader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.file.ReadAt(p, off)
}
