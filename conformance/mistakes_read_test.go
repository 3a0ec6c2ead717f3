package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionstore/sessionstore"
)

func onLoad(f func(s *testStore, ctx context.Context, k key) ([]entry, error)) func(*testStore) {
	return func(s *testStore) {
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) { return f(s, ctx, k) }
	}
}

func onStream(f func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool)) func(*testStore) {
	return func(s *testStore) {
		s.ops.stream = func(ctx context.Context, k key) seq {
			return func(yield func(entry, error) bool) { f(s, ctx, k, yield) }
		}
	}
}

type purgeFunc = func(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error)

func onPurge(f func(s *testStore, next purgeFunc, ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error)) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.purge
		s.ops.purge = func(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
			return f(s, next, ctx, olderThan)
		}
	}
}

// emptyIf gives an empty slice where nil is due.
func emptyIf(f func(s *testStore, k key) bool) func(*testStore) {
	return onLoad(func(s *testStore, ctx context.Context, k key) ([]entry, error) {
		got, err := s.doLoad(ctx, k)
		if err == nil && got == nil && f(s, k) {
			return []entry{}, nil
		}
		return got, err
	})
}

// create makes an empty transcript.
func (s *testStore) create(k key) {
	if k.Validate() == nil && k.ProjectKey != "conformance" && !slices.Contains(s.all(), k) {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		s.disk.transcripts[s.name(k)] = &transcript{key: k, attempts: map[string]bool{}}
	}
}

// slab cuts all entries out of one buffer, without a limit to each.
func slab(all []entry) []entry {
	var buf []byte
	for _, e := range all {
		buf = append(buf, e...)
	}
	at := 0
	for i, e := range all {
		all[i] = buf[at : at+len(e)]
		at += len(e)
	}
	return all
}

var readMistakes = slices.Concat(loadMistakes, streamMistakes, purgeMistakes, []mistake{
	{name: "keeps the last metadata only", want: []string{"Metadata/Subpath"}, make: afterLoad(func(k key, got []entry) []entry {
		if k.Subpath == "" || got == nil {
			return got
		}
		return lastMetadataFirst(got)
	})},
	{name: "takes metadata for no transcript", want: []string{"Metadata/Alone"}, make: afterLoad(func(k key, got []entry) []entry {
		if len(got) == 1 && got[0].Type() == "agent_metadata" {
			return nil
		}
		return got
	})},
	{name: "keeps the last metadata of main transcripts only", want: []string{"Metadata/Main"}, make: afterLoad(func(k key, got []entry) []entry {
		if k.Subpath != "" || got == nil {
			return got
		}
		return lastMetadataFirst(got)
	})},
	{name: "cuts huge batches", want: []string{"Size/HugeBatch", "Size/HugeBatchOfRepeats"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			return next(ctx, k, entries[:min(len(entries), 300)])
		})},
	{name: "forgets ids in huge batches", want: []string{"Size/HugeBatchOfRepeats"}, make: func(s *testStore) {
		s.id = func(k key, e entry) string {
			if ids := s.disk.ids[s.scope(k)]; len(ids) > 350 && len(ids) < 450 {
				clear(ids)
			}
			return e.UUID()
		}
	}},
	{name: "loads the first page of batches", want: []string{"Size/ManyBatches"}, make: func(s *testStore) {
		afterLoad(func(k key, got []entry) []entry {
			s.peek(k, func(t *transcript) {
				if len(t.attempts) > 50 {
					got = got[:50]
				}
			})
			return got
		})(s)
	}},
})

var loadMistakes = []mistake{
	{name: "gives an empty slice", broad: true, want: []string{"Load/UnknownKey"}, make: emptyIf(func(*testStore, key) bool { return true })},
	{name: "gives an empty slice for an unknown subpath", want: []string{
		"Load/UnknownSubpath", "Delete/Subpath", "Keys/*", "Delete/Races?",
	}, make: emptyIf(func(s *testStore, k key) bool {
		return k.Subpath != "" && slices.Contains(s.all(), k.Main())
	})},
	{name: "gives an empty slice for a session of subpaths", want: []string{
		"Load/UnknownMain", "Delete/Races?",
	}, make: emptyIf(func(s *testStore, k key) bool {
		return k.Subpath == "" && slices.ContainsFunc(s.all(), func(o key) bool { return o.Main() == k })
	})},
	{name: "fails for an unknown key in Load", broad: true, want: []string{
		"Load/UnknownKey",
	}, make: onLoad(func(s *testStore, ctx context.Context, k key) ([]entry, error) {
		got, err := s.doLoad(ctx, k)
		if got == nil && err == nil {
			err = sessionstore.ErrNotFound
		}
		return got, err
	})},
	{name: "streaming creates the key", want: []string{"Load/LooksOnly"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			s.create(k)
			s.doStream(ctx, k)(yield)
		})},
	{name: "gives its own bytes away", want: []string{
		"Load/OwnBytes", "Stream/OwnEntries",
	}, make: func(s *testStore) { s.give = func(e entry) entry { return e } }},
	{name: "gives the same slice away", want: []string{"Load/OwnSlice"}, make: func(s *testStore) {
		var mu sync.Mutex
		slices := map[key][]entry{}
		load := s.ops.load
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := load(ctx, k)
			// Readers at once would be a data race before they were a failure.
			if got == nil || strings.HasPrefix(got[0].UUID(), "w") {
				return got, err
			}
			mu.Lock()
			defer mu.Unlock()
			if slices[k] == nil {
				slices[k] = make([]entry, 0, len(got)+8)
			}
			slices[k] = append(slices[k][:0], got...)
			return slices[k], err
		}
	}},
	{name: "cuts entries out of one buffer", want: []string{"Load/EntriesApart"}, make: func(s *testStore) {
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := s.doLoad(ctx, k)
			return slab(got), err
		}
	}},
}

