package s3store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

// maxStates is of how many transcripts a handle remembers where they stand, and
// maxIDs how many uuids it remembers for all of them. What is in use is kept
// beyond that.
const (
	maxStates = 4096
	maxIDs    = 1 << 20
)

// state is what a handle knows about a transcript that it appends to.
type state struct {
	key sessionstore.Key

	learning sync.Mutex // one at a time asks where the transcript stands

	mu     sync.Mutex
	pins   int // appends and jobs that use the state
	known  bool
	last   int64  // the highest number seen or given
	suffix uint32 // of the parts of this handle

	summary *summary // of a main transcript

	compaction compactionState
}

// stateMap finds states.
type stateMap struct {
	mu    sync.Mutex
	m     map[sessionstore.Key]*state
	added int
	ids   int // as of the last count
}

// pin returns the state of a transcript, and keeps it until unpin.
func (m *stateMap) pin(key sessionstore.Key) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.m[key]
	if st == nil {
		if m.m == nil {
			m.m = make(map[sessionstore.Key]*state)
		}
		m.makeRoom()
		st = &state{key: key, compaction: compactionState{gate: make(chan struct{}, 1)}}
		if key.Subpath == "" {
			st.summary = newSummary()
		}
		m.m[key] = st
	}
	st.mu.Lock()
	st.pins++
	st.mu.Unlock()
	return st
}

func (m *stateMap) unpin(st *state) {
	st.mu.Lock()
	st.pins--
	st.mu.Unlock()
}

// makeRoom drops states that are not in use. The next append to such a
// transcript asks where it stands. The mutex is held.
func (m *stateMap) makeRoom() {
	if m.added++; m.added%64 == 0 {
		m.countIDs()
	}
	for key, st := range m.m {
		if len(m.m) < maxStates && m.ids < maxIDs {
			return
		}
		st.mu.Lock()
		idle, ids := st.pins == 0, st.ids()
		st.mu.Unlock()
		if idle {
			delete(m.m, key)
			m.ids -= ids
		}
	}
}

func (m *stateMap) countIDs() {
	m.ids = 0
	for _, st := range m.m {
		st.mu.Lock()
		m.ids += st.ids()
		st.mu.Unlock()
	}
}

func (st *state) ids() int {
	if st.summary == nil {
		return 0
	}
	return st.summary.ids.Len()
}

// find returns the state of a transcript if there is one.
func (m *stateMap) find(key sessionstore.Key) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[key]
}

// pinAll pins the states that match.
func (m *stateMap) pinAll(match func(sessionstore.Key) bool) []*state {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*state
	for key, st := range m.m {
		if match(key) {
			st.mu.Lock()
			st.pins++
			st.mu.Unlock()
			all = append(all, st)
		}
	}
	return all
}

// learn finds out where a transcript stands, before the first append of this
// handle: parts of another host may be ahead of our clock.
func (s *Store) learn(ctx context.Context, st *state) error {
	st.mu.Lock()
	known := st.known
	st.mu.Unlock()
	if known {
		return nil
	}
	st.learning.Lock()
	defer st.learning.Unlock()
	if st.isKnown() {
		return nil
	}
	objects, err := s.parts(ctx, s.dir(st.key))
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.raise(objects)
	st.suffix = freshSuffix(objects)
	st.known = true
	st.compaction.tail = len(objects)
	if st.summary != nil {
		st.summary.begin(len(objects) == 0)
	}
	return nil
}

func (st *state) isKnown() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.known
}

// raise moves the clock behind what is listed.
func (st *state) raise(objects []object) {
	if n := len(objects); n > 0 {
		st.last = max(st.last, objects[n-1].name.ms)
	}
}

// freshSuffix is one that no listed object has. Names of one handle differ in
// their numbers, those of two in their suffixes.
func freshSuffix(objects []object) uint32 {
	for {
		suffix := randomSuffix()
		if !slices.ContainsFunc(objects, func(o object) bool { return o.name.suffix == suffix }) {
			return suffix
		}
	}
}

// sawParts notes what a read has listed: what this handle appends from now on
// comes behind.
func (s *Store) sawParts(key sessionstore.Key, objects []object) {
	if st := s.states.find(key); st != nil {
		st.mu.Lock()
		st.raise(objects)
		st.mu.Unlock()
	}
}

// nextName gives the next part its name. The clock is that of the host unless
// that would not come behind everything known.
func (st *state) nextName(now time.Time) (partName, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	ms := max(now.UnixMilli(), st.last+1)
	if ms > maxPartMS {
		return partName{}, fmt.Errorf("no number is left behind part %d", st.last)
	}
	st.last = ms
	name := partName{ms, st.suffix}
	if st.summary != nil {
		st.summary.start(name)
	}
	return name, nil
}
