//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mirror

import (
	"errors"
	"os"
	"syscall"
)

// lockDir takes the lock of a directory until the file is closed. Busy says
// that another process, or another call in this one, has it.
func lockDir(dir string) (f *os.File, busy bool, err error) {
	f, err = os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
	}
	return f, errors.Is(err, syscall.EWOULDBLOCK), err
}
