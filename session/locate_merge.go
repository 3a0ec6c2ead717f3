package session

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// merge is several transcripts being read as one.
type merge struct {
	ctx   context.Context
	store sessionstore.SessionStore
	heads []*head // those that have an entry left
	seen  idset.Set
	last  map[string]lastOfType // of entries without uuid
}

// lastOfType is the last entry of a type that was taken.
type lastOfType struct {
	digest idset.ID
	of     []*head // that have it: a second one of the same place is another
}

// head is the next entry of one place.
type head struct {
	place sessionstore.Key
	entry sessionstore.Entry
	at    int       // the number of the entry
	time  time.Time // of the entry, or of the one before it that has a time
	pull  func() (sessionstore.Entry, error, bool)
	stop  func()

	*outline
	covered cover
	covers  []*head // whose beginning is in this place
}

// open opens the transcript at each place. What other places hold already is
// passed over.
func (m *merge) open(places []sessionstore.Key, key sessionstore.Key) error {
	m.last = make(map[string]lastOfType)
	var all []*head
	for _, place := range places {
		place.Subpath = key.Subpath
		h := &head{place: place}
		more, err := h.start(m.ctx, m.store)
		if more {
			all = append(all, h)
			m.heads = append(m.heads, h) // to be stopped
		}
		if err != nil {
			return err
		}
	}
	if len(all) > 1 {
		for _, h := range all {
			if err := h.survey(m.ctx, m.store); err != nil {
				return err
			}
		}
		coverAll(all, key)
	}
	return m.begin(all)
}

// begin passes over what is covered and puts the heads in their order.
func (m *merge) begin(all []*head) error {
	m.heads = slices.Clone(all)
	for _, h := range all {
		more, err := !h.covered.whole, error(nil)
		for n := h.covered.entries; n > 0 && more && err == nil; n-- {
			more, err = h.advance()
		}
		if !more || err != nil {
			m.drop(h)
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(m.heads, func(a, b *head) int { return a.time.Compare(b.time) })
	return nil
}

// start reads the first entry of a place. It reports false if there is none.
func (h *head) start(ctx context.Context, store sessionstore.SessionStore) (more bool, err error) {
	h.pull, h.stop = iter.Pull2(sessionstore.Stream(ctx, store, h.place))
	h.at = -1
	if more, err = h.advance(); !more {
		h.stop()
	}
	return more, err
}

func (h *head) advance() (more bool, err error) {
	e, err, more := h.pull()
	if err != nil || !more {
		return false, err
	}
	h.entry = e
	h.at++
	if t, ok := e.Timestamp(); ok {
		h.time = t // if it is earlier than the one before, it is the next of all
	}
	return true, nil
}

// next returns the next entry of all, or nil if it is left out.
func (m *merge) next() (sessionstore.Entry, error) {
	h := m.first()
	e := h.entry
	if m.repeats(h, e) {
		e = nil
	}
	more, err := h.advance()
	if !more {
		m.drop(h)
	}
	return e, err
}

// first returns the head that is next: the first one of those with the earliest
// time. One whose beginning was passed over waits until that has come.
func (m *merge) first() (first *head) {
	for _, h := range m.heads {
		by := h.covered.by
		waits := by != nil && by.at <= h.covered.upTo && slices.Contains(m.heads, by)
		if !waits && (first == nil || h.time.Before(first.time)) {
			first = h
		}
	}
	return first
}

func (m *merge) repeats(h *head, e sessionstore.Entry) bool {
	if uuid := e.UUID(); uuid != "" {
		return !m.seen.Add(idset.Of([]byte(uuid)))
	}
	typ, digest := e.Type(), idset.Of(e)
	last, ok := m.last[typ]
	repeats := ok && last.digest == digest && !slices.Contains(last.of, h)
	if !repeats {
		last = lastOfType{digest: digest}
	}
	last.of = append(last.of, h)
	for _, c := range h.covers { // it stands for one of theirs that was passed over
		if h.at < c.covered.used[typ] {
			last.of = append(last.of, c)
		}
	}
	m.last[typ] = last
	return repeats
}

func (m *merge) drop(h *head) {
	h.stop()
	m.heads = slices.DeleteFunc(m.heads, func(o *head) bool { return o == h })
}

func (m *merge) stop() {
	for _, h := range m.heads {
		h.stop()
	}
}
