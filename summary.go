package sessionstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

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
