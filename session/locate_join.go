package session

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/sessionstore/sessionstore"
)

// Join makes one session of those at several places, all of one store: it
// appends to the session into what that lacks of [Joined], as
// [sessionstore.Copy] does. Nothing is deleted. Into may be one of the places
// itself, if what it holds is the beginning of the whole, as when the agent
// went into a worktree and stayed there. Otherwise, as when it came back, the
// error wraps [sessionstore.ErrDiverged] and nothing is changed; join into a
// project key that has no such session then. A second Join adds what has come
// since, and nothing if nothing has: also when into, which [Locate] finds from
// then on, is one of the places.
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
// that moves writes the title again.
//
// What a place begins with that another one holds already, in the same order,
// is not taken again. So a session and its copy are the session, and so are the
// places of a session and what Join has made of them. A place that is named
// twice counts once.
//
// Each place that has the transcript is read twice, unless it is the only one.
// Memory is some 100 bytes for each entry.
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
		m := merge{ctx: ctx, store: j.store}
		defer m.stop()
		err := key.Validate()
		if err == nil {
			err = m.open(j.places, key)
		}
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
