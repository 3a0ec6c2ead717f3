// Package jsonscan checks one JSON object in a single pass and points at its
// top-level members. It decodes nothing and copies nothing, because entries
// are stored as the bytes they came in.
//
// It accepts exactly what encoding/json accepts as an object, and in addition
// demands valid UTF-8.
package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested: the limit of
// encoding/json, so that no reader written in Go meets an entry it can't parse.
const MaxDepth = 10_000

// An Error says what is wrong with a text, and where.
type Error struct {
	Offset int    // in bytes from the start
	Reason string // such as "invalid UTF-8"
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Object checks that data is one JSON object, possibly between white space,
// and calls member for each top-level member with its key (a string literal,
// quotes included) and its value, both as they stand in data. A nil member is
// allowed. Members before a fault have been reported by the time it is found.
func Object(data []byte, member func(key, value []byte)) error {
	i := SkipSpace(data, 0)
	if i == len(data) {
		return &Error{i, "empty"}
	}
	if data[i] != '{' {
		return &Error{i, "not a JSON object"}
	}
	s := scanner{data: data}
	end, err := s.value(i, member)
	if err != nil {
		return err
	}
	if end = SkipSpace(data, end); end != len(data) {
		return &Error{end, "more text after the object"}
	}
	return nil
}

type scanner struct {
	data []byte

	depth   int
	objects [(MaxDepth + 64) / 64]uint64 // one bit a level: is it an object?

	key        []byte // of the top-level member being read
	valueStart int
}

// value scans the value that starts at i and returns the index behind it.
// It keeps its own stack, so depth costs no goroutine stack.
func (s *scanner) value(i int, member func(key, value []byte)) (int, error) {
	for {
		next, opened, err := s.begin(i)
		if err != nil {
			return 0, err
		}
		i = next
		if opened {
			continue // i is at the first value inside
		}
		for {
			if s.depth == 0 {
				return i, nil
			}
			if s.depth == 1 && member != nil {
				member(s.key, s.data[s.valueStart:i])
			}
			next, more, err := s.afterValue(i)
			if err != nil {
				return 0, err
			}
			i = next
			if more {
				break
			}
		}
	}
}

// begin scans a scalar or an empty container whole, or opens a container and
// stops at the first value inside it.
func (s *scanner) begin(i int) (next int, opened bool, err error) {
	if i >= len(s.data) {
		return 0, false, &Error{i, "unexpected end"}
	}
	if s.depth == 1 {
		s.valueStart = i
	}
	switch c := s.data[i]; {
	case c == '"':
		next, err = skipString(s.data, i+1)
		return next, false, err
	case c == '{' || c == '[':
		if s.depth == MaxDepth {
			return 0, false, &Error{i, fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
		}
		i = SkipSpace(s.data, i+1)
		if i < len(s.data) && s.data[i] == c+2 { // '}' is '{'+2, ']' is '['+2
			return i + 1, false, nil
		}
		word, bit := s.depth/64, uint64(1)<<(s.depth%64)
		s.depth++
		if c == '[' {
			s.objects[word] &^= bit
			return i, true, nil
		}
		s.objects[word] |= bit
		i, err = s.memberKey(i)
		return i, true, err
	case c == '-' || '0' <= c && c <= '9':
		next, err = skipNumber(s.data, i)
		return next, false, err
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(s.data)-i >= len(word) && string(s.data[i:i+len(word)]) == word {
			return i + len(word), false, nil
		}
	}
	return 0, false, &Error{i, "invalid value"}
}

// afterValue handles what follows a value inside a container: a comma, and
// then i is at the next value, or the end of the container.
func (s *scanner) afterValue(i int) (next int, more bool, err error) {
	i = SkipSpace(s.data, i)
	if i == len(s.data) {
		return 0, false, &Error{i, "unexpected end"}
	}
	top := s.depth - 1
	inObject := s.objects[top/64]>>(top%64)&1 == 1
	switch c := s.data[i]; {
	case c == ',':
		i = SkipSpace(s.data, i+1)
		if inObject {
			i, err = s.memberKey(i)
		}
		return i, true, err
	case c == '}' && inObject, c == ']' && !inObject:
		s.depth--
		return i + 1, false, nil
	}
	return 0, false, &Error{i, "expected a comma or the end of the container"}
}

// memberKey scans a key and its colon and returns the index of the value.
func (s *scanner) memberKey(i int) (int, error) {
	if i == len(s.data) || s.data[i] != '"' {
		return 0, &Error{i, "expected a key"}
	}
	end, err := skipString(s.data, i+1)
	if err != nil {
		return 0, err
	}
	if s.depth == 1 {
		s.key = s.data[i:end]
	}
	i = SkipSpace(s.data, end)
	if i == len(s.data) || s.data[i] != ':' {
		return 0, &Error{i, "expected a colon"}
	}
	return SkipSpace(s.data, i+1), nil
}

// SkipSpace returns the index of the first byte at or after i that is not
// JSON white space.
func SkipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// skipString takes the index behind an opening quote and returns the index
// behind the closing one.
func skipString(data []byte, i int) (int, error) {
	for {
		i = skipPlain(data, i)
		if i == len(data) {
			return 0, &Error{i, "unexpected end in a string"}
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			if i+1 < len(data) && shortEscape[data[i+1]] {
				i += 2 // nearly all escapes
				continue
			}
			n := escapeLen(data[i:])
			if n == 0 {
				return 0, &Error{i, "invalid escape"}
			}
			i += n
		case c < 0x20:
			return 0, &Error{i, "raw control character in a string"}
		default:
			_, n := utf8.DecodeRune(data[i:])
			if n == 1 {
				return 0, &Error{i, "invalid UTF-8"}
			}
			i += n
		}
	}
}

// shortEscape has the characters that make an escape behind a backslash alone.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain passes over printable ASCII other than quote and backslash, eight
// bytes at a time: nearly all of a transcript is that.
func skipPlain(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		w := binary.LittleEndian.Uint64(data[i:])
		// A byte's high bit is set in hit when the byte is < 0x20, a quote, a
		// backslash or not ASCII. A borrow can only make bytes above a real
		// hit wrong, and the lowest one is what counts.
		quote, back := w^(ones*'"'), w^(ones*'\\')
		if hit := (w | (w - ones*0x20) | (quote - ones) | (back - ones)) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(data) && data[i] >= 0x20 && data[i] < 0x80 && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

// escapeLen returns the length of the escape sequence that data starts with,
// or 0 when there is none.
func escapeLen(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(data[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(data []byte) (rune, bool) {
	if len(data) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range data[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// skipNumber takes the index of a number's first byte and returns the index
// behind it.
func skipNumber(data []byte, i int) (int, error) {
	start := i
	digits := func() bool {
		from := i
		for i < len(data) && '0' <= data[i] && data[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(chars string) bool {
		for k := range len(chars) {
			if i < len(data) && data[i] == chars[k] {
				i++
				return true
			}
		}
		return false
	}
	at("-")
	ok := at("0") || digits()
	if ok && at(".") {
		ok = digits()
	}
	if ok && at("eE") {
		at("+-")
		ok = digits()
	}
	if !ok {
		return 0, &Error{start, "invalid number"}
	}
	return i, nil
}
