//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package osdir

import "os"

// Systems without flock(2): writers are kept apart only within one Store.

func tryLock(*os.File, bool) (bool, error) { return true, nil }

func unlock(*os.File) error { return nil }
