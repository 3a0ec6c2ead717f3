package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
)

// Place is one of the project keys under which a session lies.
type Place struct {
	Key sessionstore.Key
	// Mtime is when the main transcript there was last written, by the
	// storage's clock, in ms since 1970. It is 0 if the store can't tell.
	Mtime int64
	// SubpathsOnly says that there is no main transcript.
	SubpathsOnly bool
}

// LocateOptions are the options of [Locate]. The zero value and nil are fine.
type LocateOptions struct {
	// Projects are the project keys to look in, such as those that
	// [ProjectKeys] returns. Nil means all of the store.
	Projects []string
}

// Locate finds a session by its id alone. There is more than one place when the
// agent has gone into a git worktree or out of it in the middle of a session:
// it then goes on under another project key with the same id.
//
// The newest place comes first, and it is the one that [ListDir] shows; places
// with the same time are in the order of their project keys, and those without
// a main transcript come last. [Joined] and [Join] make one session of several
// places. An unknown session has none, and so has an id that is no UUID. Without
// LocateOptions.Projects the store must be able to list projects; otherwise the
// error wraps [errors.ErrUnsupported].
func Locate(ctx context.Context, store sessionstore.SessionStore, sessionID string, opts *LocateOptions) ([]Place, error) {
	key := sessionstore.Key{SessionID: sessionID}
	if !isUUID(sessionID) {
		return nil, nil
	}
	var projects []string
	var err error
	if opts != nil && opts.Projects != nil {
		projects = slices.Clone(opts.Projects)
	} else if projects, err = sessionstore.ListProjects(ctx, store); err != nil {
		return nil, opError("locate", key, err)
	}
	slices.Sort(projects)
	projects = slices.Compact(projects)
	found := make([]*Place, len(projects))
	err = inParallel(ctx, len(projects), func(ctx context.Context, i int) (err error) {
		found[i], err = look(ctx, store, sessionstore.Key{ProjectKey: projects[i], SessionID: sessionID})
		return err
	})
	if err != nil {
		return nil, opError("locate", key, err)
	}
	var places []Place
	for _, p := range found {
		if p != nil {
			places = append(places, *p)
		}
	}
	slices.SortStableFunc(places, newestPlace)
	return places, nil
}

func newestPlace(a, b Place) int {
	if a.SubpathsOnly != b.SubpathsOnly {
		if a.SubpathsOnly {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.Key.ProjectKey, b.Key.ProjectKey))
}

// look finds out whether a session lies under a key. It reads no more than one
// entry, and asks for the list of the project's sessions only if there is one.
func look(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) (*Place, error) {
	p := &Place{Key: key}
	for _, err := range sessionstore.Stream(ctx, store, key) {
		if err != nil {
			return nil, err
		}
		p.Mtime, err = mtimeOf(ctx, store, key)
		return p, err
	}
	subpaths, err := sessionstore.ListSubkeys(ctx, store, key.ProjectKey, key.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if err != nil || len(subpaths) == 0 {
		return nil, err
	}
	p.SubpathsOnly = true
	return p, nil
}

func mtimeOf(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) (int64, error) {
	list, err := sessionstore.ListSessions(ctx, store, key.ProjectKey)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	for _, s := range list {
		if s.SessionID == key.SessionID {
			return s.Mtime, err
		}
	}
	return 0, err
}

// inParallel calls f for 0 to n-1, at most maxLoads at a time, until one fails.
func inParallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, maxLoads)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
