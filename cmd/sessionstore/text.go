package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// colorCodes matches sequences that only colour text. Command output is full
// of them, and without them it reads better than with visible escapes.
var colorCodes = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// clean makes text from a transcript safe to print: what could control the
// terminal or hide text becomes visible. Line breaks stay, tabs become spaces.
func clean(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.Contains(s, "\x1b[") {
		s = colorCodes.ReplaceAllString(s, "")
	}
	var b strings.Builder
	b.Grow(len(s))
	before, from := rune(' '), 0 // what lies behind from stays as it is
	for i, r := range s {
		if r >= 0x20 && r < 0x7F {
			before = r
			continue
		}
		if put := cleaned(before, r, s[i+utf8.RuneLen(r):]); put != "" {
			b.WriteString(s[from:i])
			b.WriteString(put)
			from = i + utf8.RuneLen(r)
		}
		before = r
	}
	b.WriteString(s[from:])
	return b.String()
}

// cleaned returns what stands for a character between two others, or "" if it
// may stay.
func cleaned(before, r rune, behind string) string {
	switch {
	case r == '\n':
		return ""
	case r == '\u2028', r == '\u2029', r == '\u0085':
		return "\n"
	case r == '\t':
		return "    "
	case r < 0x20:
		return string('\u2400' + r) // the picture of the control character
	case r == 0x7F:
		return "\u2421"
	case unicode.IsControl(r), changesDirection(r), isInvisible(r),
		isJoiner(r) && !(joins(before) && joins(firstRune(behind))):
		return "\uFFFD"
	}
	return ""
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\n' && (c < 0x20 || c >= 0x7F) {
			return false
		}
	}
	return true
}

// escapeJSON escapes in JSON what the encoder leaves as it is: characters that
// control a terminal, change the direction of text, or are invisible.
func escapeJSON(s string) string {
	var b strings.Builder
	from := 0
	for i, r := range s {
		if r < 0x7F || !unicode.IsControl(r) && !changesDirection(r) && !isInvisible(r) {
			continue
		}
		b.WriteString(s[from:i])
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
		from = i + utf8.RuneLen(r)
	}
	if from == 0 {
		return s
	}
	return b.String() + s[from:]
}

// changesDirection recognises the characters that make a terminal show text in
// another order than it is stored.
func changesDirection(r rune) bool {
	return '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069' ||
		r == '\u200E' || r == '\u200F' || r == '\u061C'
}

// isInvisible recognises characters that have no width and no use on a
// terminal. Text can be hidden in them, or two names made to look the same.
func isInvisible(r rune) bool {
	switch r {
	case '\u00AD', '\u034F', '\u180E', '\u200B', '\uFEFF', '\uFFF9', '\uFFFA', '\uFFFB':
		return true
	}
	return '\u2060' <= r && r <= '\u2065' || '\u206A' <= r && r <= '\u206F' || '\U000E0000' <= r && r <= '\U000E007F'
}

// isJoiner recognises what makes one picture of several emoji, and letters of
// some scripts look joined or apart.
func isJoiner(r rune) bool { return r == '\u200C' || r == '\u200D' }

// joins reports whether a joiner beside the character may have a meaning.
func joins(r rune) bool {
	return r > 0x7F && unicode.IsGraphic(r) && !unicode.IsSpace(r) && !isInvisible(r)
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return ' '
}

// oneLineOf is oneLine for text that may be huge and is going to be cut.
func oneLineOf(s string) string {
	const enough = 16 * maxTextWidth
	if len(s) > enough {
		s = s[:enough] + "…"
	}
	return oneLine(s)
}

// oneLine makes any text one safe line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(clean(s)), " ")
}

// cut shortens a line to a width in cells.
func cut(s string, width int) string {
	if len(s) <= width {
		return s
	}
	if _, tail := splitAt(s, width); tail == "" {
		return s
	}
	head, _ := splitAt(s, max(0, width-1))
	return strings.TrimRight(head, " ") + "…"
}

// cutFront is cut for names whose end says most.
func cutFront(s string, width int) string {
	if textWidth(s) <= width {
		return s
	}
	for s != "" && textWidth(s) >= width {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	return "…" + s
}

func textWidth(s string) int {
	if isPlain(s) {
		return len(s)
	}
	return uniseg.StringWidth(s)
}

// splitAt splits s behind the characters that fit into width cells, between
// two characters as a reader sees them.
func splitAt(s string, width int) (head, tail string) {
	if len(s) <= width && isPlain(s) {
		return s, ""
	}
	// Most text is ASCII. The next byte must be too: it could be an accent.
	if len(s) > width && isPlain(s[:width+1]) {
		return s[:width], s[width:]
	}
	rest, state, used := s, -1, 0
	for rest != "" {
		var w int
		var next string
		_, next, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width {
			break
		}
		used += w
		rest = next
	}
	return s[:len(s)-len(rest)], rest
}

// wrap breaks clean text into lines of at most width cells. It keeps line
// breaks and the indentation of the text, which may be code.
func wrap(text string, width int, line func(string)) {
	width = max(width, 10)
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(l, " ")
		for {
			head, tail := breakLine(l, width)
			line(head)
			if tail == "" {
				break
			}
			l = tail
		}
	}
}

// breakLine splits a line at the last space that fits, or inside a word that
// is longer than a line.
func breakLine(l string, width int) (head, tail string) {
	head, tail = splitAt(l, width)
	if tail == "" {
		return l, ""
	}
	if head == "" { // wider than a line, whatever it is
		_, n := utf8.DecodeRuneInString(l)
		return l[:n], l[n:]
	}
	if strings.HasPrefix(tail, " ") {
		return strings.TrimRight(head, " "), strings.TrimLeft(tail, " ")
	}
	i := strings.LastIndexByte(head, ' ')
	if i < 0 || strings.TrimLeft(head[:i], " ") == "" {
		return head, tail
	}
	return strings.TrimRight(head[:i], " "), l[i+1:]
}
