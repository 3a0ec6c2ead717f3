// Package keyenc turns the parts of a session key into names that every
// backend can hold: one path segment each, injective, and unchanged for the
// names that agents use.
//
// A name keeps its ASCII letters, digits, '-', '_' and '.'. Every other byte
// becomes '!' and two upper-case hexadecimal digits. '!' is allowed in file
// names, needs no quoting in S3 keys, and no server decodes it, which some do
// with '%'. These dots and letters are escaped too, because the name would
// otherwise mean something else to a backend:
//
//   - a leading and a trailing dot ("..", hidden files, names Windows trims),
//   - the dot of a final ".jsonl" or ".meta.json" (our own file names),
//   - the first letter of a leading "part-" (the object names of S3 parts).
//
// The encoding says nothing about letter case: a store on a disk that folds
// case has to detect that itself.
package keyenc

import (
	"errors"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// ErrName is returned by [Decode] for a name that [Encode] does not produce.
var ErrName = errors.New("not an encoded name")

// reservedSuffixes end names of files that stores write themselves.
var reservedSuffixes = []string{".jsonl", ".meta.json"}

// reservedPrefix starts the names of the objects that hold a transcript.
const reservedPrefix = "part-"

// Encode returns the safe form of one segment.
func Encode(s string) string {
	n := Len(s)
	if n == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(n)
	mark := specials(s)
	for i := range len(s) {
		if plain(s[i]) && !mark.has(i) {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte('!')
		b.WriteByte(upperHex[s[i]>>4])
		b.WriteByte(upperHex[s[i]&15])
	}
	return b.String()
}

// Len returns len(Encode(s)) without encoding.
func Len(s string) int {
	n := len(s)
	mark := specials(s)
	for i := range len(s) {
		if !plain(s[i]) || mark.has(i) {
			n += 2
		}
	}
	return n
}

// Decode is the inverse of [Encode]. It accepts exactly what Encode produces,
// so two names never decode to one segment.
func Decode(name string) (string, error) {
	var b strings.Builder
	b.Grow(len(name))
	for i := 0; i < len(name); i++ {
		if name[i] != '!' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", ErrName
		}
		hi := strings.IndexByte(upperHex, name[i+1])
		lo := strings.IndexByte(upperHex, name[i+2])
		if hi < 0 || lo < 0 {
			return "", ErrName
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	s := b.String()
	if s == "" || Encode(s) != name {
		return "", ErrName
	}
	return s, nil
}

// EncodePath encodes each '/'-separated segment of a subpath.
func EncodePath(subpath string) string {
	return mapSegments(subpath, Encode)
}

// PathLen returns len(EncodePath(subpath)).
func PathLen(subpath string) int {
	n := strings.Count(subpath, "/")
	for seg := range strings.SplitSeq(subpath, "/") {
		n += Len(seg)
	}
	return n
}

// DecodePath is the inverse of [EncodePath].
func DecodePath(path string) (string, error) {
	var err error
	s := mapSegments(path, func(seg string) string {
		dec, e := Decode(seg)
		// A slash inside a segment would make two segments of one.
		if e == nil && strings.Contains(dec, "/") {
			e = ErrName
		}
		if e != nil {
			err = e
		}
		return dec
	})
	if err != nil {
		return "", err
	}
	return s, nil
}

func mapSegments(path string, f func(string) string) string {
	segs := strings.Split(path, "/")
	for i, seg := range segs {
		segs[i] = f(seg)
	}
	return strings.Join(segs, "/")
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '_' || c == '.'
}

// positions are the indexes of plain bytes that must be escaped all the same.
type positions [3]int

func (p positions) has(i int) bool { return i == p[0] || i == p[1] || i == p[2] }

func specials(s string) positions {
	p := positions{-1, -1, -1}
	if s == "" {
		return p
	}
	if s[0] == '.' || strings.HasPrefix(s, reservedPrefix) {
		p[0] = 0
	}
	if s[len(s)-1] == '.' {
		p[1] = len(s) - 1
	}
	for _, suffix := range reservedSuffixes {
		if strings.HasSuffix(s, suffix) {
			p[2] = len(s) - len(suffix)
		}
	}
	return p
}
