package sessionstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// SessionSummary is one row of [SummaryLister]: what a list of sessions shows,
// kept up to date by every append so that no transcript has to be loaded.
type SessionSummary struct {
	SessionID string          `json:"sessionId"`
	Mtime     int64           `json:"mtime"` // as in [SessionInfo]
	Data      json.RawMessage `json:"data"`  // opaque, the JSON form of a [SummaryState]
}

// SummaryState is the state of the fold that makes a session's summary out of
// the entries of its main transcript. The zero value is the state before the
// first entry. A store folds each entry that it really adds (no repeated uuid,
// nothing of a subpath), in order, and keeps the state beside the transcript,
// in memory as it is or elsewhere as its JSON form. How the entries were split
// into batches makes no difference. Copies are independent of each other.
//
// The JSON form is an object. It has the members and the meanings of the state
// that the official agent SDK keeps, so that either can go on from the other's:
//
//	isSidechain        bool    isSidechain of the very first entry is true
//	createdAt          number  first timestamp that can be read, in ms since 1970
//	cwd                string  first one that is not empty
//	firstPrompt        string  see below
//	firstPromptLocked  bool    firstPrompt has been found
//	commandFallback    string  first slash command before firstPrompt
//	customTitle        string  last one
//	aiTitle            string  last one
//	lastPrompt         string  last one
//	summaryHint        string  last summary
//	gitBranch          string  last one
//	tag                string  of the last entry of type tag
//
// Each is set from the top-level field of that name of an entry of any type,
// except where the table says something else; fields of another JSON type are
// passed over. Of the last ones "" counts. An entry of type tag whose tag is
// empty or missing removes it. Members are written in the order above, and
// strings as the entry spells them. Members that are not in the table come
// behind them and stay as they are: a later version may have put them there.
//
// A timestamp can be read if it has the form of ISO 8601 that JavaScript reads:
// 2006-01-02T15:04:05.999Z, with a year of 4 digits or a sign and 6; month, day,
// the whole time, seconds and fraction may be missing; T may be a space; the
// zone is Z, +hh:mm or +hhmm. Without zone it is UTC here, so that the result
// does not depend on the machine. Below a millisecond it is cut off.
//
// First prompt: until one is found, entries of type user are searched unless
// isMeta or isCompactSummary is true or message.content has a tool_result
// block. Of each text (message.content if it is a string, otherwise the text
// of its text blocks, in order) newlines become spaces and white space around
// it goes. Then the first of these rules that fits decides:
//
//   - Nothing left: next text.
//   - It contains <command-name>x</command-name>: x becomes commandFallback
//     unless there is one that is not empty; next text.
//   - It contains <bash-input>x</bash-input>: the prompt is "! x", x without
//     white space around it. When x is empty: next text.
//   - It is no prompt of a person: it starts with <local-command-stdout>,
//     <session-start-hook>, <tick>, <goal>, <system-reminder> or
//     [Request interrupted by user…], or it starts and ends with the tags of
//     <ide_opened_file> or <ide_selection>; next text.
//   - Otherwise it is the prompt.
//
// A prompt of more than 200 UTF-16 code units is cut there, white space before
// the cut goes, and "…" is added. The cut may halve a surrogate pair; the half
// is kept as an escape. White space is what JavaScript's trim takes away.
type SummaryState struct {
	values [numSummaryFields]string // JSON texts, "" for none
	rest   string                   // other members, each as `,"key":value`
}

// The members of the JSON form, in its order.
const (
	sumIsSidechain = iota
	sumCreatedAt
	sumCwd
	sumFirstPrompt
	sumFirstPromptLocked
	sumCommandFallback
	sumCustomTitle
	sumAITitle
	sumLastPrompt
	sumSummaryHint
	sumGitBranch
	sumTag
	numSummaryFields
)

var summaryFields = [numSummaryFields]struct {
	name, want string // want is the JSON type
}{
	{"isSidechain", "bool"},
	{"createdAt", "number"},
	{"cwd", "string"},
	{"firstPrompt", "string"},
	{"firstPromptLocked", "bool"},
	{"commandFallback", "string"},
	{"customTitle", "string"},
	{"aiTitle", "string"},
	{"lastPrompt", "string"},
	{"summaryHint", "string"},
	{"gitBranch", "string"},
	{"tag", "string"},
}

