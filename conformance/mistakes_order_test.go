package conformance

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
)

func (d *disk) mark(k key, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marked[k] = on
}

func (d *disk) isMarked(k key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marked[k]
}

// overlapping calls f in place of Append while another Append with the same
// lane is under way.
func overlapping(lane func(k key) any, f func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error) func(*testStore) {
	return around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
		count := func(n int) int {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			s.disk.flights[lane(k)] += n
			return s.disk.flights[lane(k)]
		}
		n := count(1)
		defer count(-1)
		time.Sleep(100 * time.Microsecond)
		if n > 1 {
			return f(s, next, ctx, k, entries)
		}
		return next(ctx, k, entries)
	})
}

func perKey(k key) any { return k }

func sortedBy(compare func(a, b entry) int) func(*testStore) {
	return afterLoad(func(_ key, got []entry) []entry {
		slices.SortStableFunc(got, compare)
		return got
	})
}

func timestamp(e entry) string { return strings.Trim(field(e, "timestamp"), `"`) }

// inFront puts a batch before everything.
func inFront(t *transcript, fresh []storedLine) { t.lines = slices.Concat(fresh, t.lines) }

// beforeOther puts a batch of lines before the last one of another writer.
func beforeOther(t *transcript, fresh []storedLine) {
	at := len(t.lines)
	if n := at - linesPerBatch; n >= 0 && len(fresh) == linesPerBatch && strings.HasPrefix(fresh[0].e.UUID(), "w") &&
		places([]entry{t.lines[n].e})[0].writer != places([]entry{fresh[0].e})[0].writer {
		at = n
	}
	t.lines = slices.Insert(t.lines, at, fresh...)
}

var orderMistakes = []mistake{
	{name: "sorts by text", broad: true, want: []string{
		"Order/Calls",
	}, make: sortedBy(func(a, b entry) int { return strings.Compare(string(a), string(b)) })},
	{name: "puts titles behind", broad: true, want: []string{
		"Order/InBatch",
	}, make: sortedBy(func(a, b entry) int { return cmp.Compare(a.Type(), b.Type()) * -1 })},
	{name: "sorts by timestamp", want: []string{"Order/BackwardTimestamps", "Order/MissingTimestamps"},
		make: sortedBy(func(a, b entry) int { return cmp.Compare(timestamp(a), timestamp(b)) })},
	{name: "sorts by timestamp and id", want: []string{"Order/EqualTimestamps"}, make: sortedBy(func(a, b entry) int {
		if timestamp(a) == "" || timestamp(a) != timestamp(b) {
			return 0
		}
		return cmp.Compare(a.UUID(), b.UUID())
	})},
	{name: "puts entries without timestamp first", want: []string{"Order/MissingTimestamps"}, make: sortedBy(func(a, b entry) int {
		return min(len(timestamp(a)), 1) - min(len(timestamp(b)), 1)
	})},
	{name: "loses appends at once", want: []string{"Writers/NothingLost", "Writers/LargeBatches", "Writers/TwoHandles"}, make: overlapping(perKey,
		func(*testStore, appendFunc, context.Context, key, []entry) error { return nil })},
	{name: "loses long appends at once", want: []string{"Writers/LargeBatches"}, make: overlapping(perKey,
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if len(entries) > 10 {
				return nil
			}
			return next(ctx, k, entries)
		})},
	{name: "tears batches apart", want: []string{"Writers/WholeBatches", "Writers/LargeBatches?"}, make: overlapping(perKey,
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			for _, e := range entries {
				if err := next(ctx, k, []entry{e}); err != nil {
					return err
				}
				time.Sleep(100 * time.Microsecond)
			}
			return nil
		})},
	{name: "puts late batches first", want: []string{
		"Writers/OwnOrder", "Writers/LargeBatches?", "Writers/TwoHandles", "Writers/GrowsAtTheEnd", "Summaries/Writers?",
	}, make: func(s *testStore) {
		s.place = func(t *transcript, fresh []storedLine) {
			if t.raced = t.raced || s.disk.flights[t.key] > 1; t.raced {
				inFront(t, fresh)
			} else {
				t.lines = append(t.lines, fresh...)
			}
		}
		overlapping(perKey, func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			return next(ctx, k, entries)
		})(s)
	}},
	{name: "gives another order each time", want: []string{
		"Writers/OneOrder", "Writers/TwoHandles?", "Writers/GrowsAtTheEnd?",
	}, make: func(s *testStore) {
		loads := 0
		var mu sync.Mutex
		afterLoad(func(_ key, got []entry) []entry {
			mu.Lock()
			defer mu.Unlock()
			if len(got) > 0 && strings.HasPrefix(got[0].UUID(), "w") {
				if loads++; loads%2 == 0 {
					slices.SortStableFunc(got, func(a, b entry) int {
						return cmp.Compare(places([]entry{a})[0].writer, places([]entry{b})[0].writer)
					})
				}
			}
			return got
		})(s)
	}},
	{name: "looks for repeats before it locks", want: []string{"Writers/SameEntry"}, make: overlapping(perKey,
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mu.Lock()
			clear(s.disk.ids[s.scope(k)])
			s.disk.mu.Unlock()
			return next(ctx, k, entries)
		})},
	{name: "lists a session once per first append", want: []string{"Writers/OneSession"}, make: func(s *testStore) {
		overlapping(perKey, func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mark(k, true)
			return next(ctx, k, entries)
		})(s)
		afterSessions(func(p string, got []sessionstore.SessionInfo) []sessionstore.SessionInfo {
			for _, info := range got {
				if s.disk.isMarked(in(p, info.SessionID, "")) {
					got = append(got, info)
				}
			}
			return got
		})(s)
	}},
	{name: "loses appends to several subpaths at once", want: []string{"Writers/ManyKeys"}, make: overlapping(
		func(k key) any { return k.Subpath != "" && k.Subpath != "a" },
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if k.Subpath == "" || k.Subpath == "a" {
				return next(ctx, k, entries)
			}
			return nil
		})},
	{name: "puts a batch before one already seen", want: []string{"Writers/GrowsAtTheEnd"}, make: func(s *testStore) {
		s.place = beforeOther
		overlapping(perKey, func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			return next(ctx, k, entries)
		})(s)
	}},
}

