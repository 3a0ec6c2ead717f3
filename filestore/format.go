package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/osdir"
)

// formatVersion is the layout that this package writes. A directory without a
// format file, such as one that only the agent has written, has version 1.
const formatVersion = 1

// The directory of the store's own files. No project key is encoded with a
// leading dot, so it never stands for a project.
const (
	privateDir = ".sessionstore"
	formatFile = privateDir + "/format.json"
)

type format struct {
	Format int `json:"format"`
}

// readFormat refuses a directory that is written in a later format.
func (s *Store) readFormat() (found bool, err error) {
	f, _, err := s.openRegular(formatFile)
	if isMissing(err) {
		return false, nil
	}
	if errors.Is(err, errNotFile) {
		return false, fmt.Errorf("%w: %w", sessionstore.ErrCorrupt, err)
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	var has format
	if err := json.NewDecoder(io.LimitReader(f, 1<<16)).Decode(&has); err != nil {
		return false, fmt.Errorf("%w: %s: %w", sessionstore.ErrCorrupt, formatFile, err)
	}
	if has.Format < 1 || has.Format > formatVersion {
		return false, fmt.Errorf("%w: the directory is written in format %d, this version reads formats 1 to %d",
			sessionstore.ErrCorrupt, has.Format, formatVersion)
	}
	return true, nil
}

// ensureFormat writes the format file before the first thing that is written.
func (s *Store) ensureFormat() error {
	if s.formatWritten.Load() {
		return nil
	}
	found, err := s.readFormat()
	if err == nil && !found {
		err = s.writeFormat()
	}
	if err != nil {
		return err
	}
	// Now there is a name with letters inside, which shows the disk's habits.
	if osdir.FoldsCase(s.root, "") {
		s.foldsCase.Store(true)
	}
	s.formatWritten.Store(true)
	return nil
}

func (s *Store) writeFormat() error {
	if err := s.root.Mkdir(privateDir, dirMode); err != nil && !os.IsExist(err) {
		return err
	}
	text, err := json.Marshal(format{formatVersion})
	if err != nil {
		return err
	}
	temp, err := s.writeTemp(privateDir, append(text, '\n'))
	if err != nil {
		return err
	}
	if err := s.root.Rename(temp, formatFile); err != nil {
		s.root.Remove(temp)
		return err
	}
	return s.syncDirs(privateDir)
}
