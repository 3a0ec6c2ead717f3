//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// Opening a pipe waits for its other end unless it is told not to. What must be
// a directory is asked for as one.
const (
	openNonblock  = syscall.O_NONBLOCK
	openDirectory = syscall.O_DIRECTORY
)

// isSystemFailure reports whether the system could not read something. That a
// link leads nowhere, round in a circle or through a file is no failure.
func isSystemFailure(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return false
	}
	return true
}

// fileNumber is that of the inode.
func fileNumber(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino)
	}
	return 0
}

// changeTime is the ctime, in ns since 1970.
func changeTime(info os.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return changeTimeOf(stat)
	}
	return 0
}

// isUnlinked reports whether an open directory has been deleted.
func isUnlinked(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