var streamMistakes = []mistake{
	{name: "streams entries with a uuid only", want: []string{"Stream/SameAsLoad", "Size/ManyBatches"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			for e, err := range s.doStream(ctx, k) {
				if (err != nil || e.UUID() != "") && !yield(e, err) {
					return
				}
			}
		})},
	{name: "fails for an unknown key in Stream", want: []string{"Stream/UnknownKey", "Load/LooksOnly"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			if s.start(ctx, k.Validate()) == nil && !slices.Contains(s.all(), k) {
				yield(nil, sessionstore.ErrNotFound)
				return
			}
			s.doStream(ctx, k)(yield)
		})},
	{name: "streams its own bytes", want: []string{"Stream/OwnEntries"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			got, err := s.doLoad(ctx, k)
			for i := range got {
				if ctx.Err() != nil {
					err = ctx.Err()
					break
				}
				var own entry
				s.peek(k, func(t *transcript) { own = t.lines[i].e })
				if !yield(own, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
		})},
	{name: "streams once", want: []string{"Stream/Again"}, make: func(s *testStore) {
		s.ops.stream = func(ctx context.Context, k key) seq {
			done := false
			return func(yield func(entry, error) bool) {
				if !done {
					done = true
					s.doStream(ctx, k)(yield)
				}
			}
		}
	}},
	{name: "leaves a goroutine behind", alone: true, want: []string{"Stream/StopsEarly"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			entries := make(chan entry)
			stop := time.After(5 * time.Second)
			go func() {
				defer close(entries)
				for e := range s.doStream(ctx, k) {
					select {
					case entries <- e:
					case <-stop:
						return
					}
				}
			}()
			for e := range entries {
				if e != nil && !yield(e, nil) {
					return
				}
			}
			if err := s.start(ctx, k.Validate()); err != nil {
				yield(nil, err)
			} else if _, err := s.doLoad(ctx, k); err != nil {
				yield(nil, err)
			}
		})},
	{name: "cannot append while it streams", want: []string{"Stream/AppendInside"}, make: func(s *testStore) {
		var streams atomic.Int32
		onStream(func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			streams.Add(1)
			defer streams.Add(-1)
			s.doStream(ctx, k)(yield)
		})(s)
		around(func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if streams.Load() > 0 {
				return errors.New("conn busy")
			}
			return next(ctx, k, entries)
		})(s)
	}},
	{name: "ends quietly when it is cancelled", want: []string{"Stream/Cancelled"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			n := 0
			for e, err := range s.doStream(ctx, k) {
				if err != nil && n > 0 || !yield(e, err) {
					return
				}
				n++
			}
		})},
	{name: "goes on after an error", want: []string{"Stream/Cancelled"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			n := 0
			for e, err := range s.doStream(ctx, k) {
				if !yield(e, err) {
					return
				}
				n++
				if err != nil && n > 1 {
					yield(title("more"), nil)
				}
			}
		})},
}

var purgeMistakes = []mistake{
	{name: "purges the limit too", want: []string{"Purge/OnlyOlder", "Purge/Report"}, make: onPurge(
		func(_ *testStore, next purgeFunc, ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			return next(ctx, t.Add(time.Millisecond))
		})},
	{name: "purges main transcripts only", want: []string{"Purge/WholeSessions", "Purge/SameUUIDs"}, make: onPurge(
		func(s *testStore, next purgeFunc, ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			kept := map[string]*transcript{}
			s.each(func(t *transcript) {
				if t.key.Subpath != "" && t.key.SessionID == mainKey.SessionID {
					kept[s.name(t.key)] = t
				}
			})
			var report sessionstore.PurgeReport
			err := s.keepingIDs(func() (err error) { report, err = next(ctx, t); return err })
			for name, t := range kept {
				s.disk.transcripts[name] = t
			}
			return report, err
		})},
	{name: "counts nothing", want: []string{"Purge/Report"}, make: onPurge(
		func(_ *testStore, next purgeFunc, ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			_, err := next(ctx, t)
			return sessionstore.PurgeReport{}, err
		})},
	{name: "purges one project", want: []string{"Purge/AllProjects"}, make: onPurge(
		func(s *testStore, next purgeFunc, ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			kept := map[string]*transcript{}
			s.each(func(t *transcript) {
				if t.key.ProjectKey == "q" {
					kept[s.name(t.key)] = t
				}
			})
			report, err := next(ctx, t)
			for name, t := range kept {
				s.disk.transcripts[name] = t
			}
			return report, err
		})},
	{name: "takes no limit for all", want: []string{"Purge/NothingOlder"}, make: onPurge(
		func(_ *testStore, next purgeFunc, ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			if t.IsZero() {
				t = future()
			}
			return next(ctx, t)
		})},
	{name: "remembers ids of purged sessions", want: []string{"Purge/SameUUIDs"}, make: onPurge(
		func(s *testStore, next purgeFunc, ctx context.Context, t time.Time) (report sessionstore.PurgeReport, err error) {
			err = s.keepingIDs(func() (err error) { report, err = next(ctx, t); return err })
			return report, err
		})},
}
