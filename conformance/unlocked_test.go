package conformance

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sessionstore/sessionstore"
)

// unlocked reads, changes and writes back without a lock. No memory is shared
// while it changes, so the race detector has nothing to say.
type unlocked struct {
	all atomic.Pointer[map[key]unlockedTranscript]
}

type unlockedTranscript struct {
	entries []entry
	ids     map[string]bool
}

func (s *unlocked) Append(ctx context.Context, k key, entries []entry) error {
	batch, err := sessionstore.Check(k, entries)
	if err != nil || len(batch) == 0 {
		return err
	}
	all := maps.Clone(*s.all.Load())
	t := unlockedTranscript{slices.Clone(all[k].entries), map[string]bool{}}
	maps.Copy(t.ids, all[k].ids)
	for _, c := range batch {
		if id := string(c.UUID); id == "" || !t.ids[id] {
			t.ids[id] = true
			t.entries = append(t.entries, slices.Clone(c.Line))
		}
	}
	all[k] = t
	s.all.Store(&all)
	return ctx.Err()
}

func (s *unlocked) Load(_ context.Context, k key) ([]entry, error) {
	return slices.Clone((*s.all.Load())[k].entries), k.Validate()
}

// The mistake that only shows when two appends really meet. Once is enough,
// because on a busy machine they may fail to.
func TestFindsAMissingLock(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	h := Harness{Open: func(testing.TB) sessionstore.SessionStore {
		s := &unlocked{}
		s.all.Store(&map[key]unlockedTranscript{})
		return s
	}}
	tc := caseNamed(t, "Writers/LargeBatches")
	for range 5 {
		if r := record(t, h, shortSizes, tc); r.Failed() {
			return
		}
	}
	t.Errorf("%s passes five times on a store without a lock", tc.name)
}
