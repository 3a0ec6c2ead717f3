package filestore

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
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

// foldsCase finds out, without writing, whether the disk takes names that
// differ only in letter case for one. It asks for a name in the root with the
// case of its letters swapped. If there is none it asks for dir itself.
func foldsCase(root *os.Root, dir string) bool {
	for _, name := range someNames(root) {
		if other := swapCase(name); other != name {
			a, errA := root.Lstat(name)
			b, errB := root.Lstat(other)
			return errA == nil && errB == nil && os.SameFile(a, b)
		}
	}
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return false
	}
	other := filepath.Join(filepath.Dir(abs), swapCase(filepath.Base(abs)))
	if other == abs {
		return false
	}
	a, errA := os.Stat(abs)
	b, errB := os.Stat(other)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func someNames(root *os.Root) []string {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(64)
	return names
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, s)
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
