package conformance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore"
)

// testStore is a correct store whose parts and operations can be exchanged, so
// that a mistake is a few lines. Each value is one handle, as one host has it.
type testStore struct {
	disk    *disk
	number  int           // of the handle: 0 is the first
	clock   time.Duration // how far the host's clock is off
	lose    atomic.Bool   // the next reply
	out     bool          // the backend cannot be reached
	mu      sync.Mutex
	pending map[key]pendingBatch

	parts
	ops
}

// disk is what the handles of a store share.
type disk struct {
	mu          sync.Mutex
	transcripts map[string]*transcript
	ids         map[string]map[string]bool
	flights     map[any]int // appends under way
	attempts    int
	handles     int
	marked      map[key]bool // for mistakes that remember keys
	ghosts      map[key][]storedLine
}

type transcript struct {
	key      key
	lines    []storedLine
	count    int // of lines that must be there
	attempts map[string]bool
	mtime    int64
	summary  json.RawMessage
	raced    bool // appends have overlapped
}

// storedLine has, beside the entry, what a correct store does not need.
type storedLine struct {
	e     entry
	given *entry     // where the caller had it
	by    *testStore // the handle that appended it
	stamp time.Time  // by the clock of that handle
}

type seq = iter.Seq2[entry, error]

type pendingBatch struct {
	digest [32]byte
	id     string
}

// parts are the decisions of a store.
type parts struct {
	check   func(k key, entries []entry) error
	valid   func(k key) error
	project func(projectKey string) error
	id      func(k key, e entry) string
	scope   func(k key) string // within which ids are unique
	name    func(k key) string // of a transcript
	keep    func(e entry) entry
	give    func(e entry) entry
	place   func(t *transcript, fresh []storedLine)
	now     func() int64
	fold    func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage
	digest  func(entries []entry) [32]byte
	cascade func(deleted, other key) bool
}

// ops are the operations of a store.
type ops struct {
	append    func(ctx context.Context, k key, entries []entry) error
	load      func(ctx context.Context, k key) ([]entry, error)
	sessions  func(ctx context.Context, project string) ([]sessionstore.SessionInfo, error)
	summaries func(ctx context.Context, project string) ([]sessionstore.SessionSummary, error)
	projects  func(ctx context.Context) ([]string, error)
	subkeys   func(ctx context.Context, project, session string) ([]string, error)
	orphans   func(ctx context.Context, project string) ([]string, error)
	delete    func(ctx context.Context, k key) error
	stream    func(ctx context.Context, k key) seq
	purge     func(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error)
}

var errOutage = errors.New("cannot reach the backend")

func newDisk() *disk {
	return &disk{
		transcripts: map[string]*transcript{}, ids: map[string]map[string]bool{},
		flights: map[any]int{}, marked: map[key]bool{}, ghosts: map[key][]storedLine{},
	}
}

func newTestStore(d *disk, clock time.Duration) *testStore {
	s := &testStore{disk: d, number: d.handles, clock: clock, pending: map[key]pendingBatch{}}
	d.handles++
	s.parts = parts{
		check:   func(k key, entries []entry) error { _, err := sessionstore.Check(k, entries); return err },
		valid:   key.Validate,
		project: sessionstore.ValidateProjectKey,
		id:      func(_ key, e entry) string { return e.UUID() },
		scope:   plainName,
		name:    plainName,
		keep:    func(e entry) entry { return slices.Clone(e.Line()) },
		give:    slices.Clone[entry],
		place:   func(t *transcript, fresh []storedLine) { t.lines = append(t.lines, fresh...) },
		now:     func() int64 { return time.Now().UnixMilli() },
		fold:    foldFresh,
		digest:  digest,
		cascade: func(deleted, other key) bool {
			return deleted == other || deleted.Subpath == "" && other.Main() == deleted
		},
	}
	s.ops = ops{
		append: s.doAppend, load: s.doLoad, sessions: s.doSessions, summaries: s.doSummaries, projects: s.doProjects,
		subkeys: s.doSubkeys, orphans: s.doOrphans, delete: s.doDelete, purge: s.doPurge, stream: s.doStream,
	}
	return s
}

func plainName(k key) string { return k.ProjectKey + "\x00" + k.SessionID + "\x00" + k.Subpath }

func foldFresh(_ *transcript, state json.RawMessage, fresh []entry) json.RawMessage {
	state, err := sessionstore.FoldSummary(state, fresh)
	if err != nil {
		panic(err)
	}
	return state
}

func digest(entries []entry) [32]byte {
	var all []byte
	for _, e := range entries {
		all = fmt.Appendf(all, "%d:%s", len(e), e)
	}
	return sha256.Sum256(all)
}

