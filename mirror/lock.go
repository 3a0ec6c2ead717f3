package mirror

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// keyLock keeps others from delivering the files of one key.
type keyLock struct {
	abs     string
	dir     *os.File
	holders atomic.Int32 // who delivers, and a call of theirs that has not returned
}

// locked are the directories that this process delivers from.
var locked sync.Map

// lockKey locks the directory of a key. The error is ErrBusy if another has it.
func lockKey(dir string) (*keyLock, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, busy := locked.LoadOrStore(abs, true); busy {
		return nil, ErrBusy
	}
	l := &keyLock{abs: abs}
	l.holders.Store(1)
	if l.dir, err = openLocked(dir); err != nil {
		locked.Delete(abs)
		return nil, err
	}
	return l, nil
}

func (l *keyLock) release() {
	if l.holders.Add(-1) == 0 {
		l.dir.Close()
		locked.Delete(l.abs)
	}
}

// openLocked opens a file and locks it.
func openLocked(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	busy, err := lockFile(f)
	if busy {
		err = ErrBusy
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
