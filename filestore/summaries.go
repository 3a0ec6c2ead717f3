package filestore

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// ListSessionSummaries lists the summaries of the sessions that ListSessions
// would return. It opens only the transcripts whose kept summary does not fit
// them: those that others than a Store have written since, and all on the first
// call in a directory of the agent. If some can't be read it returns the others
// together with the error. See [sessionstore.SummaryLister].
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]sessionstore.SessionSummary, error) {
	key := sessionstore.Key{ProjectKey: projectKey}
	list, err := s.listSummaries(ctx, key)
	return list, fail("list session summaries", key, err)
}

// SessionSummary returns one row of ListSessionSummaries, and reports false if
// there is no such session. Package session uses it to read no more transcripts
// than it shows.
func (s *Store) SessionSummary(ctx context.Context, key sessionstore.Key) (sessionstore.SessionSummary, bool, error) {
	r := summaryRow{key: key.Main()}
	err := key.Validate()
	if err == nil {
		err = s.checkProject(ctx, r.key)
	}
	if err == nil {
		err = s.statMain(&r)
	}
	if err == nil && r.info != nil {
		err = s.readRow(ctx, nil, &r)
	}
	if err != nil {
		return sessionstore.SessionSummary{}, false, fail("session summary", key, err)
	}
	return r.summary(), r.data != nil, nil
}

// statMain looks at the file of a row. There is nothing to look at where
// ListSessions would list nothing.
func (s *Store) statMain(r *summaryRow) error {
	name := placeOf(r.key).lines
	exists, err := s.present(name, func() (err error) {
		r.info, err = s.root.Stat(name)
		return err
	})
	if !exists || r.info.Size() == 0 || !r.info.Mode().IsRegular() {
		r.info = nil
	}
	return err
}

// summaryRow is one row of the list.
type summaryRow struct {
	key  sessionstore.Key
	info os.FileInfo // of the transcript's file
	data []byte      // nil if there is no transcript
	err  error
}

func (r *summaryRow) summary() sessionstore.SessionSummary {
	if r.data == nil {
		return sessionstore.SessionSummary{}
	}
	return sessionstore.SessionSummary{
		SessionID: r.key.SessionID, Mtime: r.info.ModTime().UnixMilli(), Data: bytes.Clone(r.data),
	}
}

func (s *Store) listSummaries(ctx context.Context, key sessionstore.Key) ([]sessionstore.SessionSummary, error) {
	var rows []summaryRow
	err := s.eachSession(ctx, key, func(id string, info os.FileInfo) {
		key.SessionID = id
		rows = append(rows, summaryRow{key: key, info: info})
	})
	if err != nil && len(rows) == 0 || ctx.Err() != nil {
		return nil, cmp.Or(err, ctx.Err())
	}
	s.readRows(ctx, placeOf(key).project, rows, err == nil)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list := make([]sessionstore.SessionSummary, 0, len(rows))
	var failed failures
	if err != nil {
		failed.add(err)
	}
	for i := range rows {
		switch r := &rows[i]; {
		case r.err != nil:
			failed.add(r.err)
		case r.data != nil:
			list = append(list, r.summary())
		}
	}
	slices.SortFunc(list, func(a, b sessionstore.SessionSummary) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.SessionID, b.SessionID))
	})
	return list, failed.err()
}

// maxReaders is how many summaries are read at a time: most of the time goes
// into waiting for the disk and the system.
const maxReaders = 8

// readRows reads the summaries of all rows. If the rows are whole, it removes
// the summaries that others have left by deleting a transcript.
func (s *Store) readRows(ctx context.Context, project string, rows []summaryRow, whole bool) {
	// One step to each file instead of one for each element of its path.
	dir, err := s.root.OpenRoot(summariesDir + "/" + project + "/.")
	if err != nil {
		dir = nil
	} else {
		defer dir.Close()
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(rows), maxReaders) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(rows)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				rows[i].err = s.readRow(ctx, dir, &rows[i])
			}
		})
	}
	wg.Wait()
	if dir != nil && whole && !s.opts.ReadOnly {
		listed := make(map[string]bool, len(rows))
		for i := range rows {
			listed[keyenc.Encode(rows[i].key.SessionID)+summarySuffix] = true
		}
		dropUnlisted(dir, listed)
	}
}

// readRow finds or makes the summary of one row. Dir is the directory of its
// summary, or nil.
func (s *Store) readRow(ctx context.Context, dir *os.Root, r *summaryRow) error {
	now := stampOf(r.info)
	if r.data = s.summaries.get(r.key, now); r.data != nil {
		return nil
	}
	k, ok := kept{}, false
	if dir != nil {
		k, ok = readKept(dir, keyenc.Encode(r.key.SessionID)+summarySuffix)
	} else {
		k, ok = readKept(s.root, summaryName(placeOf(r.key)))
	}
	if !ok || k.stamp != now {
		made, info, err := s.makeSummary(ctx, r.key)
		if err != nil || made == nil {
			return err
		}
		k, r.info = *made, info
	}
	r.data = k.data
	s.summaries.put(r.key, k.stamp, k.data)
	return nil
}

// maxCached is how many bytes of summaries a store remembers.
const maxCached = 32 << 20

// settled is how old a file must be before its summary is remembered: for a
// moment its time would not tell it from one that takes its place.
const settled = time.Second

// summaryCache remembers summaries of files that have not changed. The zero
// value is ready to use.
type summaryCache struct {
	mu   sync.Mutex
	m    map[sessionstore.Key]cached
	size int
}

type cached struct {
	stamp stamp
	data  []byte
}

func (c *cached) cost(key sessionstore.Key) int {
	return len(c.data) + len(key.ProjectKey) + len(key.SessionID) + 128
}

func (sc *summaryCache) get(key sessionstore.Key, now stamp) []byte {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if c, ok := sc.m[key]; ok && c.stamp == now {
		return c.data
	}
	return nil
}

// put begins anew when there is no room.
func (sc *summaryCache) put(key sessionstore.Key, now stamp, data []byte) {
	if time.Since(time.Unix(0, now.mtime)) < settled {
		return
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	c := cached{now, data}
	old, ok := sc.m[key]
	if ok {
		sc.size -= old.cost(key)
	}
	if sc.size += c.cost(key); sc.size > maxCached || sc.m == nil {
		sc.m, sc.size = make(map[sessionstore.Key]cached), c.cost(key)
	}
	sc.m[key] = c
}

func (sc *summaryCache) forget(key sessionstore.Key) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if c, ok := sc.m[key]; ok {
		sc.size -= c.cost(key)
		delete(sc.m, key)
	}
}