// start is how every operation begins.
func (s *testStore) start(ctx context.Context, invalid error) error {
	if err := cmp.Or(invalid, ctx.Err()); err != nil {
		return err
	}
	if s.out {
		return errOutage
	}
	return nil
}

func (s *testStore) doAppend(ctx context.Context, k key, entries []entry) error {
	if err := s.start(ctx, s.check(k, entries)); err != nil || len(entries) == 0 {
		return err
	}
	s.mu.Lock()
	p, ok := s.pending[k]
	lost := s.lose.Swap(false)
	var d [32]byte
	if ok || lost {
		d = s.digest(entries)
	}
	if !ok || p.digest != d || sessionstore.IsNewBatch(ctx) {
		p = pendingBatch{d, s.disk.newAttempt()}
	}
	delete(s.pending, k)
	if lost {
		s.pending[k] = p
	}
	s.mu.Unlock()
	s.commit(k, p.id, entries)
	if lost {
		return errors.New("the reply got lost")
	}
	return nil
}

func (d *disk) newAttempt() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	return fmt.Sprint("attempt ", d.attempts)
}

func (s *testStore) commit(k key, attempt string, entries []entry) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	t := s.disk.transcripts[s.name(k)]
	if t == nil {
		t = &transcript{key: k, attempts: map[string]bool{}}
		s.disk.transcripts[s.name(k)] = t
	}
	if s.disk.ids[s.scope(k)] == nil {
		s.disk.ids[s.scope(k)] = map[string]bool{}
	}
	if t.attempts[attempt] {
		return
	}
	t.attempts[attempt] = true
	var fresh []storedLine
	var plain []entry
	for i, e := range entries {
		if id := s.id(k, e); id != "" {
			if s.disk.ids[s.scope(k)][id] {
				continue
			}
			s.disk.ids[s.scope(k)][id] = true
		}
		fresh = append(fresh, storedLine{s.keep(e), &entries[i], s, time.Now().Add(s.clock)})
		plain = append(plain, fresh[len(fresh)-1].e)
	}
	s.place(t, fresh)
	t.count = len(t.lines)
	if k.Subpath == "" && len(fresh) > 0 {
		t.mtime = max(t.mtime, s.now())
		t.summary = s.fold(t, t.summary, plain)
	}
}

// peek calls f with the transcript of a key, if there is one.
func (s *testStore) peek(k key, f func(t *transcript)) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if t := s.disk.transcripts[s.name(k)]; t != nil {
		f(t)
	}
}

func (s *testStore) doLoad(ctx context.Context, k key) ([]entry, error) {
	if err := s.start(ctx, s.valid(k)); err != nil {
		return nil, err
	}
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	t := s.disk.transcripts[s.name(k)]
	if t == nil {
		return nil, nil
	}
	if len(t.lines) != t.count {
		return nil, sessionstore.ErrCorrupt
	}
	out := []entry{}
	for _, l := range t.lines {
		out = append(out, s.give(l.e))
	}
	return out, nil
}

func (s *testStore) doStream(ctx context.Context, k key) seq {
	return func(yield func(entry, error) bool) {
		all, err := s.doLoad(ctx, k)
		for _, e := range all {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// streamOf yields what the store's Load returns, whatever that is.
func streamOf(s *testStore) func(context.Context, key) seq {
	return func(ctx context.Context, k key) seq {
		return func(yield func(entry, error) bool) {
			all, err := s.ops.load(ctx, k)
			for _, e := range all {
				if err == nil {
					err = ctx.Err()
				}
				if err != nil || !yield(e, nil) {
					break
				}
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}
}

func (s *testStore) each(f func(t *transcript)) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for _, t := range s.disk.transcripts {
		f(t)
	}
}

func (s *testStore) doSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	all, err := s.doSummaries(ctx, project)
	var infos []sessionstore.SessionInfo
	for _, one := range all {
		infos = append(infos, sessionstore.SessionInfo{SessionID: one.SessionID, Mtime: one.Mtime})
	}
	return infos, err
}

func (s *testStore) doSummaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	if err := s.start(ctx, s.project(project)); err != nil {
		return nil, err
	}
	var all []sessionstore.SessionSummary
	s.each(func(t *transcript) {
		if t.key.ProjectKey == project && t.key.Subpath == "" {
			all = append(all, sessionstore.SessionSummary{SessionID: t.key.SessionID, Mtime: t.mtime, Data: slices.Clone(t.summary)})
		}
	})
	slices.SortFunc(all, func(a, b sessionstore.SessionSummary) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.SessionID, b.SessionID))
	})
	return all, nil
}

func (s *testStore) doProjects(ctx context.Context) ([]string, error) {
	if err := s.start(ctx, nil); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	s.each(func(t *transcript) { found[t.key.ProjectKey] = true })
	return slices.Sorted(maps.Keys(found)), nil
}

