package sessionstore

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxProjectKeyUnits is how many UTF-16 units of a directory's name the agent
// keeps before it cuts and adds a hash.
const maxProjectKeyUnits = 200

// ProjectKey returns the project key under which the agent files sessions that
// ran in a directory: the absolute path with symbolic links resolved, where
// each UTF-16 unit outside [a-zA-Z0-9] becomes '-'. A path of more than 200
// units is cut there, and '-' and a hash of the whole path follow. A directory
// that does not exist (any more) is taken as written.
//
// The form is the agent's own, and different directories can share a key:
// /a/b-c and /a/b/c do. The letter case of a path counts, as it does for the
// agent, even on disks that ignore it.
func ProjectKey(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("sessionstore: project key of %q: %w", dir, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return encodeProjectPath(path), nil
}

func encodeProjectPath(path string) string {
	units := utf16Units(path)
	var key strings.Builder
	for i, u := range units {
		if i == maxProjectKeyUnits {
			key.WriteString("-" + pathHash(units))
			break
		}
		if u < utf8.RuneSelf && isAlphanumeric(byte(u)) {
			key.WriteByte(byte(u))
		} else {
			key.WriteByte('-')
		}
	}
	return key.String()
}

// pathHash is the hash of JavaScript hosts: h*31+unit in 32 bits with sign,
// made positive, in base 36.
func pathHash(units []uint16) string {
	var h int32
	for _, u := range units {
		h = h*31 + int32(u)
	}
	abs := int64(h)
	if abs < 0 {
		abs = -abs
	}
	return strconv.FormatInt(abs, 36)
}

// utf16Units decodes as JavaScript hosts see the path. Lone surrogates in
// WTF-8, as Windows paths can hold them, are one unit; other bytes that are not
// UTF-8 are one replacement character each.
func utf16Units(s string) []uint16 {
	units := make([]uint16, 0, len(s))
	for i := 0; i < len(s); {
		if i+2 < len(s) && s[i] == 0xED && s[i+1] >= 0xA0 && s[i+1] < 0xC0 && s[i+2]&0xC0 == 0x80 {
			units = append(units, 0xD000|uint16(s[i+1]&0x3F)<<6|uint16(s[i+2]&0x3F))
			i += 3
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		units = utf16.AppendRune(units, r)
		i += n
	}
	return units
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
