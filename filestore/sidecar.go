package filestore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// The agent keeps the metadata of a subagent beside its transcript, as one
// object without the type that it has as an entry.

// sidecarText returns what the sidecar of a metadata entry holds.
func sidecarText(e sessionstore.Entry) []byte {
	return append(append([]byte{'{'}, membersWithoutType(e)...), '}')
}

// sidecarEntry is the inverse.
func sidecarEntry(text []byte) (sessionstore.Entry, error) {
	text = bytes.TrimRight(text, "\x00\r\n")
	if err := sessionstore.Entry(text).Validate(); err != nil {
		return nil, err
	}
	e := sessionstore.Entry(`{"type":"` + metadataType + `"`)
	if rest := membersWithoutType(sessionstore.Entry(text).Line()); len(rest) > 0 {
		e = append(append(e, ','), rest...)
	}
	return append(e, '}'), nil
}

// membersWithoutType returns the members of a valid object, as they stand in
// it, without the braces.
func membersWithoutType(e sessionstore.Entry) []byte {
	out := make([]byte, 0, len(e))
	jsonscan.Object(e, func(key, value []byte) {
		if jsonscan.KeyIs(key, "type") {
			return
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		// Both are parts of e, so what their capacity lacks is where they start.
		start := cap(e) - cap(key)
		end := cap(e) - cap(value) + len(value)
		out = append(out, e[start:end]...)
	})
	return out
}

// readSidecar returns the metadata entry of a transcript, or nil.
func (s *Store) readSidecar(key sessionstore.Key, name string) (sessionstore.Entry, bool, error) {
	f, info, err := s.openToRead(name)
	if err != nil || f == nil {
		return nil, false, err
	}
	defer f.Close()
	if info.Size() == 0 {
		return nil, false, nil
	}
	skip := func(err error) { s.skip(Skip{Key: key, Path: name, Err: err}) }
	if info.Size() > sessionstore.MaxEntryLen {
		skip(fmt.Errorf("%w: %d bytes", sessionstore.ErrInvalidEntry, info.Size()))
		return nil, true, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, sessionstore.MaxEntryLen))
	if err != nil {
		return nil, false, err
	}
	e, err := sidecarEntry(text)
	if err != nil {
		skip(err)
	}
	return e, true, nil
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
		f, err := s.root.Open(dir)
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
