package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonl"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// disk tells whether the agent has written more into its private directory than
// it has reported. It writes a line first and reports it then, and may be killed
// in between. It is the store that the mirror appends to, and counts.
type disk struct {
	sessionstore.SessionStore
	dir    string // of projects, empty if the directory is not private
	before map[string]fileState
	needed bool // it holds what could not be stored

	entries, metadata atomic.Int64 // stored
}

// fileState tells whether a file has changed.
type fileState struct {
	size int64
	time time.Time
}

// begin notes what lies there before the agent runs: that is in the store.
func (d *disk) begin(s *resume.Session, store sessionstore.SessionStore) (err error) {
	d.SessionStore = s.Store(store)
	if s.Private {
		d.dir = s.ProjectsDir()
		d.before, err = d.look()
	}
	return err
}

// StoreKey makes it a mirror.Renamer if the store is one.
func (d *disk) StoreKey(key sessionstore.Key) sessionstore.Key { return storeKey(d.SessionStore, key) }

func (d *disk) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	if err := d.SessionStore.Append(ctx, key, entries); err != nil {
		return err
	}
	metadata := 0
	for _, e := range entries {
		if e.Type() == sessionstore.MetadataType {
			metadata++
		}
	}
	d.metadata.Add(int64(metadata))
	d.entries.Add(int64(len(entries) - metadata))
	return nil
}

func (d *disk) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return sessionstore.Stream(ctx, d.SessionStore, key)
}

// look returns the transcripts and their sidecars, by path.
func (d *disk) look() (map[string]fileState, error) {
	files := make(map[string]fileState)
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".jsonl") && !strings.HasSuffix(path, ".meta.json") {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		files[path] = fileState{info.Size(), info.ModTime()}
		return nil
	})
	return files, err
}

// changed returns the files that the agent has written.
func (d *disk) changed() ([]string, error) {
	now, err := d.look()
	var paths []string
	for path, state := range now {
		before, known := d.before[path]
		if !known || before.size != state.size || !before.time.Equal(state.time) {
			paths = append(paths, path)
		}
	}
	return paths, err
}

// isAhead reports whether there is more in the files than came in. It reads
// what is new in them only, and does not ask the store.
func (d *disk) isAhead(paths []string, spilled int64) bool {
	var lines, sidecars int64
	for _, path := range paths {
		if strings.HasSuffix(path, ".meta.json") {
			sidecars++
			continue
		}
		if strings.HasSuffix(path, string(filepath.Separator)+"journal.jsonl") {
			continue // agents never report it
		}
		n, err := countLines(path, d.before[path].size)
		if err != nil {
			return true // look closely
		}
		lines += n
	}
	entries, metadata := d.entries.Load(), d.metadata.Load()
	if spilled > 0 { // of either kind
		return lines+sidecars > entries+metadata+spilled
	}
	return lines > entries || sidecars > metadata
}

// countLines counts the entries behind an offset.
func countLines(path string, from int64) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || info.Size() < from {
		return 0, errors.New("it was rewritten")
	}
	damaged := false
	lines := jsonl.NewLinesAt(f, from, info.Size(), sessionstore.MaxEntryLen)
	entries := jsonl.NewEntries(lines, func(s jsonl.Skip) { damaged = damaged || s.Length > 0 && !s.Torn })
	for {
		e, err := entries.Next()
		if err == io.EOF && damaged {
			err = errors.New("there are damaged lines")
		} else if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if !mirror.NeverMirrored(sessionstore.Key{}, e.Data) {
			n++
		}
	}
}

// catchUp brings what only the private directory holds into the store, or makes
// Session.Close keep the directory. It asks the store when the agent did not end
// as it should, or has reported less than it has written.
func (a *Agent) catchUp(ctx context.Context, clean bool) error {
	d := &a.disk
	if d.dir == "" || a.mirror.NeedsFiles() { // it is kept as it is
		return nil
	}
	paths, err := d.changed()
	if err == nil && len(paths) == 0 {
		return nil
	}
	spilled := int64(0)
	for _, l := range a.mirror.Losses() {
		spilled += int64(l.Spilled)
	}
	ahead := err != nil || d.isAhead(paths, spilled)
	switch {
	case !ahead && (clean || spilled > 0 || ctx.Err() != nil):
		return nil
	case spilled > 0: // it must come before what is only compared
		err = errors.New("earlier batches lie in mirror.Options.Spill")
	default:
		err = a.watchDisk(ctx)
	}
	if err == nil {
		return nil
	}
	d.needed = true
	return fmt.Errorf("host: what the agent has not reported could not be stored: %w", err)
}

func (a *Agent) watchDisk(ctx context.Context) error {
	if err := a.session.CheckProjects(); err != nil {
		return err
	}
	s := sweep{dir: a.session.ConfigDir}
	if mo := a.opts.Mirror; mo != nil {
		s.o.Watch = mirror.WatchOptions{
			MaxEntries: mo.MaxEntries, MaxBytes: mo.MaxBytes, Concurrency: mo.Concurrency,
			Attempts: mo.Attempts, Pauses: mo.Pauses, CallTimeout: mo.CallTimeout, Logger: mo.Logger,
		}
	}
	_, err := mirror.Watch(ctx, a.disk.dir, &a.disk, s.options())
	if err != nil {
		return err
	}
	return s.verdict()
}
