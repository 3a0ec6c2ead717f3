package resume

import (
	"time"

	"github.com/sessionstore/sessionstore"
)

// Seams for the tests of package resume_test.
type Machine = machine

var (
	MaterializeOn        = materialize
	WithoutRefreshTokens = withoutRefreshTokens
	WithoutPlugins       = withoutPlugins
	SidecarOf            = sidecarOf
	ThisMachine          = thisMachine
	CutMembers           = cutMembers
	Grace                = grace
	RemoveTries          = removeTries
)

func NewMachine(goos, security string, remove func(string) error) Machine {
	return machine{goos: goos, security: security, remove: remove}
}

// Limited returns the store as Materialize reads it.
func Limited(store sessionstore.SessionStore, limit time.Duration) sessionstore.Streamer {
	return limited{store, limit}
}
