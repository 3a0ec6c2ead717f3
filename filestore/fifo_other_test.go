//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filestore_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
