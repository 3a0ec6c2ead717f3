package session

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/sessionstore/sessionstore"
)

// maker makes what is new in changed and forked sessions. Tests have their own.
type maker struct {
	now     func() time.Time
	newUUID func() uuid
}

var standard = maker{now: time.Now, newUUID: randomUUID}

// timestamp returns the time as entries have it.
func (m maker) timestamp() string { return m.now().UTC().Format("2006-01-02T15:04:05.000Z") }

type uuid [16]byte

// randomUUID returns a UUID of version 4.
func randomUUID() uuid {
	var u uuid
	_, _ = rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0F | 0x40
	u[8] = u[8]&0x3F | 0x80
	return u
}

func (u uuid) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// isUUID reports whether a session id has the form of a UUID, of any version
// and in any case.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
	}
	return true
}

// checkReadable refuses keys of subpaths: a key that names one is a mistake of
// the caller, not an unknown session.
func checkReadable(key sessionstore.Key) error {
	if key.Subpath != "" {
		return fmt.Errorf("%w: it names a subpath; this function takes a session", sessionstore.ErrInvalidKey)
	}
	return nil
}

// checkChangeable refuses what no session can be stored under.
func checkChangeable(key sessionstore.Key) error {
	if err := checkReadable(key); err != nil {
		return err
	}
	if !isUUID(key.SessionID) {
		return fmt.Errorf("%w: session id %q is not a UUID", sessionstore.ErrInvalidKey, key.SessionID)
	}
	return nil
}

func opError(op string, key sessionstore.Key, err error) error {
	if err == nil {
		return nil
	}
	return &sessionstore.OpError{Package: "session", Op: op, Key: key, Err: err}
}

// page returns the part of n items that an offset and a limit leave. A limit
// of 0 or less is none.
func page(n, offset, limit int) (from, to int) {
	from = min(max(offset, 0), n)
	to = n
	if limit > 0 && limit < n-from {
		to = from + limit
	}
	return from, to
}
