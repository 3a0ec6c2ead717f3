package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"github.com/sessionstore/sessionstore"
)

// Rename gives a session a title, by appending an entry. White space around the
// title goes; an empty one is an error. An unknown session gives an error that
// wraps [sessionstore.ErrNotFound], and nothing is written.
func Rename(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, title string) error {
	return opError("rename", key, standard.rename(ctx, store, key, title))
}

func (m maker) rename(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, title string) error {
	title = trim(title)
	if title == "" {
		return errors.New("the title is empty")
	}
	return m.appendEntry(ctx, store, key, "custom-title", "customTitle", title)
}

// Tag gives a session a tag in the place of the one it has, by appending an
// entry; nil takes the tag away. White space around the tag goes; an empty one
// is an error. An unknown session gives an error that wraps
// [sessionstore.ErrNotFound], and nothing is written.
func Tag(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, tag *string) error {
	return opError("tag", key, standard.tag(ctx, store, key, tag))
}

func (m maker) tag(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, tag *string) error {
	value := ""
	if tag != nil {
		if value = trim(*tag); value == "" {
			return errors.New("the tag is empty; nil takes it away")
		}
	}
	return m.appendEntry(ctx, store, key, "tag", "tag", value)
}

// Delete deletes a session with everything that belongs to it. An unknown
// session is no error. On a store that can't delete, nothing happens, as with
// [sessionstore.Delete].
func Delete(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) error {
	err := checkChangeable(key)
	if err == nil {
		err = sessionstore.Delete(ctx, store, key)
	}
	return opError("delete", key, err)
}

// appendEntry appends an entry that has one field of its own to a session that
// exists. Otherwise a slip in an id would make a session that is only a title.
func (m maker) appendEntry(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, typ, field, value string) error {
	if err := checkChangeable(key); err != nil {
		return err
	}
	found, err := exists(ctx, store, key)
	if err != nil {
		return err
	}
	if !found {
		return sessionstore.ErrNotFound
	}
	entry := `{"type":"` + typ + `","` + field + `":` + quote(value) + `,"sessionId":` + quote(key.SessionID) +
		`,"uuid":"` + m.newUUID().String() + `","timestamp":"` + m.timestamp() + `"}`
	return store.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(entry)})
}

// exists reports whether a session has a main transcript, as cheaply as the
// store can tell.
func exists(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) (bool, error) {
	if _, streams := store.(sessionstore.Streamer); !streams {
		list, err := sessionstore.ListSessions(ctx, store, key.ProjectKey)
		if err == nil {
			for _, s := range list {
				if s.SessionID == key.SessionID {
					return true, nil
				}
			}
			return false, nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return false, err
		}
	}
	for _, err := range sessionstore.Stream(ctx, store, key) {
		return err == nil, err
	}
	return false, nil
}

// quote returns a text as JSON. What is not UTF-8 in it becomes U+FFFD.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// trim takes away white space around a text as JavaScript's trim does, so that
// a title is the same whichever SDK wrote it.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return r == '\uFEFF' || r != '\u0085' && unicode.IsSpace(r)
	})
}
