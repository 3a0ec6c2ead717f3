package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/osdir"
)

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
	_ sessionstore.SummaryLister = (*Store)(nil)
	_ sessionstore.SubkeyLister  = (*Store)(nil)
	_ sessionstore.OrphanLister  = (*Store)(nil)
	_ sessionstore.ProjectLister = (*Store)(nil)
	_ sessionstore.Deleter       = (*Store)(nil)
	_ sessionstore.Streamer      = (*Store)(nil)
	_ sessionstore.Purger        = (*Store)(nil)
)

const (
	linesSuffix   = ".jsonl"
	sidecarSuffix = ".meta.json"

	fileMode = 0o600
	dirMode  = 0o700
)

// errReadOnly is returned by everything that would write.
var errReadOnly = fmt.Errorf("the store is open for reading only: %w", fs.ErrPermission)

// Options are the settings of a [Store]. The zero value is fine.
type Options struct {
	// ReadOnly opens the directory without ever changing it. It must exist.
	ReadOnly bool

	// Fsync makes every append wait until its bytes, and the names of new
	// files, are on the disk. Without it a batch survives a crash of the
	// process but not always one of the machine.
	Fsync bool

	// OnSkip, if set, is told of everything that was passed over while
	// reading. It may be called from several goroutines at once and must not
	// call the store.
	OnSkip func(Skip)
}

// Skip is something in the directory that could not be read as part of a
// transcript. What lies around it was read.
type Skip struct {
	// Key is the transcript, or as much of it as is known: a name that stands
	// for no session has a project key only.
	Key sessionstore.Key
	// Path is the file, relative to the root of the store, with slashes.
	Path string
	// Line counts from 1. It is 0 when a whole file or directory was skipped;
	// then the next three fields are zero too.
	Line   int64
	Offset int64 // where the line starts, in bytes
	Length int64 // of the line, in bytes
	Torn   bool  // the last line of the file, without a line feed
	// Err says what is wrong. For lines it wraps sessionstore.ErrInvalidEntry.
	Err error
}

// Store is a directory of transcripts. It is safe for concurrent use.
type Store struct {
	root      *os.Root
	opts      Options
	gates     gates
	known     knownFiles
	summaries summaryCache
	attempts  attempt.Tracker[sessionstore.Key, landed]
	calls     calls

	// foldsCase says that the disk takes names that differ only in letter case
	// for one name.
	foldsCase atomic.Bool
	// formatWritten says that this handle has seen the format file.
	formatWritten atomic.Bool
}

// calls are the system calls that tests make fail.
type calls struct {
	write    func(f *os.File, b []byte) (int, error)
	sync     func(f *os.File) error
	truncate func(f *os.File, size int64) error
	rename   func(root *os.Root, from, to string) error
	// done is called when a batch is stored, before Append returns.
	done func(key sessionstore.Key) error
	// opened is told of every file whose contents are about to be read.
	opened func(name string)
	// listing is called when a directory is open, before its names are read.
	listing func(name string)
	// missed is called when a name was missing, before it is looked for.
	missed func(name string)
}

func systemCalls() calls {
	return calls{
		write:    (*os.File).Write,
		sync:     (*os.File).Sync,
		truncate: (*os.File).Truncate,
		rename:   (*os.Root).Rename,
		done:     func(sessionstore.Key) error { return nil },
		opened:   func(string) {},
		listing:  func(string) {},
		missed:   func(string) {},
	}
}

// Open opens the directory dir as a store. A missing one is created unless
// opts say ReadOnly. A directory that a later version of this package has
// written in another format is refused with [sessionstore.ErrCorrupt].
func Open(dir string, opts *Options) (*Store, error) {
	s := &Store{calls: systemCalls(), known: knownFiles{max: maxKnownIDs}}
	if opts != nil {
		s.opts = *opts
	}
	err := s.open(dir)
	if err != nil {
		s.Close()
		return nil, fail("open", sessionstore.Key{}, err)
	}
	return s, nil
}

func (s *Store) open(dir string) error {
	if !s.opts.ReadOnly {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return err
		}
	}
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	s.root = root
	if _, err := s.readFormat(); err != nil {
		return err
	}
	s.foldsCase.Store(osdir.FoldsCase(root, dir))
	return nil
}

// Close releases the directory. Operations that follow fail.
func (s *Store) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// fail wraps an error for the caller.
func fail(op string, key sessionstore.Key, err error) error {
	if err == nil {
		return nil
	}
	return &sessionstore.OpError{Package: "filestore", Op: op, Key: key, Err: err}
}

// skip reports something that was passed over.
func (s *Store) skip(sk Skip) {
	if s.opts.OnSkip != nil {
		s.opts.OnSkip(sk)
	}
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
