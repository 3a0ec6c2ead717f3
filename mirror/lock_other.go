//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package mirror

import "os"

// lockDir: systems without flock(2) keep apart only what one process does.
func lockDir(dir string) (f *os.File, busy bool, err error) {
	f, err = os.Open(dir)
	return f, false, err
}
