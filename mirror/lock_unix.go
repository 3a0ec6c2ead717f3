//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mirror

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock of a file or directory until it is closed. Busy says
// that another process, or another call in this one, has it.
func lockFile(f *os.File) (busy bool, err error) {
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			return errors.Is(err, syscall.EWOULDBLOCK), err
		}
	}
}
