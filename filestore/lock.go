package filestore

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/sessionstore/sessionstore/internal/osdir"
)

// Locks keep two levels apart. Within a store a gate is waited for without
// polling, and a deleter that waits holds new writers back. Between processes
// there is only flock(2), on the transcripts and project directories
// themselves, so that no lock files are left behind:
//
//	append   project shared,    transcript exclusive
//	delete   project exclusive
//	read     transcript shared, only while it takes the size

// gates are locks by name. The zero value is ready to use.
type gates struct {
	mu sync.Mutex
	m  map[string]*gate
}

type gate struct {
	users     int // that hold it or wait for it
	readers   int
	writer    bool
	writersIn int           // that wait
	wake      chan struct{} // closed when anything changes
}

// acquire waits for the gate with this name. Writers go before new readers.
func (gs *gates) acquire(ctx context.Context, name string, exclusive bool) (release func(), err error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.m[name]
	if g == nil {
		if gs.m == nil {
			gs.m = make(map[string]*gate)
		}
		g = &gate{wake: make(chan struct{})}
		gs.m[name] = g
	}
	g.users++
	if exclusive {
		g.writersIn++
		defer func() { g.writersIn-- }()
	}
	for g.writer || exclusive && g.readers > 0 || !exclusive && g.writersIn > 0 {
		if err := gs.wait(ctx, g.wake); err != nil {
			gs.leave(name, g)
			return nil, err
		}
	}
	if exclusive {
		g.writer = true
		return func() { gs.release(name, g, func() { g.writer = false }) }, nil
	}
	g.readers++
	return func() { gs.release(name, g, func() { g.readers-- }) }, nil
}

// wait lets go of mu until the gate has changed.
func (gs *gates) wait(ctx context.Context, wake chan struct{}) error {
	gs.mu.Unlock()
	defer gs.mu.Lock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (gs *gates) release(name string, g *gate, change func()) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	change()
	gs.leave(name, g)
}

func (gs *gates) leave(name string, g *gate) {
	if g.users--; g.users == 0 {
		delete(gs.m, name)
	}
	close(g.wake)
	g.wake = make(chan struct{})
}

// lockFile waits until it holds the lock of another process. Closing the file
// releases it.
func lockFile(ctx context.Context, f *os.File, exclusive bool) error {
	return osdir.Lock(ctx, f, exclusive)
}

func unlock(f *os.File) error { return osdir.Unlock(f) }

// lockProject locks the directory of a project, and makes it first if create is
// set. Otherwise a missing one is nil without an error.
func (s *Store) lockProject(ctx context.Context, project string, exclusive, create bool) (*os.File, error) {
	for {
		var dir *os.File
		exists, err := s.present(project, func() (err error) {
			dir, err = s.openDirFile(project)
			return err
		})
		if err == nil && !exists && create {
			if err = s.makeProject(project); err == nil {
				continue
			}
		}
		if err != nil || !exists {
			return nil, err
		}
		if err := lockFile(ctx, dir, exclusive); err != nil {
			dir.Close()
			return nil, err
		}
		// While we waited, a deleter may have removed the directory.
		same, err := s.isAt(dir, project)
		if same {
			return dir, nil
		}
		dir.Close()
		if err != nil {
			return nil, err
		}
	}
}

func (s *Store) makeProject(project string) error {
	if s.foldsCase.Load() {
		if err := s.checkNames(project); err != nil {
			return err
		}
	}
	err := s.root.Mkdir(project, dirMode)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	// Another process was faster, unless it is a link that leads nowhere.
	info, lerr := s.root.Lstat(project)
	if lerr == nil && info.Mode()&os.ModeSymlink != 0 {
		return err
	}
	return ignoreMissing(lerr)
}

// isAt reports whether an open file is still the one that a name leads to.
func (s *Store) isAt(f *os.File, name string) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := s.root.Stat(name)
	if isMissing(err) {
		return false, nil
	}
	return err == nil && os.SameFile(open, there), err
}
