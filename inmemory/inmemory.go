// Package inmemory keeps transcripts in memory. It is the reference: what the
// contract of [sessionstore.SessionStore] means, in its simplest form, with
// every optional capability. Use it in tests and for hosts that need no
// persistence.
//
// Everything is lost with the process. Memory grows with what is stored.
package inmemory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// Store is a handle on sessions in memory. It is safe for concurrent use. Make
// one with [New].
type Store struct {
	// AfterAppend, if not nil, is called when a batch has been stored. If it
	// returns an error, so does Append, although the batch has landed: a test
	// can play the lost reply of a server. Set it before the first use.
	AfterAppend func(ctx context.Context, key sessionstore.Key) error

	*memory
	attempts attempt.Tracker[sessionstore.Key, *transcript] // state: where the batch has landed
	now      func() time.Time
}

// memory is what all handles share.
type memory struct {
	mu       sync.RWMutex
	sessions map[sessionKey]*session
}

type sessionKey struct{ project, id string }

type session struct {
	mtime       int64 // of the main transcript, in ms
	transcripts map[string]*transcript
}

type transcript struct {
	entries []sessionstore.Entry
	ids     idset.Set
	summary sessionstore.SummaryState // of a main transcript
}

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
	_ sessionstore.SummaryLister = (*Store)(nil)
	_ sessionstore.ProjectLister = (*Store)(nil)
	_ sessionstore.SubkeyLister  = (*Store)(nil)
	_ sessionstore.OrphanLister  = (*Store)(nil)
	_ sessionstore.Deleter       = (*Store)(nil)
	_ sessionstore.Streamer      = (*Store)(nil)
	_ sessionstore.Purger        = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{memory: &memory{sessions: make(map[sessionKey]*session)}, now: time.Now}
}

// Reopen returns another handle on the same sessions, as a second host has it:
// it knows nothing of appends of the first that ended in an error.
func (s *Store) Reopen() *Store { return &Store{memory: s.memory, now: time.Now} }

// Append adds a batch at the end of a transcript.
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	batch, err := sessionstore.Check(key, entries)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return opError("append", key, err)
	}
	if len(batch) == 0 {
		return nil
	}
	lines := make([][]byte, len(batch))
	for i, c := range batch {
		lines[i] = c.Line
	}
	a := s.attempts.Begin(ctx, key, lines)
	a.State = s.store(key, batch, a.State)
	if s.AfterAppend != nil {
		if err := s.AfterAppend(ctx, key); err != nil {
			a.Unknown()
			return opError("append", key, err)
		}
	}
	a.Stored()
	return nil
}

// store adds a batch and returns the transcript, unless that is the one in
// which the same batch has landed already.
func (s *Store) store(key sessionstore.Key, batch []sessionstore.Checked, landed *transcript) *transcript {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.transcriptFor(key)
	if t == landed {
		return t
	}
	size := 0
	fresh := batch[:0]
	for _, c := range batch {
		if len(c.UUID) > 0 && !t.ids.Add(idset.Of(c.UUID)) {
			continue
		}
		fresh = append(fresh, c)
		size += len(c.Line)
	}
	slab := make([]byte, 0, size) // one allocation holds the whole batch
	for i, c := range fresh {
		start := len(slab)
		slab = append(slab, c.Line...)
		t.entries = append(t.entries, sessionstore.Entry(slab[start:len(slab):len(slab)]))
		if key.Subpath == "" {
			t.summary.FoldChecked(&fresh[i])
		}
	}
	if key.Subpath == "" && len(fresh) > 0 {
		ses := s.sessions[sessionKey{key.ProjectKey, key.SessionID}]
		ses.mtime = max(ses.mtime, s.now().UnixMilli())
	}
	return t
}

// transcriptFor returns the transcript of a key and creates what is missing.
func (s *Store) transcriptFor(key sessionstore.Key) *transcript {
	id := sessionKey{key.ProjectKey, key.SessionID}
	ses := s.sessions[id]
	if ses == nil {
		ses = &session{transcripts: make(map[string]*transcript)}
		s.sessions[id] = ses
	}
	t := ses.transcripts[key.Subpath]
	if t == nil {
		t = &transcript{}
		ses.transcripts[key.Subpath] = t
	}
	return t
}

// Load returns all entries of a transcript.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	stored, err := s.entries(ctx, "load", key)
	if err != nil || stored == nil {
		return nil, err
	}
	size := 0
	for _, e := range stored {
		size += len(e)
	}
	slab := make([]byte, 0, size)
	out := make([]sessionstore.Entry, len(stored))
	for i, e := range stored {
		start := len(slab)
		slab = append(slab, e...)
		out[i] = sessionstore.Entry(slab[start:len(slab):len(slab)])
	}
	return out, nil
}

