package sessionstore

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// findPrompt looks for the first prompt in the message of a user entry.
func (s *SummaryState) findPrompt(message []byte) {
	content, _ := objectMembers(message, "content", "")
	if jsonscan.IsString(content) {
		s.tryPrompt(content)
		return
	}
	if len(content) == 0 || content[0] != '[' {
		return
	}
	var texts [][]byte
	toolResult := false
	eachElement(content, func(block []byte) {
		switch typ, text := objectMembers(block, "type", "text"); {
		case isText(typ, "tool_result"):
			toolResult = true
		case isText(typ, "text") && jsonscan.IsString(text):
			texts = append(texts, text)
		}
	})
	if toolResult {
		return
	}
	for _, text := range texts {
		if s.tryPrompt(text) {
			return
		}
	}
}

var (
	promptNoise = []string{
		"<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>", "<system-reminder>",
	}
	promptElements = []string{"ide_opened_file", "ide_selection"}
)

// tryPrompt applies the rules for one text, given as a JSON string, and
// reports whether it was the prompt.
func (s *SummaryState) tryPrompt(literal []byte) bool {
	text := string(trimJS(jsonscan.Unquote(literal)))
	text = strings.ReplaceAll(text, "\n", " ")
	if text == "" {
		return false
	}
	if name, ok := commandName(text); ok {
		if v := s.values[sumCommandFallback]; v == "" || v == `""` {
			s.values[sumCommandFallback] = quoteJSON(name)
		}
		return false
	}
	if input, ok := between(text, "<bash-input>", "</bash-input>"); ok {
		input = string(trimJS([]byte(input)))
		if input == "" {
			return false
		}
		text = "! " + input
	} else if isNoise(text) {
		return false
	}
	if head := headUTF16(text, 200); len(head) < len(text) {
		text = string(trimJS([]byte(head))) + "…"
	}
	s.values[sumFirstPrompt] = quoteJSON(text)
	s.values[sumFirstPromptLocked] = "true"
	return true
}

func isNoise(text string) bool {
	for _, prefix := range promptNoise {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	for _, name := range promptElements {
		inner, ok := strings.CutPrefix(text, "<"+name+">")
		if ok && strings.HasSuffix(inner, "</"+name+">") {
			return true
		}
	}
	interrupted, ok := strings.CutPrefix(text, "[Request interrupted by user")
	return ok && strings.Contains(interrupted, "]")
}

// commandName finds the first <command-name> element on one line: a JavaScript
// line terminator inside it makes it no command.
func commandName(text string) (string, bool) {
	for {
		name, ok := between(text, "<command-name>", "</command-name>")
		if !ok {
			return "", false
		}
		i := strings.LastIndexAny(name, "\n\r\u2028\u2029")
		if i < 0 {
			return name, true
		}
		// Go on behind the terminator; another element may start there.
		text = text[strings.Index(text, "<command-name>")+len("<command-name>")+i:]
	}
}

func between(text, start, end string) (string, bool) {
	if _, behind, ok := strings.Cut(text, start); ok {
		inner, _, ok := strings.Cut(behind, end)
		return inner, ok
	}
	return "", false
}

// headUTF16 returns the part of a WTF-8 text that has at most limit UTF-16
// code units. If the limit falls into a surrogate pair, the high half is in.
func headUTF16(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	units := 0
	for i := 0; i < len(text); {
		size, width := 1, 1
		switch c := text[i]; {
		case c >= 0xF0:
			size, width = 4, 2
		case c >= 0xE0:
			size = 3
		case c >= 0x80:
			size = 2
		}
		if units+width > limit {
			if units == limit {
				return text[:i]
			}
			r, _ := utf8.DecodeRuneInString(text[i:])
			high, _ := utf16.EncodeRune(r)
			return text[:i] + string([]byte{0xED, 0x80 | byte(high>>6)&0x3F, 0x80 | byte(high)&0x3F})
		}
		units += width
		i += size
	}
	return text
}

// trimJS trims what String.prototype.trim of JavaScript does. That is not
// [bytes.TrimSpace]: U+FEFF is white space there and U+0085 is not.
func trimJS(text []byte) []byte {
	return bytes.TrimFunc(text, func(r rune) bool {
		switch r {
		case '\t', '\n', '\v', '\f', '\r', ' ', 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF:
			return true
		}
		return 0x2000 <= r && r <= 0x200A
	})
}

// quoteJSON writes a WTF-8 text as a JSON string, lone surrogates and control
// characters as escapes and everything else as it is.
func quoteJSON(text string) string {
	out := append(make([]byte, 0, len(text)+2), '"')
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < 0x20:
			out = fmt.Appendf(out, `\u%04x`, c)
		case c == 0xED && i+2 < len(text) && text[i+1] >= 0xA0:
			out = fmt.Appendf(out, `\ud%03x`, rune(text[i+1]&0x3F)<<6|rune(text[i+2]&0x3F))
			i += 2
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}

// objectMembers returns the values of two members, nil where there is none or
// value is no object. Like everywhere, the last one of a repeated key counts.
func objectMembers(value []byte, name1, name2 string) (found1, found2 []byte) {
	if len(value) == 0 || value[0] != '{' {
		return nil, nil
	}
	// The entry that value is part of has been checked: there is no error.
	_ = jsonscan.Object(value, func(k, v []byte) {
		switch {
		case jsonscan.KeyIs(k, name1):
			found1 = v
		case jsonscan.KeyIs(k, name2):
			found2 = v
		}
	})
	return found1, found2
}

// eachElement calls f for each element of a valid JSON array. White space may
// be left behind an element.
func eachElement(array []byte, f func(element []byte)) {
	start, depth := jsonscan.SkipSpace(array, 1), 0
	for i := start; i < len(array); i++ {
		switch array[i] {
		case '"':
			i = closingQuote(array, i+1)
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth >= 0 {
				continue
			}
			if i > start {
				f(array[start:i])
			}
			return
		case ',':
			if depth == 0 {
				f(array[start:i])
				start = jsonscan.SkipSpace(array, i+1)
			}
		}
	}
}
