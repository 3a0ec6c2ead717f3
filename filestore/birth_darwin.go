package filestore

import (
	"os"
	"syscall"
)

// birthTime is when an open file was made, in ns since 1970. An inode that is
// used again has another one.
func birthTime(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Birthtimespec.Nano()
	}
	return 0
}
