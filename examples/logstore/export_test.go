package logstore

import (
	"errors"
	"os"
)

// LoseReply makes the next append report a failure after it has written.
func (s *Store) LoseReply() {
	s.sync = func(*os.File) error {
		s.sync = (*os.File).Sync
		return errors.New("sync failed")
	}
}
