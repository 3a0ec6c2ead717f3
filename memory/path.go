package memory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// Root is the directory that holds all files.
const Root = "/memories"

// MaxPathLen limits a path, without the root, in bytes of its escaped form: see
// [sessionstore.MaxSegmentLen], which limits each segment.
const MaxPathLen = 512

// CheckPath reports whether a path may be used, the same on every store. The
// error wraps [ErrInvalidPath]. A path
//
//   - is /memories, or begins with /memories/,
//   - has no empty segment, so no slash at its end, and no segment "." or "..",
//   - has no backslash, no control character, and is valid UTF-8,
//   - keeps to all that, with the same number of segments, when its percent
//     escapes are decoded, and decoded again as long as that changes it.
//
// Everything else is an ordinary name and taken literally: "a%20b", "..;",
// full-width dots.
func CheckPath(path string) error {
	if err := checkLength(path); err != nil {
		return invalid(path, err)
	}
	if err := checkForm(path); err != nil {
		return invalid(path, err)
	}
	segments := strings.Count(path, "/")
	for text := path; ; {
		decoded := percentDecode(text)
		if decoded == text {
			return nil
		}
		err := checkForm(decoded)
		if err == nil && strings.Count(decoded, "/") != segments {
			err = errors.New("a slash")
		}
		if err != nil {
			return invalid(path, fmt.Errorf("its percent escapes hide something: %w", err))
		}
		text = decoded
	}
}

func invalid(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrInvalidPath, quotePath(path), err)
}

func checkForm(path string) error {
	rest, ok := strings.CutPrefix(path, Root)
	if !ok || rest != "" && rest[0] != '/' {
		return errors.New("it must be /memories or begin with /memories/")
	}
	if !utf8.ValidString(path) {
		return errors.New("it is not valid UTF-8")
	}
	for _, r := range path {
		if r == '\\' || unicode.IsControl(r) {
			return fmt.Errorf("it contains the character %q", r)
		}
	}
	if rest == "" {
		return nil
	}
	for segment := range strings.SplitSeq(rest[1:], "/") {
		switch segment {
		case "":
			return errors.New("it has an empty segment, or a slash at its end")
		case ".", "..":
			return fmt.Errorf("it has the segment %q", segment)
		}
	}
	return nil
}

func checkLength(path string) error {
	rest := strings.TrimPrefix(path, Root+"/")
	if n := keyenc.PathLen(rest); n > MaxPathLen {
		return fmt.Errorf("it has %d bytes after escaping, the limit is %d", n, MaxPathLen)
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if n := keyenc.Len(segment); n > sessionstore.MaxSegmentLen {
			return fmt.Errorf("a segment has %d bytes after escaping, the limit is %d", n, sessionstore.MaxSegmentLen)
		}
	}
	return nil
}

// percentDecode decodes each %XX once and leaves what is none. What it returns
// is shorter, or the same.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// CheckRename reports whether a rename can mean anything: both paths are valid,
// neither is the root, and to is neither from nor below it. The error wraps
// [ErrInvalidPath], and [ErrExists] as well for the root as destination and for
// a path renamed to itself.
func CheckRename(from, to string) error {
	for _, path := range []string{from, to} {
		if err := CheckPath(path); err != nil {
			return err
		}
	}
	switch {
	case from == Root:
		return invalid(from, errors.New("the root cannot be renamed"))
	case to == Root || to == from:
		return invalid(to, ErrExists)
	case Below(to, from):
		return invalid(to, errors.New("it lies inside what is to be renamed"))
	}
	return nil
}

// CheckDelete is [CheckPath], and refuses the root.
func CheckDelete(path string) error {
	if err := CheckPath(path); err != nil || path != Root {
		return err
	}
	return invalid(path, errors.New("the root cannot be deleted"))
}

// CheckWrite is [CheckPath], and refuses the root, which is no file.
func CheckWrite(path string) error {
	if err := CheckPath(path); err != nil || path != Root {
		return err
	}
	return invalid(path, errors.New("the root is a directory"))
}

// quotePath shows a path in errors and to the model: as it is where it is
// harmless, else in quotes, and never more of it than anyone reads.
func quotePath(path string) string {
	const shown = 600
	if len(path) > shown {
		return strconv.Quote(path[:shown]) + "…"
	}
	if quoted := strconv.Quote(path); quoted[1:len(quoted)-1] != path || strings.ContainsAny(path, " ") {
		return quoted
	}
	return path
}
