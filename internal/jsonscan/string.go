package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// IsString reports whether a value found by [Object] is a string.
func IsString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// KeyIs reports whether a key found by [Object] spells name, escaped or not.
func KeyIs(key []byte, name string) bool {
	if len(key) == len(name)+2 {
		return string(key[1:len(key)-1]) == name
	}
	// An escaped spelling is longer than the name.
	return len(key) > len(name)+2 && bytes.IndexByte(key, '\\') >= 0 && string(Unquote(key)) == name
}

// Unquote returns the text of a string literal found by [Object]. Without
// escapes the result aliases the literal. A lone surrogate becomes its three
// bytes of generalised UTF-8 (WTF-8), so that different literals of different
// texts never become equal.
func Unquote(literal []byte) []byte {
	in := literal[1 : len(literal)-1]
	first := bytes.IndexByte(in, '\\')
	if first < 0 {
		return in
	}
	out := make([]byte, first, len(in))
	copy(out, in)
	for i := first; i < len(in); {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		if in[i+1] != 'u' {
			out = append(out, unescape(in[i+1]))
			i += 2
			continue
		}
		r, _ := hex4(in[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			if low, ok := lowSurrogate(in[i:]); ok && r < 0xDC00 {
				r = utf16.DecodeRune(r, low)
				i += 6
			} else {
				out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
				continue
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func lowSurrogate(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	r, ok := hex4(in[2:])
	return r, ok && 0xDC00 <= r && r <= 0xDFFF
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}
