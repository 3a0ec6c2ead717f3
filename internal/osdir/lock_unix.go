//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package osdir

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes the lock of a file or directory if nobody holds it.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := flock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			locked = syscall.Flock(int(fd), how)
			if locked != syscall.EINTR {
				return
			}
		}
	})
	return errors.Join(err, locked)
}
