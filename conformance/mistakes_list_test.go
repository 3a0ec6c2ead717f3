package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

type infos = []sessionstore.SessionInfo

func afterSessions(f func(project string, got infos) infos) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.sessions
		s.ops.sessions = func(ctx context.Context, p string) (infos, error) {
			got, err := next(ctx, p)
			return f(p, got), err
		}
	}
}

func dropInfos(drop func(id string) bool) func(string, infos) infos {
	return func(_ string, got infos) infos {
		return slices.DeleteFunc(got, func(i sessionstore.SessionInfo) bool { return drop(i.SessionID) })
	}
}

func afterProjects(f func(got []string) []string) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.projects
		s.ops.projects = func(ctx context.Context) ([]string, error) { got, err := next(ctx); return f(got), err }
	}
}

func afterOrphans(f func(s *testStore, got []string) []string) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.orphans
		s.ops.orphans = func(ctx context.Context, p string) ([]string, error) {
			got, err := next(ctx, p)
			return f(s, got), err
		}
	}
}

func afterSubkeys(f func(s *testStore, main key, got []string) []string) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.subkeys
		s.ops.subkeys = func(ctx context.Context, p, id string) ([]string, error) {
			got, err := next(ctx, p, id)
			if err != nil {
				return nil, err
			}
			return f(s, in(p, id, ""), got), nil
		}
	}
}

// all returns the keys of all transcripts.
func (s *testStore) all() []key {
	var keys []key
	s.each(func(t *transcript) { keys = append(keys, t.key) })
	return keys
}

func afterAppend(f func(s *testStore, k key)) func(*testStore) {
	return around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
		err := next(ctx, k, entries)
		if err == nil && len(entries) > 0 {
			f(s, k)
		}
		return err
	})
}

var errUnknown = errors.New("no such project")

