package memdir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/osdir"
	"github.com/sessionstore/sessionstore/memory"
)

const (
	fileMode = 0o600
	dirMode  = 0o700

	// Names of files for moments. No encoded name begins with a dot.
	tempPrefix  = ".tmp-"
	trashPrefix = ".trash-"
)

// Options of [Open]. The zero value is fine.
type Options struct {
	// ReadOnly opens the scope without ever changing it, the time of use
	// neither. It must exist.
	ReadOnly bool
}

// Store holds the files of one scope. It is safe for concurrent use. Make one
// with [Open].
type Store struct {
	root     *os.Root
	scope    string
	readOnly bool
	folds    bool          // the disk takes names in another case for the same
	busy     chan struct{} // holds one while somebody in this process writes
	swept    atomic.Bool   // leftovers of others have been removed
	now      func() time.Time
	step     func(name string) // tells tests how far a write is
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

// Open opens the files of a scope in the directory dir. What is missing is
// created, unless options say ReadOnly. An empty scope is an error.
func Open(dir, scope string, options *Options) (*Store, error) {
	s := &Store{scope: scope, busy: make(chan struct{}, 1), now: time.Now, step: func(string) {}}
	if options != nil {
		s.readOnly = options.ReadOnly
	}
	err := memory.CheckScope(scope)
	if err == nil {
		err = s.open(dir)
	}
	if err != nil {
		return nil, s.wrap("open", "", err)
	}
	return s, nil
}

func (s *Store) open(dir string) error {
	if !s.readOnly {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return err
		}
	}
	// "." is looked up in a directory and in nothing else, so this never waits.
	top, err := os.OpenRoot(dir + string(filepath.Separator) + ".")
	if err != nil {
		return err
	}
	defer top.Close()
	s.folds = osdir.FoldsCase(top, dir)
	name := keyenc.Encode(s.scope)
	if s.folds {
		if twin, err := twinIn(top, ".", name); err != nil || twin != "" {
			return errors.Join(err, twinError(name, twin))
		}
	}
	if !s.readOnly {
		if err := top.Mkdir(name, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	s.root, err = top.OpenRoot(name)
	return err
}

// Close releases the directory. Operations that follow fail.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &memory.OpError{Package: "memdir", Op: op, Scope: s.scope, Path: path, Err: err}
}

// begin is how every operation starts.
func begin(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	return ctx.Err()
}

// name is where a path lies, relative to the root.
func name(path string) string {
	rest := strings.TrimPrefix(path, memory.Root)
	if rest == "" {
		return "."
	}
	return keyenc.EncodePath(rest[1:])
}

// Read returns a file.
func (s *Store) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	err := begin(ctx, memory.CheckPath(path))
	var data []byte
	if err == nil {
		data, err = s.read(path, max)
	}
	if err != nil {
		return memory.File{}, s.wrap("read", path, err)
	}
	return memory.File{Data: data, Version: versionOf(data)}, nil
}

// versionOf makes the version of the bytes themselves: the lock makes it as good
// as any other, and files that others edit have one too.
func versionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func (s *Store) read(path string, max int64) ([]byte, error) {
	f, info, err := s.openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if max > 0 && info.Size() > max {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", memory.ErrTooLarge, info.Size(), max)
	}
	data := make([]byte, info.Size())
	// It may be a file that somebody is writing to without our care.
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if now := s.now(); !s.readOnly && now.Sub(info.ModTime()) > memory.UseInterval {
		_ = s.root.Chtimes(name(path), now, now) // it may not be ours to touch
	}
	return data[:n], nil
}

// openFile opens a regular file. Anything else in its place is no file.
func (s *Store) openFile(path string) (*os.File, os.FileInfo, error) {
	if err := s.exactly(path); err != nil {
		return nil, nil, err
	}
	f, err := s.root.OpenFile(name(path), os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, s.missing(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = memory.ErrNotFound
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// openDir opens a directory, and never waits when something else is in its
// place: a pipe would not be opened before its other end is.
func openDir(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
}

// missing turns the error for a name that is not there into ErrNotFound. In a
// directory that has been deleted itself no name is there, which is another
// matter.
func (s *Store) missing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !isNotDirectory(err) {
		return err
	}
	f, openErr := s.root.Open(".")
	if openErr != nil {
		return errors.Join(openErr, err)
	}
	defer f.Close()
	if _, listErr := f.Readdirnames(1); listErr != nil && !errors.Is(listErr, io.EOF) {
		return fmt.Errorf("the directory of the scope has been deleted: %w", listErr)
	}
	return memory.ErrNotFound
}

// exactly fails with ErrNotFound when a path leads to files only because the
// disk folds case.
func (s *Store) exactly(path string) error {
	twin, err := s.twin(path)
	if err == nil && twin != "" {
		err = memory.ErrNotFound
	}
	return err
}

// twin returns a name on the way to a path that is there in another case.
func (s *Store) twin(path string) (string, error) {
	if !s.folds {
		return "", nil
	}
	dir := "."
	for elem := range strings.SplitSeq(name(path), "/") {
		twin, err := twinIn(s.root, dir, elem)
		if err != nil || twin != "" {
			return twin, err
		}
		dir += "/" + elem
	}
	return "", nil
}

func twinIn(root *os.Root, dir, elem string) (string, error) {
	f, err := openDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) || isNotDirectory(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil && !isNotDirectory(err) {
		return "", err
	}
	twin := ""
	for _, n := range names {
		if n == elem {
			return "", nil
		}
		if strings.EqualFold(n, elem) {
			twin = n
		}
	}
	return twin, nil
}

func twinError(name, twin string) error {
	if twin == "" {
		return nil
	}
	return fmt.Errorf("%w: %s differs from %s only in letter case, and this disk does not tell them apart", memory.ErrExists, name, twin)
}
