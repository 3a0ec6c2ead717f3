//go:build unix

package testuser

import (
	"errors"
	"syscall"
)

const (
	hasUsers = true
	nobody   = 65534
)

func becomeNobody() error {
	err := syscall.Setgid(nobody)
	if err == nil {
		err = syscall.Setuid(nobody)
	}
	if err == nil && syscall.Geteuid() == 0 {
		err = errors.New("still root")
	}
	return err
}