var listMistakes = []mistake{
	{name: "lists a session once per batch", want: []string{
		"ListSessions/Each", "Identity/OnlyRepeats", "Writers/OneSession", "Summaries/SameAsSessions",
	},
		make: func(s *testStore) {
			afterSessions(func(p string, got infos) infos {
				var all infos
				for _, info := range got {
					s.peek(in(p, info.SessionID, ""), func(t *transcript) { all = append(all, slices.Repeat(infos{info}, len(t.attempts))...) })
				}
				return all
			})(s)
		}},
	{name: "lists the oldest first", want: []string{"ListSessions/NewestFirst", "ListSessions/TiesByID?", "Summaries/SameAsSessions"},
		make: afterSessions(func(_ string, got infos) infos { slices.Reverse(got); return got })},
	{name: "breaks ties the other way", want: []string{"ListSessions/TiesByID"}, make: func(s *testStore) {
		s.now = func() int64 { return time.Now().UnixMilli() / 50 * 50 }
		afterSessions(func(_ string, got infos) infos {
			if len(got) > 4 {
				slices.SortFunc(got, func(a, b sessionstore.SessionInfo) int {
					if a.Mtime != b.Mtime {
						return newestFirst(a, b)
					}
					return strings.Compare(b.SessionID, a.SessionID)
				})
			}
			return got
		})(s)
	}},
	{name: "fails for an unknown project", want: []string{"ListSessions/UnknownProject"}, make: func(s *testStore) {
		next := s.ops.sessions
		s.ops.sessions = func(ctx context.Context, p string) (infos, error) {
			got, err := next(ctx, p)
			if p == "unknown" && len(s.all()) > 0 {
				err = errUnknown
			}
			return got, err
		}
	}},
	{name: "lists sessions of subpaths", want: []string{"ListSessions/OnlySubpaths"}, make: func(s *testStore) {
		afterSessions(func(p string, got infos) infos {
			for _, k := range s.all() {
				known := slices.ContainsFunc(got, func(i sessionstore.SessionInfo) bool { return i.SessionID == k.SessionID })
				if k.ProjectKey == p && strings.HasPrefix(k.Subpath, "subagents/") && !known {
					got = append(got, sessionstore.SessionInfo{SessionID: k.SessionID})
				}
			}
			return got
		})(s)
	}},
	{name: "counts seconds", want: []string{"ListSessions/Milliseconds", "Purge/NothingOlder"}, make: func(s *testStore) {
		s.now = func() int64 { return time.Now().Unix() }
	}},
	{name: "keeps the time of the first append", want: []string{"ListSessions/AppendMovesTime"}, make: func(s *testStore) {
		next := s.ops.append
		s.ops.append = func(ctx context.Context, k key, entries []entry) error {
			before := int64(0)
			s.peek(k, func(t *transcript) { before = t.mtime })
			err := next(ctx, k, entries)
			s.peek(k, func(t *transcript) { t.mtime = cmp.Or(before, t.mtime) })
			return err
		}
	}},
	{name: "streaming moves the time", want: []string{"ListSessions/ReadingKeepsTime"}, make: func(s *testStore) {
		s.ops.stream = func(ctx context.Context, k key) seq { s.touch(k); return s.doStream(ctx, k) }
	}},
	{name: "an append to a subpath moves the time", want: []string{
		"ListSessions/SubpathKeepsTime",
	}, make: afterAppend(func(s *testStore, k key) { s.touch(k) })},
	{name: "an append moves the time of other sessions", want: []string{
		"ListSessions/OtherSessionKeepsTime",
	}, make: afterAppend(func(s *testStore, k key) {
		for _, other := range s.all() {
			if other.ProjectKey == k.ProjectKey && k.SessionID == "other" {
				s.touch(other)
			}
		}
	})},
	{name: "deleting a subpath moves the time", want: []string{"ListSessions/DeletedSubpathKeepsTime"}, make: func(s *testStore) {
		s.ops.delete = func(ctx context.Context, k key) error { s.touch(k); return s.doDelete(ctx, k) }
	}},
	{name: "lists projects in any order", want: []string{"ListProjects/Sorted", "ListProjects/Deleted"},
		make: afterProjects(func(got []string) []string { slices.Reverse(got); return got })},
	{name: "lists a project once per session", want: []string{"ListProjects/Once"}, make: func(s *testStore) {
		afterProjects(func(got []string) []string {
			var all []string
			for _, k := range s.all() {
				if k.Subpath == "" || len(got) == 0 {
					all = append(all, k.ProjectKey)
				} else if slices.Contains(got, k.ProjectKey) {
					all = append(all, k.ProjectKey)
				}
			}
			slices.Sort(all)
			return all
		})(s)
	}},
	{name: "lists projects with main transcripts only", want: []string{"ListProjects/OnlySubpaths", "ListProjects/Deleted"}, make: func(s *testStore) {
		afterProjects(func(got []string) []string {
			all := s.all()
			return slices.DeleteFunc(got, func(p string) bool {
				return !slices.ContainsFunc(all, func(k key) bool { return k.ProjectKey == p && k.Subpath == "" })
			})
		})(s)
	}},
	{name: "lists an empty project", want: []string{"ListProjects/Empty"}, make: afterProjects(func(got []string) []string {
		if len(got) == 0 {
			return []string{""}
		}
		return got
	})},
	{name: "keeps deleted projects", want: []string{"ListProjects/Deleted", "Delete/Main", "Delete/Cascade", "Delete/CascadeWithoutMain", "Delete/LastSubpath",
		"Delete/OtherHandle", "Size/ManySubpaths", "Purge/WholeSessions"}, make: func(s *testStore) {
		afterProjects(func(got []string) []string {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			for k := range s.disk.marked {
				got = append(got, k.ProjectKey)
			}
			slices.Sort(got)
			return slices.Compact(got)
		})(s)
		afterAppend(func(s *testStore, k key) { s.disk.mark(k, true) })(s)
	}},
	{name: "lists subkeys in any order", want: []string{"ListSubkeys/Sorted", "ListSubkeys/WithoutMain", "Size/ManySubpaths"},
		make: afterSubkeys(func(_ *testStore, _ key, got []string) []string { slices.Reverse(got); return got })},
	{name: "lists the main transcript", want: []string{
		"ListSubkeys/NeverMain", "Keys/*",
	}, make: afterSubkeys(func(s *testStore, main key, got []string) []string {
		if slices.Contains(s.all(), main) {
			got = append([]string{""}, got...)
		}
		return got
	})},
	{name: "fails for a session it does not know", want: []string{"ListSubkeys/None", "Delete/Races?"}, make: func(s *testStore) {
		s.ops.subkeys = func(ctx context.Context, p, id string) ([]string, error) {
			got, err := s.doSubkeys(ctx, p, id)
			known := slices.ContainsFunc(s.all(), func(k key) bool { return k.Main() == in(p, id, "") })
			if err == nil && !known && len(s.all()) > 0 {
				err = errUnknown
			}
			return got, err
		}
	}},
	{name: "lists subkeys by prefix", want: []string{"ListSubkeys/OneSession", "Keys/Joined", "Keys/Slashes"}, make: afterSubkeys(
		func(s *testStore, main key, got []string) []string {
			for _, k := range s.all() {
				if k.ProjectKey == main.ProjectKey && strings.HasPrefix(k.SessionID, main.SessionID) && k.Subpath != "" {
					got = append(got, k.Subpath)
				}
			}
			slices.Sort(got)
			return slices.Compact(got)
		})},
	{name: "lists no subkeys without a main transcript", want: []string{
		"ListSubkeys/WithoutMain", "ListSubkeys/Sorted", "ListSubkeys/OneSession", "KeyLimit/LongestKey",
		"Size/ManySubpaths", "Metadata/Alone", "Keys/Joined", "Keys/Slashes", "Keys/Dots",
	}, make: afterSubkeys(func(s *testStore, main key, got []string) []string {
		if !slices.Contains(s.all(), main) {
			return nil
		}
		return got
	})},
	{name: "lists deleted subpaths", want: []string{"ListSubkeys/Deleted"}, make: func(s *testStore) {
		s.ops.delete = func(ctx context.Context, k key) error {
			if k.Subpath != "" {
				s.disk.mark(k, true)
			}
			return s.doDelete(ctx, k)
		}
		afterSubkeys(func(s *testStore, main key, got []string) []string {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			for k := range s.disk.marked {
				if len(got) > 0 && k.Main() == main {
					got = append(got, k.Subpath)
				}
			}
			return got
		})(s)
	}},
	{name: "lists only a page of sessions", want: []string{"Size/ManySessions"}, make: afterSessions(func(_ string, got infos) infos {
		return got[:min(len(got), 25)]
	})},
	{name: "lists orphans in any order", want: []string{"ListOrphans/Sorted"}, make: afterOrphans(func(_ *testStore, got []string) []string {
		slices.Reverse(got)
		return got
	})},
	{name: "takes every session with subpaths for an orphan", want: []string{"ListOrphans/NoMainTranscript"}, make: func(s *testStore) {
		s.ops.orphans = func(ctx context.Context, p string) (found []string, err error) {
			s.each(func(t *transcript) {
				if t.key.ProjectKey == p && t.key.Subpath != "" {
					found = append(found, t.key.SessionID)
				}
			})
			slices.Sort(found)
			return slices.Compact(found), s.start(ctx, s.project(p))
		}
	}},
	{name: "remembers deleted orphans", want: []string{"ListOrphans/Deleted"}, make: func(s *testStore) {
		seen := map[string]bool{}
		s.ops.delete = func(ctx context.Context, k key) error {
			if got, err := s.doOrphans(ctx, k.ProjectKey); err == nil && slices.Contains(got, k.SessionID) {
				seen[k.SessionID] = true
			}
			return s.doDelete(ctx, k)
		}
		s.ops.orphans = func(ctx context.Context, p string) ([]string, error) {
			got, err := s.doOrphans(ctx, p)
			got = append(got, slices.Sorted(maps.Keys(seen))...)
			slices.Sort(got)
			return slices.Compact(got), err
		}
	}},
	{name: "lists only a page of subkeys", want: []string{"Size/ManySubpaths"}, make: afterSubkeys(func(_ *testStore, main key, got []string) []string {
		if main == mainKey {
			got = got[:min(len(got), 11)]
		}
		return got
	})},
}

