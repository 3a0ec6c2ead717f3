//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package mirror

import "os"

// lockFile: systems without flock(2) keep apart only what one process does.
func lockFile(*os.File) (busy bool, err error) { return false, nil }
