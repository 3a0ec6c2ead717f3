//go:build dragonfly || linux || openbsd

package filestore

import "syscall"

func changeTimeOf(stat *syscall.Stat_t) int64 { return stat.Ctim.Nano() }