type summaryRows = []sessionstore.SessionSummary

func afterSummaries(f func(s *testStore, project string, got summaryRows) summaryRows) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.summaries
		s.ops.summaries = func(ctx context.Context, p string) (summaryRows, error) {
			got, err := next(ctx, p)
			if err != nil {
				return nil, err
			}
			return f(s, p, got), nil
		}
	}
}

type foldFunc = func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage

func folding(f func(s *testStore) foldFunc) func(*testStore) {
	return func(s *testStore) { s.fold = f(s) }
}

var summaryMistakes = []mistake{
	{name: "gives summaries no time", want: []string{
		"Summaries/SameAsSessions",
	}, make: afterSummaries(func(_ *testStore, _ string, got summaryRows) summaryRows {
		for i := range got {
			got[i].Mtime = 0
		}
		return got
	})},
	{name: "folds the first batch only", want: []string{
		"Summaries/Fold", "Summaries/Repeats", "Summaries/TwoHandles", "Summaries/Writers", "Summaries/LostReply",
	},
		make: folding(func(*testStore) foldFunc {
			return func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage {
				if state != nil {
					return state
				}
				return foldFresh(t, state, fresh)
			}
		})},
	{name: "folds repeats", want: []string{"Summaries/Repeats", "Summaries/Writers?"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			s.peek(k, func(t *transcript) {
				if k.Subpath == "" && err == nil {
					t.summary = foldFresh(t, t.summary, entries)
				}
			})
			return err
		})},
	{name: "folds subpaths", want: []string{"Summaries/OnlyMain"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			s.peek(k.Main(), func(t *transcript) {
				if k.Subpath != "" && err == nil {
					t.summary = foldFresh(t, t.summary, entries)
				}
			})
			return err
		})},
	{name: "has summaries of subpaths", want: []string{
		"Summaries/OnlySubpaths",
	}, make: afterSummaries(func(s *testStore, p string, got summaryRows) summaryRows {
		for _, k := range s.all() {
			if k.ProjectKey == p && len(got) == 0 {
				got = append(got, sessionstore.SessionSummary{SessionID: k.SessionID, Data: json.RawMessage("{}")})
			}
		}
		return got
	})},
	{name: "fails for summaries of an unknown project", want: []string{"Summaries/UnknownProject"}, make: func(s *testStore) {
		s.ops.summaries = func(ctx context.Context, p string) (summaryRows, error) {
			got, err := s.doSummaries(ctx, p)
			if p == "unknown" && len(s.all()) > 0 {
				err = errUnknown
			}
			return got, err
		}
	}},
	{name: "has no summary of dull sessions", want: []string{
		"Summaries/Data",
	}, make: afterSummaries(func(_ *testStore, _ string, got summaryRows) summaryRows {
		for i := range got {
			if len(got[i].Data) < 30 {
				got[i].Data = nil
			}
		}
		return got
	})},
	{name: "gives its own summary away", want: []string{
		"Summaries/OwnData",
	}, make: afterSummaries(func(s *testStore, p string, got summaryRows) summaryRows {
		for i := range got {
			s.peek(in(p, got[i].SessionID, ""), func(t *transcript) { got[i].Data = t.summary })
		}
		return got
	})},
	{name: "goes on with the summary of a deleted session", want: []string{"Summaries/Deleted"}, make: folding(func(*testStore) foldFunc {
		kept := map[key]json.RawMessage{}
		return func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage {
			if state == nil {
				state = kept[t.key]
			}
			kept[t.key] = foldFresh(t, state, fresh)
			return slices.Clone(kept[t.key])
		}
	})},
	{name: "each handle folds on its own", want: []string{"Summaries/TwoHandles"}, make: folding(func(*testStore) foldFunc {
		own := map[*transcript]json.RawMessage{}
		return func(t *transcript, _ json.RawMessage, fresh []entry) json.RawMessage {
			own[t] = foldFresh(t, own[t], fresh)
			return slices.Clone(own[t])
		}
	})},
	{name: "folds only when it is alone", want: []string{"Summaries/Writers"}, make: func(s *testStore) {
		s.fold = func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage {
			if t.raced = t.raced || s.disk.flights[t.key] > 1; t.raced {
				return state
			}
			return foldFresh(t, state, fresh)
		}
		overlapping(perKey, func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			return next(ctx, k, entries)
		})(s)
	}},
	{name: "does not fold what it hears nothing of", want: []string{"Summaries/LostReply"}, make: func(s *testStore) {
		var mu sync.Mutex
		lost := false
		s.fold = func(t *transcript, state json.RawMessage, fresh []entry) json.RawMessage {
			mu.Lock()
			defer mu.Unlock()
			if lost {
				return state
			}
			return foldFresh(t, state, fresh)
		}
		around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			mu.Lock()
			lost = s.lose.Load()
			mu.Unlock()
			return next(ctx, k, entries)
		})(s)
	}},
}
