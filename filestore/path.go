package filestore

import (
	"fmt"
	"path"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// place is where the data of a key lies, relative to the root.
type place struct {
	project string // directory of the project
	session string // directory of the session's subpath transcripts
	lines   string // file of the entries
	sidecar string // file of the agent's metadata, empty for a main transcript
}

func placeOf(key sessionstore.Key) place {
	p := place{project: keyenc.Encode(key.ProjectKey)}
	p.session = p.project + "/" + keyenc.Encode(key.SessionID)
	if key.Subpath == "" {
		p.lines = p.session + linesSuffix
		return p
	}
	stem := p.session + "/" + keyenc.EncodePath(key.Subpath)
	p.lines, p.sidecar = stem+linesSuffix, stem+sidecarSuffix
	return p
}

// checkCase refuses, on a disk that folds case, a key one of whose names exists
// in another case: it would share the files of another key.
func (s *Store) checkCase(key sessionstore.Key) error {
	if !s.foldsCase.Load() {
		return nil
	}
	p := placeOf(key)
	names := []string{p.project}
	if key.SessionID != "" {
		names = []string{p.session + linesSuffix, p.lines}
		if p.sidecar != "" {
			names = append(names, p.sidecar)
		}
	}
	for _, name := range names {
		if err := s.checkNames(name); err != nil {
			return err
		}
	}
	return nil
}

// checkNames looks at each element of a path in the directory that holds it.
func (s *Store) checkNames(name string) error {
	dir := "."
	for elem := range strings.SplitSeq(name, "/") {
		exists, err := s.checkName(dir, elem)
		if err != nil || !exists {
			return err
		}
		dir = path.Join(dir, elem)
	}
	return nil
}

func (s *Store) checkName(dir, elem string) (exists bool, err error) {
	f, err := s.openDirFile(dir)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for _, n := range names {
		if n == elem {
			exists = true
		} else if strings.EqualFold(n, elem) {
			return false, fmt.Errorf("%w: %s differs from the existing %s only in letter case, and this disk does not tell them apart",
				sessionstore.ErrInvalidKey, elem, n)
		}
	}
	return exists, nil
}

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
