// Package logstore shows how to write a store of your own: all transcripts of
// one process in a single append-only file. It is small, and it passes the
// suite of package conformance.
package logstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Store keeps transcripts in one file. Open it in one process at a time.
type Store struct {
	mu          sync.RWMutex
	file        *os.File
	size        int64 // of the whole batches
	sync        func(*os.File) error
	transcripts map[sessionstore.Key]*transcript
}

type transcript struct {
	entries []sessionstore.Entry
	uuids   map[string]bool
	mtime   int64
}

// header is the line in front of the entries of a batch.
type header struct {
	sessionstore.Key
	Time    int64 // ms since 1970
	Entries int   // lines that follow
}

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
)

// Open opens or creates the file and reads it.
func Open(path string) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("logstore: open: %w", err)
	}
	s := &Store{file: f, sync: (*os.File).Sync, transcripts: make(map[sessionstore.Key]*transcript)}
	if err := s.replay(); err != nil {
		return nil, errors.Join(fmt.Errorf("logstore: open %s: %w", path, err), f.Close())
	}
	return s, nil
}

// replay reads all whole batches. What a crash has left of a further one is
// cut off: that Append never returned.
func (s *Store) replay() error {
	r := bufio.NewReader(s.file)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return s.file.Truncate(s.size)
		} else if err != nil {
			return err
		}
		var h header
		if err := json.Unmarshal(line, &h); err != nil {
			return fmt.Errorf("%w at byte %d: %w", sessionstore.ErrCorrupt, s.size, err)
		}
		length := int64(len(line))
		var entries []sessionstore.Entry
		for range h.Entries {
			if line, err = r.ReadBytes('\n'); err == io.EOF {
				return s.file.Truncate(s.size)
			} else if err != nil {
				return err
			}
			length += int64(len(line))
			entries = append(entries, sessionstore.Entry(line[:len(line)-1]))
		}
		s.remember(h, entries)
		s.size += length
	}
}

// Append writes a batch and syncs the file.
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	batch, err := sessionstore.Check(key, entries)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.write(key, batch)
	}
	if err != nil {
		return &sessionstore.OpError{Package: "logstore", Op: "append", Key: key, Err: err}
	}
	return nil
}

func (s *Store) write(key sessionstore.Key, batch []sessionstore.Checked) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []sessionstore.Entry
	var lines []byte
	inBatch := make(map[string]bool)
	for _, c := range batch {
		if uuid := string(c.UUID); uuid != "" {
			if inBatch[uuid] || s.transcripts[key] != nil && s.transcripts[key].uuids[uuid] {
				continue // the first one stays
			}
			inBatch[uuid] = true
		}
		fresh = append(fresh, slices.Clone(c.Line))
		lines = append(append(lines, c.Line...), '\n')
	}
	if len(fresh) == 0 {
		return nil
	}
	h := header{Key: key, Time: time.Now().UnixMilli(), Entries: len(fresh)}
	first, err := json.Marshal(h)
	if err != nil {
		return err
	}
	record := append(append(first, '\n'), lines...)
	// What a failed attempt has left behind s.size goes first. That is how this
	// store keeps a retried batch from being stored twice.
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(record, s.size); err != nil {
		return err
	}
	if err := s.sync(s.file); err != nil {
		return err
	}
	s.size += int64(len(record))
	s.remember(h, fresh)
	return nil
}

func (s *Store) remember(h header, entries []sessionstore.Entry) {
	t := s.transcripts[h.Key]
	if t == nil {
		t = &transcript{uuids: make(map[string]bool)}
		s.transcripts[h.Key] = t
	}
	for _, e := range entries {
		if uuid := e.UUID(); uuid != "" {
			t.uuids[uuid] = true
		}
	}
	t.entries = append(t.entries, entries...)
	t.mtime = h.Time
}

// Load returns copies of the entries.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := errors.Join(key.Validate(), ctx.Err()); err != nil {
		return nil, &sessionstore.OpError{Package: "logstore", Op: "load", Key: key, Err: err}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.transcripts[key]
	if t == nil {
		return nil, nil
	}
	out := make([]sessionstore.Entry, len(t.entries))
	for i, e := range t.entries {
		out[i] = slices.Clone(e)
	}
	return out, nil
}

// ListSessions is optional; the suite finds it and tests it.
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	if err := errors.Join(sessionstore.ValidateProjectKey(projectKey), ctx.Err()); err != nil {
		key := sessionstore.Key{ProjectKey: projectKey}
		return nil, &sessionstore.OpError{Package: "logstore", Op: "list sessions", Key: key, Err: err}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []sessionstore.SessionInfo
	for key, t := range s.transcripts {
		if key.ProjectKey == projectKey && key.Subpath == "" {
			list = append(list, sessionstore.SessionInfo{SessionID: key.SessionID, Mtime: t.mtime})
		}
	}
	sessionstore.SortSessions(list)
	return list, nil
}

// Close closes the file.
func (s *Store) Close() error { return s.file.Close() }
