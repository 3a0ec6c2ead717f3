package mirror

import (
	"bytes"
	"encoding/json"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// Lines are looked at before they are whole, and a frame must give up its good
// entries although one of them is no JSON. So this scanner finds where values
// end without judging them. What it finds is judged by the store.

// Results of the scanning functions besides an index.
const (
	needMore = -1 // the text ends before the value
	notJSON  = -2
)

// skipString takes the index behind an opening quote and returns the one behind
// the closing quote, or needMore.
func skipString(data []byte, i int) int {
	for {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return needMore
		}
		end := i + n
		slashes := end
		for slashes > i && data[slashes-1] == '\\' {
			slashes--
		}
		i = end + 1
		if (end-slashes)%2 == 0 {
			return i
		}
	}
}

// skipValue takes the index of a value and returns the one behind it, needMore
// or notJSON.
func skipValue(data []byte, i int) int {
	switch data[i] {
	case '"':
		return skipString(data, i+1)
	case '{', '[':
		return skipContainer(data, i)
	}
	start := i
	for ; i < len(data); i++ {
		switch data[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			if i == start {
				return notJSON
			}
			return i
		case '{', '[', '"', ':':
			return notJSON
		}
	}
	return needMore
}

func skipContainer(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			if i = skipString(data, i+1); i < 0 {
				return needMore
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return needMore
}

// members calls member with the key and the start of the value of each
// top-level member of the object that data begins with. Member returns the
// index behind the value, or one of the results above, which ends the scan.
// members returns the index behind the object, or what ended the scan.
func members(data []byte, member func(key []byte, value int) int) int {
	i := jsonscan.SkipSpace(data, 0)
	if i == len(data) {
		return needMore
	}
	if data[i] != '{' {
		return notJSON
	}
	i = jsonscan.SkipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	for {
		key, value := memberKey(data, i)
		if value < 0 {
			return value
		}
		if i = member(key, value); i < 0 {
			return i
		}
		i = jsonscan.SkipSpace(data, i)
		switch {
		case i == len(data):
			return needMore
		case data[i] == '}':
			return i + 1
		case data[i] != ',':
			return notJSON
		}
		i = jsonscan.SkipSpace(data, i+1)
	}
}

// memberKey reads a key and its colon, and returns where the value starts.
func memberKey(data []byte, i int) (key []byte, value int) {
	if i == len(data) {
		return nil, needMore
	}
	if data[i] != '"' {
		return nil, notJSON
	}
	end := skipString(data, i+1)
	if end < 0 {
		return nil, needMore
	}
	key = data[i:end]
	i = jsonscan.SkipSpace(data, end)
	if i == len(data) {
		return nil, needMore
	}
	if data[i] != ':' {
		return nil, notJSON
	}
	if i = jsonscan.SkipSpace(data, i+1); i == len(data) {
		return nil, needMore
	}
	return key, i
}

// lineKind says what is to be done with a line.
type lineKind int

const (
	undecided lineKind = iota // its type has not come yet
	ordinary
	frameLine
	resultLine
)

// classify looks for the type of a message in what has come of its line. Only
// the first member "type" counts.
func classify(line []byte) lineKind {
	if kind := classifyQuickly(line); kind != undecided {
		return kind
	}
	kind := ordinary
	end := members(line, func(key []byte, value int) int {
		if !isKey(key, "type") {
			return skipValue(line, value)
		}
		if line[value] != '"' {
			return notJSON // or not a type
		}
		end := skipString(line, value+1)
		if end > 0 {
			kind = kindOf(line[value:end])
			return notJSON // enough is known
		}
		return end
	})
	if end == needMore {
		return undecided
	}
	return kind
}

// classifyQuickly knows lines that are spelled as agents spell them.
func classifyQuickly(line []byte) lineKind {
	const start = `{"type":"`
	if len(line) < len(start) || string(line[:len(start)]) != start {
		return undecided
	}
	n := bytes.IndexByte(line[len(start):], '"')
	if n < 0 {
		return undecided
	}
	return kindOf(line[len(start)-1 : len(start)+n+1])
}

// kindOf takes a string literal. One that ends in a backslash may not be whole.
func kindOf(literal []byte) lineKind {
	if bytes.IndexByte(literal, '\\') >= 0 {
		if len(literal) > 2 && literal[len(literal)-2] == '\\' {
			return undecided
		}
		text, _ := unquote(literal)
		literal = []byte(`"` + text + `"`)
	}
	switch string(literal) {
	case `"transcript_mirror"`:
		return frameLine
	case `"result"`:
		return resultLine
	}
	return ordinary
}

func isKey(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return len(key) == len(name)+2 && string(key[1:len(key)-1]) == name
	}
	text, ok := unquote(key)
	return ok && text == name
}

// unquote decodes a string literal that nobody has checked.
func unquote(literal []byte) (string, bool) {
	if !json.Valid(literal) {
		return "", false
	}
	return string(jsonscan.Unquote(literal)), true
}

// frameParts are what a frame holds. Entries alias the line.
type frameParts struct {
	path    string
	entries []sessionstore.Entry
	broken  bool   // it is not a whole object, or lacks something
	rest    []byte // what follows it, unless that is only space
}

// parseFrame takes a frame apart. Of a broken one it gives the entries that are
// whole.
func parseFrame(line []byte) frameParts {
	var f frameParts
	hasPath, hasEntries := false, false
	end := members(line, func(key []byte, value int) int {
		switch {
		case isKey(key, "filePath") && line[value] == '"':
			end := skipString(line, value+1)
			if end > 0 {
				f.path, hasPath = unquote(line[value:end])
			}
			return end
		case isKey(key, "entries") && line[value] == '[':
			var end int
			f.entries, end = elements(line, value)
			hasEntries = end > 0
			return end
		}
		return skipValue(line, value)
	})
	f.broken = end < 0 || !hasPath || !hasEntries
	if end > 0 && jsonscan.SkipSpace(line, end) < len(line) {
		f.rest = line[end:]
	}
	return f
}

// elements splits the array at i, and returns the index behind it or what ended
// the scan.
func elements(data []byte, i int) (list []sessionstore.Entry, end int) {
	i = jsonscan.SkipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return nil, i + 1
	}
	for i < len(data) {
		end := skipValue(data, i)
		if end < 0 {
			return list, end
		}
		list = append(list, data[i:end:end])
		i = jsonscan.SkipSpace(data, end)
		switch {
		case i == len(data):
			return list, needMore
		case data[i] == ']':
			return list, i + 1
		case data[i] != ',':
			return list, notJSON
		}
		i = jsonscan.SkipSpace(data, i+1)
	}
	return list, needMore
}
