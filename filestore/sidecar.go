package filestore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// The agent keeps the metadata of a subagent beside its transcript, as one
// object without the type that it has as an entry.

// sidecarText returns what the sidecar of a metadata entry holds. Only the
// member goes that makes it such an entry, the last one if there are several.
func sidecarText(e sessionstore.Entry) []byte {
	text := append(make([]byte, 0, len(e)), '{')
	return append(appendMembers(text, e, countTypes(e)), '}')
}

// sidecarEntry is the inverse.
func sidecarEntry(text []byte) (sessionstore.Entry, error) {
	text = bytes.TrimRight(text, "\x00\r\n")
	if err := sessionstore.Entry(text).Validate(); err != nil {
		return nil, err
	}
	const ours = `"type":"` + metadataType + `"`
	members := appendMembers(nil, sessionstore.Entry(text).Line(), 0)
	switch {
	case len(members) == 0:
		return sessionstore.Entry("{" + ours + "}"), nil
	case countTypes(text) == 0:
		return slices.Concat([]byte("{"+ours+","), members, []byte("}")), nil
	}
	// The last of a repeated key counts, so ours has to be behind the others.
	return slices.Concat([]byte("{"), members, []byte(","+ours+"}")), nil
}

func countTypes(e []byte) (n int) {
	jsonscan.Object(e, func(key, _ []byte) {
		if jsonscan.KeyIs(key, "type") {
			n++
		}
	})
	return n
}

// appendMembers appends the members of a valid object, as they stand in it. It
// leaves out the type member with the given number, which counts from 1.
func appendMembers(out []byte, e sessionstore.Entry, without int) []byte {
	types, first := 0, true
	jsonscan.Object(e, func(key, value []byte) {
		if jsonscan.KeyIs(key, "type") {
			if types++; types == without {
				return
			}
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		// Both are parts of e, so what their capacity lacks is where they start.
		start := cap(e) - cap(key)
		end := cap(e) - cap(value) + len(value)
		out = append(out, e[start:end]...)
	})
	return out
}

// readSidecar reads the metadata entry of a transcript. Bad says why the file
// holds none.
func readSidecar(f *os.File, size int64) (e sessionstore.Entry, bad, err error) {
	if size > sessionstore.MaxEntryLen {
		return nil, fmt.Errorf("%w: %d bytes", sessionstore.ErrInvalidEntry, size), nil
	}
	text, err := io.ReadAll(io.LimitReader(f, sessionstore.MaxEntryLen))
	if err != nil {
		return nil, nil, err
	}
	e, bad = sidecarEntry(text)
	return e, bad, nil
}

// idOf returns the uuid of a metadata entry. No entry has none.
func idOf(e sessionstore.Entry) (id idset.ID, ok bool) {
	if uuid := e.UUID(); uuid != "" {
		return idset.Of([]byte(uuid)), true
	}
	return id, false
}

// Names of files that are not in place yet. They cannot be names of a key.
const (
	tempPrefix = ".sessionstore-"
	tempSuffix = ".tmp"
)

func isTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// writeTemp writes a new file, which the caller renames or removes.
func (s *Store) writeTemp(dir string, text []byte) (name string, err error) {
	var random [8]byte
	rand.Read(random[:]) // never fails
	name = path.Join(dir, tempPrefix+hex.EncodeToString(random[:])+tempSuffix)
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	n, err := s.calls.write(f, text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err == nil && s.opts.Fsync {
		err = s.calls.sync(f)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		s.root.Remove(name)
		return "", err
	}
	return name, nil
}

// syncDirs brings the names in a directory, and those on the way to it, to disk.
func (s *Store) syncDirs(dir string) error {
	if !s.opts.Fsync {
		return nil
	}
	for ; ; dir = path.Dir(dir) {
		f, err := s.openDirFile(dir)
		if err != nil {
			return err
		}
		err = s.calls.sync(f)
		f.Close()
		if err != nil || dir == "." {
			return err
		}
	}
}
