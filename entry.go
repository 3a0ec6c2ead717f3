package sessionstore

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// MaxEntryLen is the length of the longest entry that stores accept, in bytes.
const MaxEntryLen = 256 << 20

// Entry is one entry of a transcript: the raw bytes of one JSON object.
// Nothing in this module decodes and encodes an entry again, so numbers, key
// order, repeated keys and escapes stay as they were written.
//
// The methods that read a field scan the bytes each time. They return the zero
// value when the field is missing or is no string, and when the entry is not
// valid. Keys count by exact case, and the last one counts if one is repeated.
type Entry []byte

// Validate reports whether e is one JSON object in UTF-8, nested at most
// 10,000 levels deep and at most [MaxEntryLen] bytes long. Fields are not
// looked at: an entry without type is valid. The error wraps
// [ErrInvalidEntry].
func (e Entry) Validate() error {
	_, err := check(e)
	return err
}

// Type returns the top-level field "type".
func (e Entry) Type() string { h, _ := check(e); return string(h.Type) }

// UUID returns the top-level field "uuid", which identifies the entry within
// its transcript. An empty string is no identity. A lone surrogate in it is
// given as its three bytes of WTF-8, so that different ids stay different.
func (e Entry) UUID() string { h, _ := check(e); return string(h.UUID) }

// Timestamp returns the top-level field "timestamp" if it is a time in the
// form of RFC 3339. Transcripts are never ordered by it.
func (e Entry) Timestamp() (time.Time, bool) {
	var text string
	err := jsonscan.Object(e, func(k, v []byte) {
		if jsonscan.KeyIs(k, "timestamp") {
			text = ""
			if jsonscan.IsString(v) {
				text = string(jsonscan.Unquote(v))
			}
		}
	})
	if err != nil || text == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t, err == nil
}

// Equal reports whether two entries have the same value: members in any order,
// 1e2 equal to 100, "\u0061" equal to "a". Numbers are compared exactly, -0
// differs from 0, and a repeated key differs from a single one. Entries that
// are not valid are equal only when their bytes are.
func (e Entry) Equal(other Entry) bool {
	if bytes.Equal(e, other) {
		return true
	}
	if e.Validate() != nil || other.Validate() != nil {
		return false
	}
	return jsonscan.Equal(e, other)
}

// Line returns the entry as one line: without its line breaks, if it has any.
// A valid entry can have them only between tokens, where they mean nothing.
func (e Entry) Line() Entry {
	if bytes.IndexByte(e, '\n') < 0 && bytes.IndexByte(e, '\r') < 0 {
		return e
	}
	line := make(Entry, 0, len(e))
	for _, c := range e {
		if c != '\n' && c != '\r' {
			line = append(line, c)
		}
	}
	return line
}

// String returns the entry's text.
func (e Entry) String() string { return string(e) }

// MarshalJSON returns the entry itself.
func (e Entry) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	return e, nil
}

// UnmarshalJSON keeps a copy of the text.
func (e *Entry) UnmarshalJSON(data []byte) error {
	*e = append((*e)[:0:0], data...)
	return nil
}

// Checked is one entry of a batch that [Check] has found valid.
type Checked struct {
	// Line is the entry as one line. It shares its bytes with the caller's
	// entry unless line breaks had to be taken out.
	Line Entry
	// Type and UUID are the decoded fields, empty where there is none. They
	// may share bytes with the entry.
	Type, UUID []byte

	fields entryFields // for SummaryState.FoldChecked
}

// Check is the first thing that a store does in Append: it validates the key
// and every entry, and returns for each entry what a store needs to know. The
// errors wrap [ErrInvalidKey] or [ErrInvalidEntry] and name the fault.
func Check(key Key, entries []Entry) ([]Checked, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, nil
	}
	batch := make([]Checked, len(entries))
	for i, e := range entries {
		c, err := check(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		batch[i] = c
	}
	return batch, nil
}

func check(e Entry) (Checked, error) {
	c := Checked{}
	if len(e) > MaxEntryLen {
		return c, fmt.Errorf("%w: %d bytes, the limit is %d", ErrInvalidEntry, len(e), MaxEntryLen)
	}
	if err := jsonscan.Object(e, c.fields.member); err != nil {
		return Checked{}, fmt.Errorf("%w: %w", ErrInvalidEntry, err)
	}
	if jsonscan.IsString(c.fields.typ) {
		c.Type = jsonscan.Unquote(c.fields.typ)
	}
	if jsonscan.IsString(c.fields.uuid) {
		c.UUID = jsonscan.Unquote(c.fields.uuid)
	}
	c.Line = e.Line()
	return c, nil
}
