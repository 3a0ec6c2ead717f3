package memory

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Lines end with a line feed and nothing else. A text without one at its end
// has a last line all the same; an empty text has no lines.

func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// lineAt returns the number of the line, from 1, in which an offset lies.
func lineAt(text []byte, offset int) int { return bytes.Count(text[:offset], []byte("\n")) + 1 }

// lineStart returns the offset behind the first n lines, len(text) at most.
func lineStart(text []byte, n int) int {
	offset := 0
	for range n {
		i := bytes.IndexByte(text[offset:], '\n')
		if i < 0 {
			return len(text)
		}
		offset += i + 1
	}
	return offset
}

// numbered writes the lines from first to last with their numbers. It stops
// before a line with which the text would exceed maxChars (0 is no limit), but
// writes a part of the first line rather than nothing. It returns the last line
// it has written, and whether that is cut.
func numbered(b *strings.Builder, text []byte, first, last, maxChars int) (written int, cut bool) {
	text = text[lineStart(text, first-1):]
	b.Grow(min(len(text), 4*maxChars) + 8*(last-first+1))
	chars := 0
	var room [32]byte
	for n := first; n <= last; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if !utf8.Valid(line) {
			line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
		}
		head := appendHead(room[:0], n, n > first)
		chars += utf8.RuneCount(line) + len(head)
		switch {
		case maxChars == 0 || chars <= maxChars:
			b.Write(head)
			b.Write(line)
		case n > first:
			return n - 1, false
		default:
			b.WriteString(firstChars(string(head)+string(line), maxChars))
			return n, true
		}
	}
	return last, false
}

// appendHead writes what stands before a line: its number, right-aligned in 6
// columns, and a tab.
func appendHead(to []byte, n int, notFirst bool) []byte {
	if notFirst {
		to = append(to, '\n')
	}
	for width := 100_000; width > 1 && n < width; width /= 10 {
		to = append(to, ' ')
	}
	return append(strconv.AppendInt(to, int64(n), 10), '\t')
}

// firstChars returns the first n characters of s.
func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
