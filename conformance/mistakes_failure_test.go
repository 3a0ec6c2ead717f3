package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
)

// deaf exchanges the operations that one case is about for ones that do not
// hear the context.
func deaf(change func(s *testStore, o ops)) func(*testStore) {
	return func(s *testStore) { change(s, s.ops) }
}

var hear = context.WithoutCancel

// unharmed gives what is left of a damaged transcript.
func (s *testStore) unharmed(ctx context.Context, k key) ([]entry, error) {
	got, err := s.doLoad(ctx, k)
	if !errors.Is(err, sessionstore.ErrCorrupt) {
		return got, err
	}
	s.peek(k, func(t *transcript) {
		for _, l := range t.lines {
			got = append(got, slices.Clone(l.e))
		}
	})
	return got, nil
}

var failureMistakes = slices.Concat(contextMistakes, outageMistakes, []mistake{
	{name: "loads what is left", want: []string{"Damage/Load"}, make: onLoad(func(s *testStore, ctx context.Context, k key) ([]entry, error) {
		return s.unharmed(ctx, k)
	})},
	{name: "streams what is left", want: []string{"Damage/Stream"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			for e, err := range s.doStream(ctx, k) {
				if errors.Is(err, sessionstore.ErrCorrupt) || !yield(e, err) {
					return
				}
			}
		})},
	{name: "cannot delete what is damaged", want: []string{"Damage/Delete"}, make: func(s *testStore) {
		s.ops.delete = func(ctx context.Context, k key) error {
			if _, err := s.doLoad(ctx, k); err != nil {
				return err
			}
			return s.doDelete(ctx, k)
		}
	}},
})

var contextMistakes = []mistake{
	{name: "appends without context", want: []string{"Context/Append", "LostReply/CancelledBetween"}, make: deaf(func(s *testStore, o ops) {
		s.ops.append = func(ctx context.Context, k key, e []entry) error { return o.append(hear(ctx), k, e) }
	})},
	{name: "loads without context", want: []string{"Context/Load"}, make: deaf(func(s *testStore, o ops) {
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) { return o.load(hear(ctx), k) }
	})},
	{name: "lists sessions without context", want: []string{"Context/ListSessions"}, make: deaf(func(s *testStore, o ops) {
		s.ops.sessions = func(ctx context.Context, p string) (infos, error) { return o.sessions(hear(ctx), p) }
	})},
	{name: "lists summaries without context", want: []string{"Context/ListSessionSummaries"}, make: deaf(func(s *testStore, o ops) {
		s.ops.summaries = func(ctx context.Context, p string) (summaryRows, error) { return o.summaries(hear(ctx), p) }
	})},
	{name: "lists projects without context", want: []string{"Context/ListProjects"}, make: deaf(func(s *testStore, o ops) {
		s.ops.projects = func(ctx context.Context) ([]string, error) { return o.projects(hear(ctx)) }
	})},
	{name: "lists subkeys without context", want: []string{"Context/ListSubkeys"}, make: deaf(func(s *testStore, o ops) {
		s.ops.subkeys = func(ctx context.Context, p, id string) ([]string, error) { return o.subkeys(hear(ctx), p, id) }
	})},
	{name: "deletes without context", want: []string{"Context/Delete"}, make: deaf(func(s *testStore, o ops) {
		s.ops.delete = func(ctx context.Context, k key) error { return o.delete(hear(ctx), k) }
	})},
	{name: "streams without context", want: []string{"Context/Stream"}, make: deaf(func(s *testStore, o ops) {
		s.ops.stream = func(ctx context.Context, k key) seq { return o.stream(hear(ctx), k) }
	})},
	{name: "purges without context", want: []string{"Context/Purge"}, make: deaf(func(s *testStore, o ops) {
		s.ops.purge = func(ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) { return o.purge(hear(ctx), t) }
	})},
}

var outageMistakes = []mistake{
	{name: "accepts appends in an outage", want: []string{"Outage/Append"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, e []entry) error {
			if err := next(ctx, k, e); !errors.Is(err, errOutage) {
				return err
			}
			return nil
		})},
	{name: "knows nothing in an outage", want: []string{"Outage/Load"}, make: onLoad(func(s *testStore, ctx context.Context, k key) ([]entry, error) {
		got, err := s.doLoad(ctx, k)
		if errors.Is(err, errOutage) {
			return nil, nil
		}
		return got, err
	})},
	{name: "streams nothing in an outage", want: []string{"Outage/Stream"}, make: onStream(
		func(s *testStore, ctx context.Context, k key, yield func(entry, error) bool) {
			for e, err := range s.doStream(ctx, k) {
				if errors.Is(err, errOutage) || !yield(e, err) {
					return
				}
			}
		})},
	{name: "lists no sessions in an outage", want: []string{"Outage/ListSessions"}, make: func(s *testStore) {
		s.ops.sessions = func(ctx context.Context, p string) (infos, error) {
			got, err := s.doSessions(ctx, p)
			return got, unlessOutage(err)
		}
	}},
	{name: "lists no summaries in an outage", want: []string{"Outage/ListSessionSummaries"}, make: func(s *testStore) {
		s.ops.summaries = func(ctx context.Context, p string) (summaryRows, error) {
			got, err := s.doSummaries(ctx, p)
			return got, unlessOutage(err)
		}
	}},
	{name: "lists no projects in an outage", want: []string{"Outage/ListProjects"}, make: func(s *testStore) {
		s.ops.projects = func(ctx context.Context) ([]string, error) {
			got, err := s.doProjects(ctx)
			return got, unlessOutage(err)
		}
	}},
	{name: "lists no subkeys in an outage", want: []string{"Outage/ListSubkeys"}, make: func(s *testStore) {
		s.ops.subkeys = func(ctx context.Context, p, id string) ([]string, error) {
			got, err := s.doSubkeys(ctx, p, id)
			return got, unlessOutage(err)
		}
	}},
	{name: "deletes nothing in an outage", want: []string{"Outage/Delete"}, make: func(s *testStore) {
		s.ops.delete = func(ctx context.Context, k key) error { return unlessOutage(s.doDelete(ctx, k)) }
	}},
	{name: "purges nothing in an outage", want: []string{"Outage/Purge"}, make: func(s *testStore) {
		s.ops.purge = func(ctx context.Context, t time.Time) (sessionstore.PurgeReport, error) {
			report, err := s.doPurge(ctx, t)
			return report, unlessOutage(err)
		}
	}},
}

func unlessOutage(err error) error {
	if errors.Is(err, errOutage) {
		return nil
	}
	return err
}