func (s *testStore) doSubkeys(ctx context.Context, project, session string) ([]string, error) {
	main := key{ProjectKey: project, SessionID: session}
	if err := s.start(ctx, s.valid(main)); err != nil {
		return nil, err
	}
	var found []string
	s.each(func(t *transcript) {
		if t.key.Main() == main && t.key.Subpath != "" {
			found = append(found, t.key.Subpath)
		}
	})
	slices.Sort(found)
	return found, nil
}

func (s *testStore) doOrphans(ctx context.Context, project string) ([]string, error) {
	if err := s.start(ctx, s.project(project)); err != nil {
		return nil, err
	}
	mains, found := map[string]bool{}, map[string]bool{}
	s.each(func(t *transcript) {
		if t.key.ProjectKey == project && t.key.Subpath == "" {
			mains[t.key.SessionID] = true
		} else if t.key.ProjectKey == project {
			found[t.key.SessionID] = true
		}
	})
	maps.DeleteFunc(found, func(id string, _ bool) bool { return mains[id] })
	return slices.Sorted(maps.Keys(found)), nil
}

func (s *testStore) doDelete(ctx context.Context, k key) error {
	if err := s.start(ctx, s.valid(k)); err != nil {
		return err
	}
	s.each(func(t *transcript) {
		if s.cascade(k, t.key) {
			s.remove(t)
		}
	})
	return nil
}

func (s *testStore) remove(t *transcript) {
	delete(s.disk.ids, s.scope(t.key))
	delete(s.disk.transcripts, s.name(t.key))
}

func (s *testStore) doPurge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	if err := s.start(ctx, nil); err != nil {
		return report, err
	}
	old := map[key]bool{}
	s.each(func(t *transcript) {
		if t.key.Subpath == "" && time.UnixMilli(t.mtime).Before(olderThan) {
			old[t.key] = true
		}
	})
	s.each(func(t *transcript) {
		if old[t.key.Main()] {
			report.Transcripts++
			s.remove(t)
		}
	})
	report.Sessions = len(old)
	return report, nil
}

// The methods only forward, so that any of them can be exchanged.

func (s *testStore) Append(ctx context.Context, k key, entries []entry) error {
	return s.ops.append(ctx, k, entries)
}
func (s *testStore) Load(ctx context.Context, k key) ([]entry, error) { return s.ops.load(ctx, k) }
func (s *testStore) ListSessions(ctx context.Context, p string) ([]sessionstore.SessionInfo, error) {
	return s.ops.sessions(ctx, p)
}
func (s *testStore) ListSessionSummaries(ctx context.Context, p string) ([]sessionstore.SessionSummary, error) {
	return s.ops.summaries(ctx, p)
}
func (s *testStore) ListProjects(ctx context.Context) ([]string, error) { return s.ops.projects(ctx) }
func (s *testStore) ListSubkeys(ctx context.Context, p, id string) ([]string, error) {
	return s.ops.subkeys(ctx, p, id)
}
func (s *testStore) ListOrphans(ctx context.Context, p string) ([]string, error) {
	return s.ops.orphans(ctx, p)
}
func (s *testStore) Delete(ctx context.Context, k key) error { return s.ops.delete(ctx, k) }
func (s *testStore) Stream(ctx context.Context, k key) seq {
	return s.ops.stream(ctx, k)
}
func (s *testStore) Purge(ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
	return s.ops.purge(ctx, t)
}

// testHarness has everything. Each new handle makes the mistake.
func testHarness(mistake func(s *testStore)) Harness {
	open := func(d *disk, clock time.Duration) sessionstore.SessionStore {
		s := newTestStore(d, clock)
		mistake(s)
		return s
	}
	return Harness{
		Open: func(testing.TB) sessionstore.SessionStore { return open(newDisk(), 0) },
		Reopen: func(_ testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore {
			return open(s.(*testStore).disk, 0)
		},
		ReopenBehind: func(_ testing.TB, s sessionstore.SessionStore, d time.Duration) sessionstore.SessionStore {
			return open(s.(*testStore).disk, -d)
		},
		LoseReply: func(_ testing.TB, s sessionstore.SessionStore) { s.(*testStore).lose.Store(true) },
		Outage:    func(_ testing.TB, s sessionstore.SessionStore) { s.(*testStore).out = true },
		Damage: func(_ testing.TB, s sessionstore.SessionStore, k key) {
			t := s.(*testStore).disk.transcripts[s.(*testStore).name(k)]
			t.lines = slices.Delete(t.lines, 2, 3)
		},
		Require:     capabilityEnd - 1,
		CommitOrder: true,
	}
}
