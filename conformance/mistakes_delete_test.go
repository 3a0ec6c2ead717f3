package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

func cascading(f func(deleted, k key) bool) func(*testStore) {
	return func(s *testStore) { s.cascade = f }
}

// onDelete replaces Delete by a function that may call the one before.
func onDelete(f func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.delete
		s.ops.delete = func(ctx context.Context, k key) error { return f(s, next, ctx, k) }
	}
}

var deleteMistakes = []mistake{
	{name: "keeps deleted main transcripts", want: []string{
		"Delete/Main", "Delete/Cascade", "Delete/Twice", "Delete/OtherSessions", "Delete/OtherHandle", "Delete/Races",
		"Size/ManySubpaths", "ListProjects/Deleted", "Summaries/Deleted", "Recreate/StartsEmpty", "Recreate/Behind",
		"Damage/Delete", "Keys/*",
	},
		make: cascading(func(d, k key) bool {
			return d == k && d.Subpath != "" || d.Subpath == "" && k.Main() == d && k.Subpath != ""
		})},
	{name: "keeps subpaths of deleted sessions", want: []string{
		"Delete/Cascade", "Delete/CascadeWithoutMain", "Size/ManySubpaths", "Recreate/StartsEmpty", "ListOrphans/Deleted",
	},
		make: cascading(func(d, k key) bool { return d == k })},
	{name: "deletes only sessions with a main transcript", want: []string{"Delete/CascadeWithoutMain", "ListOrphans/Deleted"}, make: onDelete(
		func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			if k.Validate() == nil && k.Subpath == "" && !slices.Contains(s.all(), k) {
				return nil
			}
			return next(ctx, k)
		})},
	{name: "does not delete subpaths", want: []string{
		"Delete/Subpath", "Delete/SubpathAbove", "Delete/LastSubpath", "Metadata/Alone", "ListProjects/Deleted",
		"ListSubkeys/Deleted", "ListOrphans/Deleted", "Recreate/Subpath", "Keys/*",
	},
		make: cascading(func(d, k key) bool { return d.Subpath == "" && k.Main() == d })},
	{name: "deletes the main transcript with a subpath", want: []string{"Delete/Subpath", "ListSessions/DeletedSubpathKeepsTime", "Keys/*"},
		make: cascading(func(d, k key) bool { return d == k || k == d.Main() || d.Subpath == "" && k.Main() == d })},
	{name: "deletes what lies below a subpath", want: []string{"Delete/SubpathBelow", "Delete/SubpathAbove", "Keys/Slashes"},
		make: cascading(func(d, k key) bool {
			return d == k || k.Main() == d.Main() && (d.Subpath == "" || strings.HasPrefix(k.Subpath, d.Subpath+"/"))
		})},
	{name: "deletes what lies above a subpath", want: []string{"Delete/SubpathAbove", "Keys/Slashes"},
		make: cascading(func(d, k key) bool {
			return d == k || k.Main() == d.Main() && (d.Subpath == "" || k.Subpath != "" && strings.HasPrefix(d.Subpath, k.Subpath+"/"))
		})},
	{name: "keeps the session of the last subpath", want: []string{"Delete/LastSubpath", "ListProjects/Deleted"}, make: func(s *testStore) {
		onDelete(func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			if k.Subpath != "" && len(s.all()) < 3 {
				s.disk.mark(k, true)
			}
			return next(ctx, k)
		})(s)
		afterProjects(func(got []string) []string {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			for k := range s.disk.marked {
				got = append(got, k.ProjectKey)
			}
			slices.Sort(got)
			return slices.Compact(got)
		})(s)
	}},
	{name: "fails for an unknown key", want: []string{"Delete/Unknown", "Delete/Twice", "Delete/Races"}, make: onDelete(
		func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			if k.Validate() == nil && k.ProjectKey != "conformance" && !slices.ContainsFunc(s.all(), func(o key) bool { return s.cascade(k, o) }) {
				return errors.New("no such key")
			}
			return next(ctx, k)
		})},
	{name: "fails to delete twice", want: []string{"Delete/Twice", "Delete/Races?"}, make: func(s *testStore) {
		onDelete(func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			if s.disk.isMarked(k) {
				return errors.New("deleted already")
			}
			s.disk.mark(k, slices.ContainsFunc(s.all(), func(o key) bool { return s.cascade(k, o) }))
			return next(ctx, k)
		})(s)
		around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mark(k, false)
			s.disk.mark(k.Main(), false)
			return next(ctx, k, entries)
		})(s)
	}},
	{name: "deletes in all projects", want: []string{"Delete/OtherSessions"}, make: cascading(func(d, k key) bool {
		return d == k || d.Subpath == "" && d.SessionID == k.SessionID && (d.ProjectKey == k.ProjectKey || k.ProjectKey == "other")
	})},
	{name: "deletes the whole project", want: []string{
		"Delete/OtherSessions", "Delete/Unknown", "ListProjects/Deleted", "ListOrphans/Deleted", "Keys/*",
	}, make: cascading(func(d, k key) bool {
		return d == k || d.Subpath == "" && d.ProjectKey == k.ProjectKey
	})},
	{name: "remembers what another host has deleted", want: []string{"Delete/OtherHandle"}, make: func(s *testStore) {
		var mu sync.Mutex
		seen := map[key][]entry{}
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := s.doLoad(ctx, k)
			mu.Lock()
			defer mu.Unlock()
			if got == nil && err == nil {
				return seen[k], nil
			}
			seen[k] = got
			return got, err
		}
		s.ops.delete = func(ctx context.Context, k key) error {
			mu.Lock()
			defer mu.Unlock()
			clear(seen)
			return s.doDelete(ctx, k)
		}
		s.ops.purge = func(ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			mu.Lock()
			defer mu.Unlock()
			clear(seen)
			return s.doPurge(ctx, t)
		}
	}},
	{name: "takes a session off the index late", want: []string{"Delete/Races"}, make: func(s *testStore) {
		onDelete(func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			err := next(ctx, k)
			time.Sleep(300 * time.Microsecond)
			if k.Validate() == nil && slices.Contains(s.all(), k) {
				s.disk.mark(k, true)
			}
			return err
		})(s)
		around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mark(k, false)
			time.Sleep(100 * time.Microsecond) // so that the deletion comes first
			return next(ctx, k, entries)
		})(s)
		afterSessions(func(p string, got infos) infos {
			return slices.DeleteFunc(got, func(i sessionstore.SessionInfo) bool { return s.disk.isMarked(in(p, i.SessionID, "")) })
		})(s)
	}},
	{name: "brings deleted entries back", want: []string{
		"Recreate/StartsEmpty", "LostReply/DeletedBetween", "Summaries/Deleted", "Delete/Races?", "Recreate/SameUUIDs",
		"Recreate/Subpath", "Recreate/ThroughOtherHandle", "Recreate/Behind", "Damage/Delete",
	}, make: func(s *testStore) {
		onDelete(func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			s.each(func(t *transcript) {
				if s.cascade(k, t.key) {
					s.disk.ghosts[t.key] = t.lines
				}
			})
			return next(ctx, k)
		})(s)
		s.place = func(t *transcript, fresh []storedLine) {
			if len(t.lines) == 0 {
				t.lines = s.disk.ghosts[t.key]
			}
			t.lines = append(slices.Clone(t.lines), fresh...)
		}
	}},
	{name: "remembers ids of deleted transcripts", want: []string{
		"Recreate/SameUUIDs", "LostReply/DeletedBetween", "Recreate/Subpath", "Recreate/ThroughOtherHandle",
		"Damage/Delete",
	}, make: onDelete(
		func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			return s.keepingIDs(func() error { return next(ctx, k) })
		})},
	{name: "remembers ids of deleted subpaths", want: []string{"Recreate/Subpath"}, make: onDelete(
		func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			if k.Subpath == "" {
				return next(ctx, k)
			}
			return s.keepingIDs(func() error { return next(ctx, k) })
		})},
	{name: "never lists a deleted session again", want: []string{"Recreate/Listed", "Delete/Races"}, make: func(s *testStore) {
		onDelete(func(s *testStore, next func(context.Context, key) error, ctx context.Context, k key) error {
			s.disk.mark(k, true)
			return next(ctx, k)
		})(s)
		afterSessions(func(p string, got infos) infos {
			return slices.DeleteFunc(got, func(i sessionstore.SessionInfo) bool { return s.disk.isMarked(in(p, i.SessionID, "")) })
		})(s)
	}},
	{name: "each handle remembers ids", want: []string{"Recreate/ThroughOtherHandle"}, make: rememberIDs},
	{name: "puts a new session behind the clock of the old one", want: []string{"Recreate/Behind"}, make: func(s *testStore) {
		around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if s.clock != 0 && !slices.Contains(s.all(), k) {
				s.disk.mark(k, true)
			}
			return next(ctx, k, entries)
		})(s)
		s.place = func(t *transcript, fresh []storedLine) {
			t.lines = append(t.lines, fresh...)
			if s.disk.marked[t.key] {
				slices.SortStableFunc(t.lines, func(a, b storedLine) int { return a.stamp.Compare(b.stamp) })
			}
		}
	}},
}

