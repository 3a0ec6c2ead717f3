package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sessionstore/sessionstore"
)

var (
	ErrLost   = errors.New("the reply is lost")
	ErrInject = errors.New("injected failure")
)

// Handy names for tests outside the package.
const (
	FormatFile = formatFile
	PrivateDir = privateDir
)

// LoseReply makes the next append that stores its batch fail all the same.
func (s *Store) LoseReply() {
	var lost atomic.Bool
	s.calls.done = func(sessionstore.Key) error {
		if lost.CompareAndSwap(false, true) {
			return ErrLost
		}
		return nil
	}
}

// CutWrites makes the next write stop after n bytes.
func (s *Store) CutWrites(n int) {
	s.calls.write = func(f *os.File, b []byte) (int, error) {
		s.calls.write = (*os.File).Write
		n, err := f.Write(b[:min(n, len(b))])
		return n, errors.Join(err, ErrInject)
	}
}

// FailTruncate makes the next truncate fail.
func (s *Store) FailTruncate() {
	s.calls.truncate = func(*os.File, int64) error {
		s.calls.truncate = (*os.File).Truncate
		return ErrInject
	}
}

// FailSync makes the next fsync of a file fail.
func (s *Store) FailSync() {
	s.calls.sync = func(*os.File) error {
		s.calls.sync = (*os.File).Sync
		return ErrInject
	}
}

// Synced collects the names of files and directories that are synced.
func (s *Store) Synced() *[]string {
	names := new([]string)
	s.calls.sync = func(f *os.File) error {
		*names = append(*names, filepath.Base(f.Name()))
		return f.Sync()
	}
	return names
}

// FailRename makes the next rename of a sidecar fail.
func (s *Store) FailRename() {
	s.calls.rename = func(*os.Root, string, string) error {
		s.calls.rename = (*os.Root).Rename
		return ErrInject
	}
}

// Opened collects the names of files that are opened to read their contents.
func (s *Store) Opened() *[]string {
	var names []string
	s.calls.opened = func(name string) { names = append(names, name) }
	return &names
}

// OnListing is called when a directory is open, before its names are read.
func (s *Store) OnListing(f func(name string)) { s.calls.listing = f }

// OnMissed is called when a name was missing, before the store looks for it.
func (s *Store) OnMissed(f func(name string)) { s.calls.missed = f }

// FoldCase makes the store believe that the disk folds letter case.
func (s *Store) FoldCase() { s.foldsCase.Store(true) }

// KeepIDs sets how many uuids the store remembers.
func (s *Store) KeepIDs(n int) { s.known.max = n }

// KnownIDs is the number of uuids that the store remembers.
func (s *Store) KnownIDs() int {
	n := 0
	for el := s.known.order.Front(); el != nil; el = el.Next() {
		n += el.Value.(*knownFile).known.ids.Len()
	}
	return n
}

// Birth is when a file of the store was made.
func Birth(tb testing.TB, s *Store, name string) int64 {
	f, err := s.root.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	return birthTime(f)
}

// HoldLock locks a file or directory as another process does.
func (s *Store) HoldLock(tb testing.TB, name string) (release func()) {
	f, err := s.root.Open(name)
	if err == nil {
		err = lockFile(tb.Context(), f, true)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return func() { f.Close() }
}

// SummaryFile is where the summary of a session is kept.
func SummaryFile(key sessionstore.Key) string { return summaryName(placeOf(key)) }
