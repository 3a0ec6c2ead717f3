package session

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// Join makes one session of those at several places, all of one store: it
// appends to the session into what that lacks of [Joined], as
// [sessionstore.Copy] does. Nothing is deleted. Into may be one of the places
// itself, if what it holds is the beginning of the whole, as when the agent
// went into a worktree and stayed there. Otherwise, as when it came back, the
// error wraps [sessionstore.ErrDiverged] and nothing is changed; join into a
// project key that has no such session then. A second Join adds what has come
// since.
func Join(ctx context.Context, store sessionstore.SessionStore, into sessionstore.Key, places []sessionstore.Key) (sessionstore.CopyReport, error) {
	if err := checkChangeable(into); err != nil {
		return sessionstore.CopyReport{}, opError("join", into, err)
	}
	report, err := sessionstore.Copy(ctx, store, Joined(store, into, places), into, nil)
	return report, opError("join", into, err)
}

// Joined returns a view of a store in which the session as is what lies at
// several places together. It can be read, by every function of this package
// and by package resume, and not written: Append fails with
// [errors.ErrUnsupported]. Other sessions are what they are in the store.
//
// Entries of one place keep their order. Between places the earlier timestamp
// goes first; an entry without one goes with the entry before it. Where times
// are equal, the place that begins earlier goes first, and then the one that is
// named first. An entry whose uuid has been seen is left out, and so is an
// entry without uuid that another place had as its last of that type: an agent
// that moves writes the title again. A place that is named twice counts once.
func Joined(store sessionstore.SessionStore, as sessionstore.Key, places []sessionstore.Key) sessionstore.SessionStore {
	j := &joined{store: store, as: as.Main()}
	for _, p := range places {
		if p = p.Main(); !slices.Contains(j.places, p) {
			j.places = append(j.places, p)
		}
	}
	return j
}

type joined struct {
	store  sessionstore.SessionStore
	as     sessionstore.Key
	places []sessionstore.Key
}

var (
	_ sessionstore.Streamer     = (*joined)(nil)
	_ sessionstore.SubkeyLister = (*joined)(nil)
)

func (j *joined) Append(_ context.Context, key sessionstore.Key, _ []sessionstore.Entry) error {
	return opError("append", key, errors.ErrUnsupported)
}

func (j *joined) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	var list []sessionstore.Entry
	for e, err := range j.Stream(ctx, key) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// ListSubkeys returns the subpaths of all places.
func (j *joined) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	if j.as != (sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}) {
		return sessionstore.ListSubkeys(ctx, j.store, projectKey, sessionID)
	}
	var all []string
	for _, p := range j.places {
		list, err := sessionstore.ListSubkeys(ctx, j.store, p.ProjectKey, p.SessionID)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (j *joined) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	if key.Main() != j.as {
		return sessionstore.Stream(ctx, j.store, key)
	}
	return func(yield func(sessionstore.Entry, error) bool) {
		m := merge{last: map[string]lastOfType{}}
		defer m.stop()
		err := key.Validate()
		for _, p := range j.places {
			if err == nil {
				p.Subpath = key.Subpath
				err = m.add(ctx, j.store, p)
			}
		}
		slices.SortStableFunc(m.heads, func(a, b *head) int { return a.time.Compare(b.time) })
		for err == nil && len(m.heads) > 0 {
			var e sessionstore.Entry
			if e, err = m.next(); err == nil && e != nil && !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// merge is several transcripts being read as one.
type merge struct {
	heads []*head // those that have an entry left
	seen  idset.Set
	last  map[string]lastOfType // of entries without uuid
}

type lastOfType struct {
	digest idset.ID
	place  sessionstore.Key
}

// head is the next entry of one place.
type head struct {
	place sessionstore.Key
	entry sessionstore.Entry
	time  time.Time // of the entry, or of the one before it that has a time
	pull  func() (sessionstore.Entry, error, bool)
	stop  func()
}

// add opens a transcript. What comes before its first timestamp has that one.
func (m *merge) add(ctx context.Context, store sessionstore.SessionStore, place sessionstore.Key) error {
	h := &head{place: place}
	for e, err := range sessionstore.Stream(ctx, store, place) {
		if err != nil {
			return err
		}
		if t, ok := e.Timestamp(); ok {
			h.time = t
			break
		}
	}
	h.pull, h.stop = iter.Pull2(sessionstore.Stream(ctx, store, place))
	more, err := h.advance()
	if err != nil || !more {
		h.stop()
		return err
	}
	m.heads = append(m.heads, h)
	return nil
}

func (h *head) advance() (more bool, err error) {
	e, err, more := h.pull()
	if err != nil || !more {
		return false, err
	}
	h.entry = e
	if t, ok := e.Timestamp(); ok {
		h.time = t // if it is earlier than the one before, it is the next of all
	}
	return true, nil
}

// next returns the next entry of all, or nil if it is left out.
func (m *merge) next() (sessionstore.Entry, error) {
	h := slices.MinFunc(m.heads, func(a, b *head) int { return a.time.Compare(b.time) }) // the first one of equals
	e := h.entry
	if m.repeats(h.place, e) {
		e = nil
	}
	more, err := h.advance()
	if !more {
		h.stop()
		m.heads = slices.DeleteFunc(m.heads, func(o *head) bool { return o == h })
	}
	return e, err
}

func (m *merge) repeats(place sessionstore.Key, e sessionstore.Entry) bool {
	if uuid := e.UUID(); uuid != "" {
		return !m.seen.Add(idset.Of([]byte(uuid)))
	}
	typ, digest := e.Type(), idset.Of(e)
	if last, ok := m.last[typ]; ok && last.digest == digest && last.place != place {
		return true
	}
	m.last[typ] = lastOfType{digest, place}
	return false
}

func (m *merge) stop() {
	for _, h := range m.heads {
		h.stop()
	}
}
