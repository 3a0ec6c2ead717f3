package jsonl

import (
	"bytes"
	"errors"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// ErrTooLong is why a line beyond the limit was skipped.
var ErrTooLong = errors.New("line is longer than the limit")

// Entry is a good line: one JSON object.
type Entry struct {
	// Data is the object, without NUL bytes and carriage returns around it.
	// Like that of [Line] it is valid until the next call unless Owned is set.
	Data  []byte
	Owned bool
	// UUID is the decoded top-level field, empty where there is none. It may
	// share bytes with Data.
	UUID []byte
	// Line counts from 1, Offset is where the line starts.
	Line, Offset int64
	// Torn says that no line feed follows: a writer may not be done yet.
	Torn bool
}

// Skip is a line that holds no entry.
type Skip struct {
	Line   int64 // from 1
	Offset int64 // where the line starts, in bytes
	Length int64 // in bytes, without the line feed
	Torn   bool  // it is the last line and has no line feed
	Err    error // what is wrong with it
}

// Entries reads the good lines of a file.
type Entries struct {
	lines  *Lines
	onSkip func(Skip)
}

// NewEntries reads from lines. It calls onSkip, which may be nil, for each line
// that is not one JSON object in UTF-8.
func NewEntries(lines *Lines, onSkip func(Skip)) *Entries {
	return &Entries{lines: lines, onSkip: onSkip}
}

// Next returns the next entry. Its errors are those of [Lines.Next].
func (e *Entries) Next() (Entry, error) {
	for {
		line, err := e.lines.Next()
		if err != nil {
			return Entry{}, err
		}
		entry, err := parse(line)
		if err == nil {
			return entry, nil
		}
		if e.onSkip != nil {
			e.onSkip(Skip{line.Number, line.Offset, line.Length, line.Torn, err})
		}
	}
}

func parse(line Line) (Entry, error) {
	if line.TooLong {
		return Entry{}, ErrTooLong
	}
	data := trimPadding(line.Data)
	var uuid []byte
	err := jsonscan.Object(data, func(k, v []byte) {
		if jsonscan.KeyIs(k, "uuid") {
			uuid = v
		}
	})
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{
		Data: data, Owned: line.Owned,
		Line: line.Number, Offset: line.Offset, Torn: line.Torn,
	}
	if jsonscan.IsString(uuid) {
		entry.UUID = jsonscan.Unquote(uuid)
	}
	return entry, nil
}

// trimPadding takes off what crashes and other systems put around an object: a
// file that had grown before its data reached the disk holds NUL bytes there.
func trimPadding(data []byte) []byte {
	data = bytes.TrimRight(data, "\x00\r")
	return bytes.TrimLeft(data, "\x00")
}
