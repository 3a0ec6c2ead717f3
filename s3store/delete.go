package s3store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// maxSweeps is how often Delete lists anew because something was appended
// meanwhile.
const maxSweeps = 100

// Delete removes a session, or one subpath transcript of it. It goes on until a
// list is empty, so of a batch that is appended meanwhile nothing or all stays.
func (s *Store) Delete(ctx context.Context, key sessionstore.Key) error {
	err := begin(ctx, key.Validate())
	if err == nil {
		_, err = s.delete(ctx, key)
	}
	if err != nil {
		return opError("delete", key, err)
	}
	return nil
}

// delete returns how many transcripts there were.
func (s *Store) delete(ctx context.Context, key sessionstore.Key) (transcripts int, err error) {
	states := s.states.pinAll(func(k sessionstore.Key) bool {
		return k == key || key.Subpath == "" && k.Main() == key
	})
	// In one order, so that two deletions do not wait for each other.
	slices.SortFunc(states, func(a, b *state) int { return strings.Compare(a.key.Subpath, b.key.Subpath) })
	for _, st := range states {
		defer s.states.unpin(st)
	}
	for _, st := range states {
		// A compaction of our own would bring back what it holds.
		if err := st.compaction.lock(ctx); err != nil {
			return 0, err
		}
		defer st.compaction.unlock()
		st.forget()
	}
	if key.Subpath != "" {
		return s.deleteSubpath(ctx, key)
	}
	found, err := s.deleteSession(ctx, key)
	for _, st := range states {
		st.forget()
	}
	return found, err
}

func (s *Store) deleteSession(ctx context.Context, key sessionstore.Key) (int, error) {
	// The index goes first, so that a deletion that is interrupted leaves none
	// without transcript.
	if err := s.sweep(ctx, s.indexSessionDir(key), nil); err != nil {
		return 0, err
	}
	subpaths := make(map[string]bool)
	err := s.sweep(ctx, s.sessionDir(key), func(rest string) {
		if of, _, ok := parseObject(key.ProjectKey, "s/"+rest); ok {
			subpaths[of.Subpath] = true
		}
	})
	if err == nil { // another host may have written its index meanwhile
		err = s.sweep(ctx, s.indexSessionDir(key), nil)
	}
	return len(subpaths), err
}

// sweep deletes everything below a directory.
func (s *Store) sweep(ctx context.Context, dir string, see func(rest string)) error {
	for range maxSweeps {
		objects, _, err := s.listAll(ctx, dir, false)
		if err != nil || len(objects) == 0 {
			return err
		}
		names := make([]string, len(objects))
		for i, o := range objects {
			names[i] = dir + o.rest
			if see != nil {
				see(o.rest)
			}
		}
		if err := s.deleteAll(ctx, names); err != nil {
			return err
		}
	}
	return errUnsteady
}

// deleteSubpath deletes the parts in one directory, and nothing below it.
func (s *Store) deleteSubpath(ctx context.Context, key sessionstore.Key) (transcripts int, err error) {
	dir := s.dir(key)
	for range maxSweeps {
		parts, err := s.parts(ctx, dir)
		if err != nil || len(parts) == 0 {
			return transcripts, err
		}
		transcripts = 1
		names := make([]string, len(parts))
		for i, o := range parts {
			names[i] = dir + o.name.String()
		}
		if err := s.deleteAll(ctx, names); err != nil {
			return transcripts, err
		}
	}
	return transcripts, errUnsteady
}

// forget says that what a handle knows of a transcript is no longer so. Its
// clock goes on.
func (st *state) forget() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.compaction.tail = 0
	u := st.summary
	if u == nil {
		return
	}
	u.begin(false)
	u.doubts++
	u.claimed = false
	u.epoch++
	// Parts that are on their way, or have landed just now, need a look.
	u.unverified = u.unverified || u.dirty || len(u.flights) > 0
}

// Purge removes the sessions last written before olderThan.
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	if err := s.purge(ctx, olderThan, &report); err != nil {
		return report, opError("purge", sessionstore.Key{}, err)
	}
	return report, nil
}

func (s *Store) purge(ctx context.Context, olderThan time.Time, report *sessionstore.PurgeReport) error {
	projects, err := s.projects(ctx)
	if err != nil {
		return err
	}
	for _, p := range projects {
		rows, err := s.sessions(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.mtime >= olderThan.UnixMilli() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := s.delete(ctx, sessionstore.Key{ProjectKey: p, SessionID: row.id})
			if err != nil {
				return err
			}
			if n > 0 {
				report.Sessions++
				report.Transcripts += n
			}
		}
	}
	return nil
}
