//go:build !unix

package testuser

import "errors"

const hasUsers = false

func becomeNobody() error { return errors.ErrUnsupported }
