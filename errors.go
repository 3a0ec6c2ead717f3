package sessionstore

import (
	"errors"
	"strings"
)

// The errors that stores and helpers wrap. A missing optional operation wraps
// [errors.ErrUnsupported]; every other failure wraps the error of the backend.
var (
	// ErrInvalidKey: no backend can hold the key. The text names the field and
	// the limit.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidEntry: the entry is not one JSON object in UTF-8.
	ErrInvalidEntry = errors.New("invalid entry")
	// ErrNotFound: a helper that needs an existing session found none. Load
	// never returns it: an unknown transcript is nil, nil.
	ErrNotFound = errors.New("session not found")
	// ErrCorrupt: stored data is incomplete or unreadable, or was written by a
	// later version in a format that this one does not know.
	ErrCorrupt = errors.New("stored data is corrupt")
	// ErrDiverged: the destination of a [Copy] holds entries that the source
	// does not have.
	ErrDiverged = errors.New("destination has diverged from the source")
)

// OpError is what the stores of this module return: which package and
// operation failed, on which key, and why. Get it with [errors.As].
type OpError struct {
	Package string // such as "filestore"
	Op      string // such as "append"
	Key     Key    // as far as the operation has one
	Err     error
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Package + ": " + e.Op)
	if e.Key != (Key{}) {
		b.WriteString(" " + e.Key.String())
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

func unsupported(op string, key Key) error {
	return &OpError{Package: "sessionstore", Op: op, Key: key, Err: errors.ErrUnsupported}
}
