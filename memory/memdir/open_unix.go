//go:build unix

package memdir

import (
	"errors"
	"syscall"
)

// openNonblock: opening a pipe waits for its other end unless it is told not to.
const openNonblock = syscall.O_NONBLOCK

// isNotDirectory: what should be a directory is none, or a link in a circle.
func isNotDirectory(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
