package sessionstore

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// Limits of a [Key], the same on every store. They count bytes of the escaped
// form that file and object names use: an ASCII letter, digit, '-', '_' or '.'
// counts 1 and any other byte counts 3 (so does a dot at either end of a
// name). They leave room for a prefix of 128 bytes in an S3 key.
const (
	// MaxSegmentLen limits the project key, the session id and each segment of
	// the subpath.
	MaxSegmentLen = 240
	// MaxKeyLen limits the three parts of a key together, with one byte
	// between two of them.
	MaxKeyLen = 800
)

// Key names a transcript. It is comparable.
type Key struct {
	// ProjectKey is the caller's scope. By default it is the working directory
	// as [ProjectKey] encodes it; a host with several tenants puts the tenant
	// here.
	ProjectKey string
	// SessionID is usually a UUID. Any other text is a valid id too.
	SessionID string
	// Subpath is empty for the main transcript of a session. Otherwise it
	// names a further transcript, such as "subagents/agent-1f2e".
	Subpath string
}

// Main returns the key of the session's main transcript.
func (k Key) Main() Key {
	k.Subpath = ""
	return k
}

// String returns the key as errors show it: project/session#subpath, with
// parts in quotes where they hold anything else than ordinary characters.
func (k Key) String() string {
	if k.SessionID == "" && k.Subpath == "" {
		return quotePart(k.ProjectKey)
	}
	s := quotePart(k.ProjectKey) + "/" + quotePart(k.SessionID)
	if k.Subpath != "" {
		segs := strings.Split(k.Subpath, "/")
		for i := range segs {
			segs[i] = quotePart(segs[i])
		}
		s += "#" + strings.Join(segs, "/")
	}
	return s
}

func quotePart(s string) string {
	const shown = 300 // enough for any valid part
	if len(s) > shown {
		return strconv.Quote(s[:shown]) + "…"
	}
	if s != "" && keyenc.Encode(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// Validate reports whether every store can hold the key. It never changes or
// cleans one. The error wraps [ErrInvalidKey] and names the field and the
// limit.
func (k Key) Validate() error {
	if err := ValidateProjectKey(k.ProjectKey); err != nil {
		return err
	}
	if err := validatePart("session id", k.SessionID); err != nil {
		return err
	}
	total := keyenc.Len(k.ProjectKey) + 1 + keyenc.Len(k.SessionID)
	if k.Subpath != "" {
		for seg := range strings.SplitSeq(k.Subpath, "/") {
			if seg == "" || seg == "." || seg == ".." {
				return fmt.Errorf("%w: subpath %s has the segment %q", ErrInvalidKey, quotePart(k.Subpath), seg)
			}
			if err := validatePart("subpath segment", seg); err != nil {
				return err
			}
		}
		total += 1 + keyenc.PathLen(k.Subpath)
	}
	if total > MaxKeyLen {
		return fmt.Errorf("%w: key has %d bytes after escaping, the limit is %d", ErrInvalidKey, total, MaxKeyLen)
	}
	return nil
}

// ValidateProjectKey is [Key.Validate] for operations on a whole project.
func ValidateProjectKey(projectKey string) error { return validatePart("project key", projectKey) }

func validatePart(field, s string) error {
	switch n := keyenc.Len(s); {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalidKey, field)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%w: %s %s holds a NUL byte", ErrInvalidKey, field, quotePart(s))
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %s is not valid UTF-8", ErrInvalidKey, field, quotePart(s))
	case n > MaxSegmentLen:
		return fmt.Errorf("%w: %s has %d bytes after escaping, the limit is %d", ErrInvalidKey, field, n, MaxSegmentLen)
	}
	return nil
}
