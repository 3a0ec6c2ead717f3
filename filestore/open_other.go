//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"io/fs"
	"os"
)

const (
	openNonblock  = 0
	openDirectory = 0
)

// isSystemFailure knows only what all systems tell.
func isSystemFailure(err error) bool { return errors.Is(err, fs.ErrPermission) }

// fileNumber: there is none that a name leads to.
func fileNumber(os.FileInfo) uint64 { return 0 }

// changeTime: nobody tells.
func changeTime(os.FileInfo) int64 { return 0 }

// isUnlinked: a directory that is open cannot go here.
func isUnlinked(os.FileInfo) bool { return false }