// clocked orders lines by the clocks of the hosts. Loading and streaming can
// raise the clock of a handle to what it has seen, which makes it right.
func clocked(raise func(s *testStore, streams bool, loads int) bool) func(*testStore) {
	return func(s *testStore) {
		last := map[key]time.Time{}
		loads := 0
		see := func(k key, streams bool) {
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			loads++
			if t := s.disk.transcripts[s.name(k)]; t != nil && raise(s, streams, loads) {
				for _, l := range t.lines {
					if l.stamp.After(last[k]) {
						last[k] = l.stamp
					}
				}
			}
		}
		s.place = func(t *transcript, fresh []storedLine) {
			for i := range fresh {
				if !fresh[i].stamp.After(last[t.key]) {
					fresh[i].stamp = last[t.key].Add(1)
				}
				last[t.key] = fresh[i].stamp
			}
			t.lines = append(t.lines, fresh...)
			slices.SortStableFunc(t.lines, func(a, b storedLine) int { return a.stamp.Compare(b.stamp) })
		}
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) { see(k, false); return s.doLoad(ctx, k) }
		s.ops.stream = func(ctx context.Context, k key) seq { see(k, true); return s.doStream(ctx, k) }
	}
}

// seenBy gives a handle only the lines that it appended itself, or that were
// there when it was opened.
func seenBy(s *testStore, hides func(l storedLine, age int) bool) {
	s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
		got, err := s.doLoad(ctx, k)
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		t := s.disk.transcripts[s.name(k)]
		if err != nil || t == nil {
			return got, err
		}
		var seen []entry
		for i, l := range t.lines {
			if !hides(l, len(t.lines)-i) {
				seen = append(seen, slices.Clone(l.e))
			}
		}
		return seen, nil
	}
	s.ops.stream = streamOf(s)
}

