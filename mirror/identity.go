package mirror

import (
	"math"
	"slices"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// identity stands for an entry when the store's transcript is compared with
// what was not acknowledged: its uuid, or its value if it has none. The agent's
// frames and its files spell some characters differently, so bytes won't do.
type identity struct {
	id     idset.ID
	unique bool // by uuid
}

func identify(e sessionstore.Entry) identity { return identifyAs(e, []byte(e.UUID())) }

// identifyAs is identify for an entry whose uuid is known.
func identifyAs(e sessionstore.Entry, uuid []byte) identity {
	if len(uuid) > 0 {
		return identity{idset.Of(append([]byte("uuid:"), uuid...)), true}
	}
	text := []byte(e)
	if e.Validate() == nil {
		text = jsonscan.Canonical(e)
	}
	return identity{id: idset.Of(text)}
}

// maxAnchor limits the entries that say where a batch belongs.
const maxAnchor = 64

// anchorOf returns the identities of the last entries stored, back to one with
// a uuid, which exists once in a transcript. Metadata entries have no place of
// their own in every store, so they are left out.
func anchorOf(before []identity, entries []sessionstore.Entry) []identity {
	var back []identity
	for _, e := range slices.Backward(entries) {
		if e.Type() == sessionstore.MetadataType {
			continue
		}
		back = append(back, identify(e))
		if back[len(back)-1].unique || len(back) == maxAnchor {
			slices.Reverse(back)
			return back
		}
	}
	slices.Reverse(back)
	all := append(slices.Clip(before), back...)
	return all[max(0, len(all)-maxAnchor):]
}

// matcher finds out how much of a sequence of batches a transcript holds. It
// reads the transcript once, entry by entry (Knuth, Morris, Pratt).
type matcher struct {
	pattern []identity
	start   int   // pattern[:start] is the anchor
	ends    []int // of the batches, in pattern
	borders []int
	state   int // pattern[:state] ends where the transcript does
	deepest int // the largest state ever
	surely  int // a state of at least this holds something with a uuid
	sure    int // how much of the pattern is there, wherever the transcript goes on
}

// newMatcher takes the identities of batches; entries that a store would drop
// as repeats are left out, and so must not be in the transcript again.
func newMatcher(anchor []identity, batches [][]identity) *matcher {
	m := &matcher{pattern: slices.Clip(anchor), start: len(anchor), surely: math.MaxInt}
	var seen idset.Set
	for _, id := range anchor {
		if id.unique {
			seen.Add(id.id)
		}
	}
	for _, batch := range batches {
		for _, id := range batch {
			if !id.unique || seen.Add(id.id) {
				m.pattern = append(m.pattern, id)
			}
		}
		m.ends = append(m.ends, len(m.pattern))
	}
	if first := slices.IndexFunc(m.pattern, func(id identity) bool { return id.unique }); first >= 0 {
		m.surely = first + 1
	}
	m.borders = make([]int, len(m.pattern)+1)
	k := 0
	for i := 1; i < len(m.pattern); i++ {
		for k > 0 && m.pattern[i] != m.pattern[k] {
			k = m.borders[k]
		}
		if m.pattern[i] == m.pattern[k] {
			k++
		}
		m.borders[i+1] = k
	}
	return m
}

func (m *matcher) next(id identity) {
	if len(m.pattern) == 0 {
		return
	}
	if m.state == len(m.pattern) {
		m.state = m.borders[m.state]
	}
	for m.state > 0 && m.pattern[m.state] != id {
		m.state = m.borders[m.state]
	}
	if m.pattern[m.state] == id {
		m.state++
	}
	m.deepest = max(m.deepest, m.state)
	if m.state >= m.surely { // a uuid exists once: where it is, the rest is too
		m.sure = max(m.sure, m.state)
	}
}

// foundAnchor reports whether the transcript holds the anchor.
func (m *matcher) foundAnchor() bool { return m.deepest >= m.start }

// landed returns how many batches are stored at least. A batch is stored whole
// or not.
func (m *matcher) landed() int {
	held := max(m.sure, m.least())
	n := 0
	from := m.start
	for i, end := range m.ends {
		if end > held {
			break
		}
		if end > from { // empty ones count when a later one is there
			n = i + 1
		}
		from = end
	}
	return n
}

// least returns the smallest state with which the transcript can be explained
// by what was appended: equal entries without uuid may have been there before,
// and a batch that never landed must not be taken for stored. The anchor is
// known to be stored, so it leaves fewer ways.
func (m *matcher) least() int {
	least := -1
	for s := m.state; s >= m.start; s = m.borders[s] {
		if s == m.start || slices.Contains(m.ends, s) {
			least = s
		}
		if s == 0 {
			break
		}
	}
	if least < 0 {
		return m.state // a part of a batch, which another delivery has split
	}
	return least
}