// keepingIDs runs f and then puts back the ids that it removes.
func (s *testStore) keepingIDs(f func() error) error {
	before := map[string]map[string]bool{}
	s.disk.mu.Lock()
	for scope, ids := range s.disk.ids {
		before[scope] = ids
	}
	s.disk.mu.Unlock()
	err := f()
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for scope, ids := range before {
		if s.disk.ids[scope] == nil {
			s.disk.ids[scope] = ids
		}
	}
	return err
}

// rememberIDs makes a handle drop the ids that it has seen, even if another
// one has deleted them.
func rememberIDs(s *testStore) {
	var mu sync.Mutex
	seen := map[string]bool{}
	see := func(k key, entries []entry) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range entries {
			seen[s.scope(k)+e.UUID()] = e.UUID() != ""
		}
	}
	s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
		got, err := s.doLoad(ctx, k)
		see(k, got)
		return got, err
	}
	around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
		mu.Lock()
		rest := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return s.check(k, entries) == nil && seen[s.scope(k)+e.UUID()] })
		mu.Unlock()
		return next(ctx, k, rest)
	})(s)
	s.ops.delete = func(ctx context.Context, k key) error {
		mu.Lock()
		defer mu.Unlock()
		clear(seen)
		return s.doDelete(ctx, k)
	}
	s.ops.purge = func(ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
		mu.Lock()
		defer mu.Unlock()
		clear(seen)
		return s.doPurge(ctx, t)
	}
}