var handoverMistakes = []mistake{
	{name: "holds the last entry back", broad: true, want: []string{"Handover/Durable"}, make: func(s *testStore) {
		seenBy(s, func(l storedLine, age int) bool { return l.by != s && age == 1 })
	}},
	{name: "does not see what others append later", broad: true, want: []string{"Handover/SeesLaterAppends"}, make: func(s *testStore) {
		opened := time.Now()
		seenBy(s, func(l storedLine, _ int) bool { return l.by != s && l.stamp.Add(-l.by.clock).After(opened) })
	}},
	{name: "each handle counts its own batches", want: []string{
		"Handover/TakeOver", "Handover/InTurn", "Handover/ClockBehind", "Handover/ClockBehindInTurn",
		"Handover/ClockBehindStreamed", "Handover/RepeatsAfterLoad", "Summaries/TwoHandles",
		"Recreate/ThroughOtherHandle",
	}, make: func(s *testStore) {
		s.place = func(t *transcript, fresh []storedLine) {
			rank := map[*testStore]int{}
			order := map[*byte]int{}
			for _, l := range append(t.lines, fresh...) {
				order[&l.e[0]] = rank[l.by]
				rank[l.by]++
			}
			t.lines = append(t.lines, fresh...)
			slices.SortStableFunc(t.lines, func(a, b storedLine) int { return cmp.Compare(order[&a.e[0]], order[&b.e[0]]) })
		}
	}},
	{name: "orders by the clocks of the hosts", want: []string{
		"Handover/ClockBehind", "Handover/ClockBehindInTurn", "Handover/ClockBehindStreamed", "Recreate/Behind",
	},
		make: clocked(func(*testStore, bool, int) bool { return false })},
	{name: "raises its clock once only", want: []string{"Handover/ClockBehindInTurn", "Recreate/Behind?"},
		make: clocked(func(_ *testStore, _ bool, loads int) bool { return loads <= 1 })},
	{name: "streaming does not raise the clock", want: []string{"Handover/ClockBehindStreamed"},
		make: clocked(func(_ *testStore, streams bool, _ int) bool { return !streams })},
	{name: "each handle knows its own ids", want: []string{
		"Handover/Repeats", "Handover/RepeatsAfterLoad", "Recreate/ThroughOtherHandle",
	}, make: func(s *testStore) {
		scope := s.scope
		s.scope = func(k key) string { return string(rune('A'+s.number)) + scope(k) }
	}},
	{name: "knows the ids of its first load", want: []string{
		"Handover/RepeatsAfterLoad", "Handover/Repeats", "Recreate/ThroughOtherHandle",
	}, make: func(s *testStore) {
		scope := s.scope
		s.scope = func(k key) string { return string(rune('A'+s.number)) + scope(k) }
		load := s.ops.load
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := load(ctx, k)
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			if s.disk.ids[s.scope(k)] == nil && got != nil {
				s.disk.ids[s.scope(k)] = map[string]bool{}
				for _, e := range got {
					s.disk.ids[s.scope(k)][e.UUID()] = true
				}
			}
			return got, err
		}
	}},
	{name: "drops what another host wrote too", want: []string{"Handover/EqualWithoutUUID"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mu.Lock()
			t := s.disk.transcripts[s.name(k)]
			var rest []entry
			for _, e := range entries {
				if !slices.ContainsFunc(t.linesOr(), func(l storedLine) bool { return l.by != s && e.UUID() == "" && string(l.e) == string(e) }) {
					rest = append(rest, e)
				}
			}
			s.disk.mu.Unlock()
			return next(ctx, k, rest)
		})},
	{name: "writes over what it has not read", want: []string{
		"Handover/NothingLost", "Writers/TwoHandles?", "Handover/ClockBehindStreamed", "Handover/RepeatsAfterLoad",
		"Summaries/TwoHandles",
	}, make: func(s *testStore) {
		known := map[key]int{} // how many lines this handle has read or written
		s.place = func(t *transcript, fresh []storedLine) {
			n := min(known[t.key], len(t.lines))
			if s.number == 0 || known[t.key] == 0 && len(t.lines) < 2 {
				n = len(t.lines)
			}
			t.lines = append(slices.Clone(t.lines[:n]), fresh...)
			known[t.key] = len(t.lines)
		}
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := s.doLoad(ctx, k)
			s.disk.mu.Lock()
			defer s.disk.mu.Unlock()
			known[k] = len(got)
			return got, err
		}
	}},
	{name: "adds the delay of the host to the time", want: []string{"Handover/Lists"}, make: func(s *testStore) {
		afterSessions(func(_ string, got []sessionstore.SessionInfo) []sessionstore.SessionInfo {
			for i := range got {
				got[i].Mtime += int64(s.number)
			}
			return got
		})(s)
	}},
}
