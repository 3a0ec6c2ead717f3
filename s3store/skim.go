package s3store

import (
	"bytes"
	"errors"

	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// scan checks an entry and finds its identity.
func scan(data []byte) (line, error) {
	var uuid []byte
	err := jsonscan.Object(data, func(k, v []byte) {
		if jsonscan.KeyIs(k, "uuid") {
			uuid = v
		}
	})
	if err != nil {
		return line{}, err
	}
	return identified(data, uuid), nil
}

// skim is scan for an entry that was checked when it was put together with
// others. Most of a long entry is text in which there is nothing to find, so it
// looks for the key alone; reading a long session would otherwise take longer
// than fetching it. What is not plain is left to walk.
func skim(data []byte) (line, error) {
	if len(data) < 2 || data[len(data)-1] != '}' {
		return walk(data)
	}
	at := -1 // of the key, with its quotes
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], 'u')
		if n < 0 {
			break
		}
		i += n
		rest := data[i:]
		switch {
		case i == 0 || len(rest) < len(`uuid"`):
		case data[i-1] == '"' && string(rest[:5]) == `uuid"`:
			if at >= 0 {
				return walk(data) // the last one counts, or one is further down
			}
			at = i - 1
			i += 4
		case data[i-1] == '\\' && rest[1] == '0' && rest[2] == '0' && (rest[3] == '6' || rest[3] == '7'):
			return walk(data) // it may be a letter of the key
		}
		i++
	}
	if at < 0 {
		return line{data: data}, nil
	}
	return keyAt(data, at)
}

// keyAt finds the identity in an entry with a single "uuid" in it, which may be
// a key or a value, at the top or further down, or the end of a text.
func keyAt(data []byte, at int) (line, error) {
	if at == 0 || data[at-1] == '\\' {
		return walk(data)
	}
	const length = len(`"uuid"`)
	i := jsonscan.SkipSpace(data, at+length)
	if i == len(data) || data[i] != ':' {
		return line{data: data}, nil // a value
	}
	i = jsonscan.SkipSpace(data, i+1)
	// What lies before it, or what lies behind it, tells how deep it is.
	depth := 0
	if at < len(data)-i {
		depth = balance(data[:at])
	} else {
		depth = -balance(data[i:])
	}
	if depth < 1 || i == len(data) {
		return line{}, errUnbalanced
	}
	if depth > 1 || data[i] != '"' {
		return line{data: data}, nil
	}
	end := stringEnd(data, i+1)
	if end < 0 {
		return line{}, errUnbalanced
	}
	return identified(data, data[i:end]), nil
}

// balance counts how many more brackets are opened than closed.
func balance(data []byte) (depth int) {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := stringEnd(data, i+1)
			if end < 0 {
				return depth
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return depth
}

// walk finds the identity of an entry by looking where strings, objects and
// arrays begin and end.
func walk(data []byte) (line, error) {
	var uuid []byte
	depth := 0
	key, uuidIsNext := false, false // what a string at the top level would be
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := stringEnd(data, i+1)
			if end < 0 {
				return line{}, errUnbalanced
			}
			if depth == 1 {
				literal := data[i:end]
				if key {
					if key, uuidIsNext = false, jsonscan.KeyIs(literal, "uuid"); uuidIsNext {
						uuid = nil
					}
				} else if uuidIsNext {
					uuid, uuidIsNext = literal, false
				}
			}
			i = end - 1
		case '{', '[':
			depth++
			key = depth == 1
		case '}', ']':
			depth--
		case ',':
			if depth == 1 {
				key, uuidIsNext = true, false
			}
		}
	}
	if depth != 0 || len(data) == 0 {
		return line{}, errUnbalanced
	}
	return identified(data, uuid), nil
}

var errUnbalanced = errors.New("unbalanced quotes or brackets")

// stringEnd returns the index behind the quote that ends a string.
func stringEnd(data []byte, i int) int {
	for {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		backslashes := 0
		for quote-backslashes > i && data[quote-backslashes-1] == '\\' {
			backslashes++
		}
		i = quote + 1
		if backslashes%2 == 0 {
			return i
		}
	}
}

func identified(data, uuid []byte) line {
	l := line{data: data}
	if jsonscan.IsString(uuid) {
		if text := jsonscan.Unquote(uuid); len(text) > 0 {
			l.id, l.hasID = idset.Of(text), true
		}
	}
	return l
}
