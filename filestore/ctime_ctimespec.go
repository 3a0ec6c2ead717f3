//go:build darwin || freebsd || netbsd

package filestore

import "syscall"

func changeTimeOf(stat *syscall.Stat_t) int64 { return stat.Ctimespec.Nano() }
