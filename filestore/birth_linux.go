//go:build linux && (amd64 || arm64 || loong64 || riscv64)

package filestore

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// birthTime is when an open file was made, in ns since 1970, or 0 if the file
// system does not tell. An inode that is used again has another one.
//
// Package syscall has no statx(2).
func birthTime(f *os.File) (ns int64) {
	number := uintptr(291)
	if runtime.GOARCH == "amd64" {
		number = 332
	}
	const (
		emptyPath = 0x1000 // AT_EMPTY_PATH: the file itself
		wantBirth = 0x800  // STATX_BTIME
	)
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	var path [1]byte
	var buf [256]byte // struct statx
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(number, fd, uintptr(unsafe.Pointer(&path)), emptyPath, wantBirth, uintptr(unsafe.Pointer(&buf)), 0)
	})
	mask := binary.NativeEndian.Uint32(buf[:])
	if err != nil || errno != 0 || mask&wantBirth == 0 {
		return 0
	}
	const at = 80 // stx_btime: seconds, and nanoseconds behind them
	return int64(binary.NativeEndian.Uint64(buf[at:]))*1e9 + int64(binary.NativeEndian.Uint32(buf[at+8:]))
}
