package session

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// The functions below read JSON that jsonscan has found valid. They find their
// way by brackets and quotes alone.

// member is one member of an object, by offsets.
type member struct{ keyStart, keyEnd, valueStart, valueEnd int }

// members calls f for each member of the object that starts at data[0].
func members(data []byte, f func(m member)) {
	i := jsonscan.SkipSpace(data, 1)
	for data[i] != '}' {
		m := member{keyStart: i}
		m.keyEnd = valueEnd(data, i)
		m.valueStart = jsonscan.SkipSpace(data, jsonscan.SkipSpace(data, m.keyEnd)+1) // over the colon
		m.valueEnd = valueEnd(data, m.valueStart)
		f(m)
		if i = jsonscan.SkipSpace(data, m.valueEnd); data[i] == ',' {
			i = jsonscan.SkipSpace(data, i+1)
		}
	}
}

// elements calls f with the offsets of each element of the array that starts
// at data[0].
func elements(data []byte, f func(start, end int)) {
	i := jsonscan.SkipSpace(data, 1)
	for data[i] != ']' {
		end := valueEnd(data, i)
		f(i, end)
		if i = jsonscan.SkipSpace(data, end); data[i] == ',' {
			i = jsonscan.SkipSpace(data, i+1)
		}
	}
}

// valueEnd returns the offset behind the value that starts at data[i].
func valueEnd(data []byte, i int) int {
	depth := 0
	for ; ; i++ {
		switch data[i] {
		case '"':
			i = closingQuote(data, i+1)
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return scalarEnd(data, i)
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// scalarEnd returns the offset behind the number or word at data[i].
func scalarEnd(data []byte, i int) int {
	for i < len(data) && strings.IndexByte(",]} \t\r\n", data[i]) < 0 {
		i++
	}
	return i
}

// closingQuote returns the offset of the quote that ends the string whose text
// starts at start.
func closingQuote(data []byte, start int) int {
	for i := start; ; i++ {
		i += bytes.IndexByte(data[i:], '"')
		behind := i // the backslashes before the quote
		for behind > start && data[behind-1] == '\\' {
			behind--
		}
		if (i-behind)%2 == 0 {
			return i
		}
	}
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }
func isArray(value []byte) bool  { return len(value) > 0 && value[0] == '[' }

// get returns the value of a member, nil if value is no object or has none.
// The last one of a repeated key counts.
func get(value []byte, name string) (found []byte) {
	if !isObject(value) {
		return nil
	}
	members(value, func(m member) {
		if jsonscan.KeyIs(value[m.keyStart:m.keyEnd], name) {
			found = value[m.valueStart:m.valueEnd]
		}
	})
	return found
}

// isText reports whether value is a string that says text.
func isText(value []byte, text string) bool {
	return jsonscan.IsString(value) && jsonscan.KeyIs(value, text)
}

// truthy reports whether JavaScript takes a value for true. Flags of entries
// are read as the agent reads them.
func truthy(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch c := value[0]; {
	case c == '"':
		return len(value) > 2
	case c == 't' || c == '{' || c == '[':
		return true
	case c == '-' || '0' <= c && c <= '9':
		n, err := strconv.ParseFloat(string(value), 64)
		return err != nil || n != 0 // out of range is infinite
	}
	return false
}

// text returns a JSON string as a Go string, "" for any other value. A lone
// surrogate becomes U+FFFD.
func text(value []byte) string {
	if !jsonscan.IsString(value) {
		return ""
	}
	s := jsonscan.Unquote(value)
	if bytes.IndexByte(value, '\\') < 0 {
		return string(s)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 {
			b.WriteRune('\uFFFD')
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