// FoldSummary folds the entries that an append has added to a main transcript
// into the JSON form of a [SummaryState], for stores that keep it as such. The
// state before the first entry is nil; no bytes, null and {} are read as the
// same. An unreadable state gives an error that wraps [ErrCorrupt].
func FoldSummary(state json.RawMessage, entries []Entry) (json.RawMessage, error) {
	var s SummaryState
	if len(state) > 0 {
		if err := s.UnmarshalJSON(state); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		s.Fold(e)
	}
	if s == (SummaryState{}) {
		return nil, nil
	}
	return s.MarshalJSON()
}

// Members yields the members of the JSON form that this version knows, in its
// order: the name, and the value as JSON text. Stores that keep them apart use
// it.
func (s *SummaryState) Members() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i, v := range s.values {
			if v != "" && !yield(summaryFields[i].name, v) {
				return
			}
		}
	}
}

// MarshalJSON returns the JSON form, one line. Equal states give equal bytes.
func (s SummaryState) MarshalJSON() ([]byte, error) {
	size := len(s.rest) + 2
	for i, v := range s.values {
		size += len(v) + len(summaryFields[i].name) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, v := range s.values {
		if v != "" {
			out = append(out, ',', '"')
			out = append(out, summaryFields[i].name...)
			out = append(out, '"', ':')
			out = append(out, v...)
		}
	}
	out = append(out, s.rest...)
	if len(out) > 1 {
		out = append(out[:1], out[2:]...) // the first comma
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads the JSON form; null is the state before the first entry.
// The error wraps [ErrCorrupt], and s is unchanged then.
func (s *SummaryState) UnmarshalJSON(data []byte) error {
	var (
		read SummaryState
		rest []byte
		bad  error
	)
	if string(bytes.TrimSpace(data)) == "null" {
		*s = read
		return nil
	}
	err := jsonscan.Object(data, func(k, v []byte) {
		for i, f := range summaryFields {
			if jsonscan.KeyIs(k, f.name) {
				if jsonType(v) != f.want && bad == nil {
					bad = fmt.Errorf("%s is not a %s", f.name, f.want)
				}
				read.values[i] = string(v)
				return
			}
		}
		rest = append(append(append(append(rest, ','), k...), ':'), Entry(v).Line()...)
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("%w: session summary: %w", ErrCorrupt, err)
	}
	read.rest = string(rest)
	*s = read
	return nil
}

func jsonType(value []byte) string {
	switch c := value[0]; {
	case c == '"':
		return "string"
	case c == 't' || c == 'f':
		return "bool"
	case c == '-' || '0' <= c && c <= '9':
		return "number"
	}
	return ""
}

// Fold takes in the next entry of the transcript. It keeps none of the entry's
// bytes, and allocates only when the state changes or while the first prompt is
// being looked for. An entry that [Entry.Validate] refuses changes nothing.
func (s *SummaryState) Fold(e Entry) {
	var f entryFields
	if jsonscan.Object(e, f.member) == nil {
		s.fold(&f)
	}
}

// FoldChecked is [SummaryState.Fold] for an entry that [Check] has scanned
// already, which spares it a second scan.
func (s *SummaryState) FoldChecked(c *Checked) { s.fold(&c.fields) }

func (s *SummaryState) fold(f *entryFields) {
	if s.values[sumIsSidechain] == "" {
		s.values[sumIsSidechain] = strconv.FormatBool(isTrue(f.isSidechain))
	}
	if s.values[sumCreatedAt] == "" && jsonscan.IsString(f.timestamp) {
		if ms, ok := parseDate(jsonscan.Unquote(f.timestamp)); ok {
			s.values[sumCreatedAt] = strconv.FormatInt(ms, 10)
		}
	}
	if s.values[sumCwd] == "" && isFilled(f.cwd) {
		s.values[sumCwd] = string(f.cwd)
	}
	if s.values[sumFirstPromptLocked] != "true" && isText(f.typ, "user") && !isTrue(f.isMeta) && !isTrue(f.isCompactSummary) {
		s.findPrompt(f.message)
	}
	s.last(sumCustomTitle, f.customTitle)
	s.last(sumAITitle, f.aiTitle)
	s.last(sumLastPrompt, f.lastPrompt)
	s.last(sumSummaryHint, f.summary)
	s.last(sumGitBranch, f.gitBranch)
	if isText(f.typ, "tag") {
		if isFilled(f.tag) {
			s.last(sumTag, f.tag)
		} else {
			s.values[sumTag] = ""
		}
	}
}

// last sets a member whose last string wins. Most entries repeat what is there
// (gitBranch stands on each of them), and that must cost nothing.
func (s *SummaryState) last(field int, value []byte) {
	if jsonscan.IsString(value) && s.values[field] != string(value) {
		s.values[field] = string(value)
	}
}

// entryFields are the top-level values of an entry that stores and the fold
// read.
type entryFields struct {
	uuid, typ, timestamp, message, cwd, isSidechain, isMeta, isCompactSummary []byte
	customTitle, aiTitle, lastPrompt, summary, gitBranch, tag                 []byte
}

func (f *entryFields) member(key, value []byte) {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = jsonscan.Unquote(key)
	}
	switch string(name) {
	case "uuid":
		f.uuid = value
	case "type":
		f.typ = value
	case "timestamp":
		f.timestamp = value
	case "message":
		f.message = value
	case "cwd":
		f.cwd = value
	case "isSidechain":
		f.isSidechain = value
	case "isMeta":
		f.isMeta = value
	case "isCompactSummary":
		f.isCompactSummary = value
	case "customTitle":
		f.customTitle = value
	case "aiTitle":
		f.aiTitle = value
	case "lastPrompt":
		f.lastPrompt = value
	case "summary":
		f.summary = value
	case "gitBranch":
		f.gitBranch = value
	case "tag":
		f.tag = value
	}
}

func isTrue(value []byte) bool { return string(value) == "true" }

// isFilled reports whether value is a string other than "".
func isFilled(value []byte) bool { return jsonscan.IsString(value) && len(value) > 2 }

// isText reports whether value is a string that says text.
func isText(value []byte, text string) bool {
	return jsonscan.IsString(value) && jsonscan.KeyIs(value, text)
}

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

// closingQuote returns the index of the quote that ends the string whose text
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

var isoDate = regexp.MustCompile(`^(\d{4}|[+-]\d{6})(?:-(\d\d)(?:-(\d\d))?)?` +
	`(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-]\d\d):?(\d\d))?)?$`)

// parseDate reads a timestamp as Date.parse of JavaScript does, as far as the
// text has the form of ISO 8601, and takes UTC where there is no zone. Like
// V8 it lets the 31st of a shorter month run into the next one.
func parseDate(text []byte) (ms int64, ok bool) {
	// Nearly all are of this form, and a store may parse one for every entry.
	const form = "2006-01-02T15:04:05"
	var t time.Time
	// What the library takes beyond this (hours of one digit, zones of 24 h) is
	// for the other one to judge.
	usual := len(text) > len(form) && text[13] == ':' && text[16] == ':' && text[19] != ',' && text[len(text)-1] == 'Z'
	if usual && t.UnmarshalText(text) == nil {
		return t.UnixMilli(), true
	}
	return parseOddDate(text)
}

func parseOddDate(text []byte) (ms int64, ok bool) {
	m := isoDate.FindSubmatch(text)
	if m == nil || string(m[1]) == "-000000" {
		return 0, false
	}
	number := func(i, missing, low, high int) int {
		if m[i] == nil {
			return missing
		}
		n, err := strconv.Atoi(string(m[i]))
		if err != nil || n < low || n > high {
			ok = false
		}
		return n
	}
	ok = true
	year, month, day := number(1, 0, -999999, 999999), number(2, 1, 1, 12), number(3, 1, 1, 31)
	hour, minute, second := number(4, 0, 0, 24), number(5, 0, 0, 59), number(6, 0, 0, 59)
	zoneHour, zoneMinute := number(8, 0, -23, 23), number(9, 0, 0, 59)
	if len(m[8]) > 0 && m[8][0] == '-' {
		zoneMinute = -zoneMinute
	}
	fraction, _ := strconv.Atoi((string(m[7]) + "000")[:3])
	if hour == 24 && (minute != 0 || second != 0 || len(bytes.Trim(m[7], "0")) > 0) {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour-zoneHour, minute-zoneMinute, second, 0, time.UTC)
	ms = t.UnixMilli() + int64(fraction)
	const limit = 8.64e15 // of a JavaScript date
	return ms, ok && -limit <= ms && ms <= limit
}