// Stream yields the entries of a transcript one by one.
func (s *Store) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		stored, err := s.entries(ctx, "stream", key)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range stored {
			if err := ctx.Err(); err != nil {
				yield(nil, opError("stream", key, err))
				return
			}
			if !yield(slices.Clone(e), nil) {
				return
			}
		}
	}
}

// entries returns what is stored now. Entries never change and are only added
// behind, so the slice may be read without the lock.
func (s *Store) entries(ctx context.Context, op string, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := s.start(ctx, key.Validate()); err != nil {
		return nil, opError(op, key, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ses := s.sessions[sessionKey{key.ProjectKey, key.SessionID}]; ses != nil {
		if t := ses.transcripts[key.Subpath]; t != nil {
			return t.entries, nil
		}
	}
	return nil, nil
}

// ListSessions lists the sessions of a project that have a main transcript.
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	var list []sessionstore.SessionInfo
	err := s.eachMain(ctx, "list sessions", projectKey, func(id string, ses *session) error {
		list = append(list, sessionstore.SessionInfo{SessionID: id, Mtime: ses.mtime})
		return nil
	})
	sessionstore.SortSessions(list)
	return list, err
}

// ListSessionSummaries lists the summaries of the sessions that ListSessions
// lists.
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]sessionstore.SessionSummary, error) {
	var list []sessionstore.SessionSummary
	err := s.eachMain(ctx, "list session summaries", projectKey, func(id string, ses *session) error {
		data, err := ses.transcripts[""].summary.MarshalJSON()
		list = append(list, sessionstore.SessionSummary{SessionID: id, Mtime: ses.mtime, Data: data})
		return err
	})
	slices.SortFunc(list, func(a, b sessionstore.SessionSummary) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.SessionID, b.SessionID))
	})
	return list, err
}

func (s *Store) eachMain(ctx context.Context, op, projectKey string, f func(id string, ses *session) error) error {
	project := sessionstore.Key{ProjectKey: projectKey}
	if err := s.start(ctx, sessionstore.ValidateProjectKey(projectKey)); err != nil {
		return opError(op, project, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, ses := range s.sessions {
		if id.project == projectKey && ses.transcripts[""] != nil {
			if err := f(id.id, ses); err != nil {
				return opError(op, project, err)
			}
		}
	}
	return nil
}

// ListOrphans lists the sessions of a project that have only subpaths.
func (s *Store) ListOrphans(ctx context.Context, projectKey string) ([]string, error) {
	if err := s.start(ctx, sessionstore.ValidateProjectKey(projectKey)); err != nil {
		return nil, opError("list orphans", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ids []string
	for id, ses := range s.sessions {
		if id.project == projectKey && ses.transcripts[""] == nil {
			ids = append(ids, id.id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// ListProjects lists the project keys that hold anything.
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("list projects", sessionstore.Key{}, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	projects := make(map[string]bool)
	for id := range s.sessions {
		projects[id.project] = true
	}
	return slices.Sorted(maps.Keys(projects)), nil
}

// ListSubkeys lists the subpaths of a session.
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	if err := s.start(ctx, key.Validate()); err != nil {
		return nil, opError("list subkeys", key, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var subpaths []string
	if ses := s.sessions[sessionKey{projectKey, sessionID}]; ses != nil {
		for sub := range ses.transcripts {
			if sub != "" {
				subpaths = append(subpaths, sub)
			}
		}
	}
	slices.Sort(subpaths)
	return subpaths, nil
}

// Delete removes a session, or one subpath transcript of it.
func (s *Store) Delete(ctx context.Context, key sessionstore.Key) error {
	if err := s.start(ctx, key.Validate()); err != nil {
		return opError("delete", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := sessionKey{key.ProjectKey, key.SessionID}
	ses := s.sessions[id]
	if ses == nil {
		return nil
	}
	delete(ses.transcripts, key.Subpath)
	if key.Subpath == "" || len(ses.transcripts) == 0 {
		delete(s.sessions, id)
	}
	return nil
}

// Purge removes the sessions last written before olderThan.
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	if err := ctx.Err(); err != nil {
		return report, opError("purge", sessionstore.Key{}, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, ses := range s.sessions {
		if ses.transcripts[""] != nil && time.UnixMilli(ses.mtime).Before(olderThan) {
			report.Sessions++
			report.Transcripts += len(ses.transcripts)
			delete(s.sessions, id)
		}
	}
	return report, nil
}

// start is how every operation begins: a cancelled context or an invalid key
// ends it before it does anything.
func (s *Store) start(ctx context.Context, invalid error) error {
	return cmp.Or(invalid, ctx.Err())
}

func opError(op string, key sessionstore.Key, err error) error {
	return &sessionstore.OpError{Package: "inmemory", Op: op, Key: key, Err: err}
}
