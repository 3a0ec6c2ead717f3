package s3store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/s3fake"
)

// histories are transcripts on which compaction has something to do. Each
// appends the first entries of numberedList and returns how many.
var histories = []struct {
	name  string
	build func(t *testing.T, w world) int
}{
	{"Parts", func(t *testing.T, w world) int {
		past := w.host("past")
		appendEach(t, past, 0, 6)
		require.NoError(t, past.Close())
		return 6
	}},
	{"SecondRound", func(t *testing.T, w world) int {
		past := w.host("past")
		appendEach(t, past, 0, 4)
		require.NoError(t, past.Compact(t.Context(), fakeKey))
		appendEach(t, past, 4, 8)
		require.NoError(t, past.Close())
		return 8
	}},
	{"TwoWriters", func(t *testing.T, w world) int {
		past, other := w.host("past"), w.host("past2")
		for n := 0; n < 6; n += 2 {
			appendEach(t, past, n, n+1)
			_, err := other.Load(t.Context(), fakeKey)
			require.NoError(t, err)
			appendEach(t, other, n+1, n+2)
			_, err = past.Load(t.Context(), fakeKey)
			require.NoError(t, err)
		}
		require.NoError(t, past.Close())
		require.NoError(t, other.Close())
		return 6
	}},
	{"LeftoversOfADeadHost", func(t *testing.T, w world) int {
		past := w.host("past")
		appendEach(t, past, 0, 6)
		require.NoError(t, past.Close())
		deleting := func(r s3fake.Request) bool { return r.Account == "dead" && r.Op == "DeleteObjects" }
		w.Intercept(func(r s3fake.Request) *s3fake.Fault {
			if deleting(r) {
				return &s3fake.Fault{KeyError: func(key string) string { return "InternalError" }}
			}
			if r.Account == "dead" && r.Op == "DeleteObject" {
				return &s3fake.Fault{Refuse: true}
			}
			return nil
		})
		_ = w.host("dead").Compact(t.Context(), fakeKey)
		require.Greater(t, len(w.parts()), 6, "the dead host has left sources and a compacted object")
		w.Heal()
		return 6
	}},
}

// onHistories runs step after step of something, as often as it has steps:
// f returns whether step n was reached.
func onHistories(t *testing.T, f func(t *testing.T, w world, n, step int) bool) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			past := newWorld(t, &s3fake.Options{PageSize: 3}) // lists are no snapshots
			n := h.build(t, past)
			for step, more := 1, true; more; step++ {
				require.Less(t, step, 100, "it never ends")
				w := world{past.Fork(t), t}
				more = f(t, w, n, step)
				require.True(t, more || step > 1, "nothing was interrupted")
			}
		})
	}
}

// requireSettled compacts, and checks that nothing is left that a reader who
// knows nothing of compaction would take for something else.
func requireSettled(t *testing.T, w world, want []sessionstore.Entry, why string) {
	t.Helper()
	s := w.host("settler")
	require.NoError(t, s.Compact(t.Context(), fakeKey), why)
	requireHolds(t, s, want, "%s, compacted", why)
	parts := w.parts()
	require.NoError(t, s.Compact(t.Context(), fakeKey), why)
	require.Equal(t, parts, w.parts(), "%s: the second time there is nothing to do", why)
	require.Equal(t, lines(want), lines(w.asReference()), "%s: as the reference adapters read it", why)
	require.LessOrEqual(t, len(w.parts()), 3, why)
}

func TestHostDiesAfterEachRequestOfACompaction(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		why := fmt.Sprintf("died after request %d", step-1)
		w.Kill("a", step-1)
		err := w.host("a").Compact(t.Context(), fakeKey)
		requireHolds(t, w.host("b"), numberedList(0, n), "%s", why)
		b := w.host("b2")
		appendEach(t, b, n, n+1)
		requireHolds(t, b, numberedList(0, n+1), "%s", why)
		requireSettled(t, w, numberedList(0, n+1), why)
		return err != nil
	})
}

// A request may have had its effect although the host heard nothing of it.
func TestEachReplyOfACompactionIsLost(t *testing.T) {
	onHistories(t, func(t *testing.T, w world, n, step int) bool {
		why := fmt.Sprintf("reply %d lost", step)
		seen := &counter{}
		w.Intercept(func(r s3fake.Request) *s3fake.Fault {
			if r.Account == "a" && seen.next() == step {
				return &s3fake.Fault{LoseReply: true}
			}
			return nil
		})
		_ = w.host("a").Compact(t.Context(), fakeKey)
		requireHolds(t, w.host("b"), numberedList(0, n), "%s", why)
		requireSettled(t, w, numberedList(0, n), why)
		return seen.value() >= step
	})
}

func TestHostDiesAfterEachRequestOfAutomaticCompaction(t *testing.T) {
	const appends = 14
	for step, more := 1, true; more; step++ {
		w := newWorld(t, nil)
		w.Kill("a", step-1)
		a := w.hostWith("a", w.client("a"), Options{CompactAfter: 4})
		var want, tried []sessionstore.Entry
		for n := range appends {
			tried = numberedList(0, n+1)
			if a.Append(t.Context(), fakeKey, numberedList(n, n+1)) != nil {
				break
			}
			want = tried
		}
		a.Close()
		more = w.refused("a")
		got, err := w.host("b").Load(t.Context(), fakeKey)
		require.NoError(t, err)
		if len(got) == len(tried) { // an append may land although it fails
			want = tried
		}
		why := fmt.Sprintf("died after request %d", step-1)
		requireHolds(t, w.host("b"), want, "%s", why)
		requireSettled(t, w, want, why)
	}
}

// refused reports whether a request of the account was refused.
func (w world) refused(account string) bool {
	for _, r := range w.Log() {
		if r.Account == account && r.Status == 0 {
			return true
		}
	}
	return false
}

// meanwhile are things that another host does between two requests of a
// first one. Each returns what it has appended.
var meanwhile = []struct {
	name string
	do   func(t *testing.T, w world, n int) int
}{
	{"Compact", func(t *testing.T, w world, n int) int {
		require.NoError(t, w.host("m").Compact(t.Context(), fakeKey))
		return 0
	}},
	{"Append", func(t *testing.T, w world, n int) int {
		appendEach(t, w.host("m"), n, n+1)
		return 1
	}},
	{"AppendCompactAppend", func(t *testing.T, w world, n int) int {
		m := w.host("m")
		appendEach(t, m, n, n+4)
		require.NoError(t, m.Compact(t.Context(), fakeKey))
		appendEach(t, m, n+4, n+6)
		require.NoError(t, m.Compact(t.Context(), fakeKey))
		return 6
	}},
	{"CompactOnHostAnHourBehind", func(t *testing.T, w world, n int) int {
		m := w.hostAt("m", -time.Hour)
		_, err := m.Load(t.Context(), fakeKey)
		require.NoError(t, err)
		appendEach(t, m, n, n+2)
		require.NoError(t, m.Compact(t.Context(), fakeKey))
		return 2
	}},
	{"DeadHostCompacts", func(t *testing.T, w world, n int) int {
		seen := &counter{}
		w.Intercept(func(r s3fake.Request) *s3fake.Fault {
			if r.Account == "m2" && (r.Op == "DeleteObject" || r.Op == "DeleteObjects") && seen.next() > 0 {
				return &s3fake.Fault{Refuse: true}
			}
			return nil
		})
		_ = w.host("m2").Compact(t.Context(), fakeKey)
		return 0
	}},
}

// onMeanwhile calls f for each history, each thing that happens meanwhile, and
// each request of account "a" before which it happens. extra waits for it, and
// returns how much it has appended. Things named in but are left out.
func onMeanwhile(t *testing.T, f func(t *testing.T, w world, n int, extra func() int), but ...string) {
	for _, m := range meanwhile {
		if slices.Contains(but, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			onHistories(t, func(t *testing.T, w world, n, step int) bool {
				appended := 0
				reached := w.atStep("a", step, func() { appended = m.do(t, w, n) })
				f(t, w, n, func() int { reached(); return appended })
				return reached()
			})
		})
	}
}

func TestReaderSeesAnExactTranscriptWhateverHappensMeanwhile(t *testing.T) {
	t.Parallel()
	read := map[string]func(t *testing.T, s *Store) ([]sessionstore.Entry, error){
		"Load":   func(t *testing.T, s *Store) ([]sessionstore.Entry, error) { return s.Load(t.Context(), fakeKey) },
		"Stream": func(t *testing.T, s *Store) ([]sessionstore.Entry, error) { return drain(t.Context(), s) },
	}
	for name, f := range read {
		t.Run(name, func(t *testing.T) {
			onMeanwhile(t, func(t *testing.T, w world, n int, extra func() int) {
				got, err := f(t, w.host("a"))
				require.NoError(t, err)
				requirePrefix(t, numberedList(0, n+extra()), n, got)
			})
		})
	}
}

// requirePrefix: at least the first n, in order, and nothing else.
func requirePrefix(t *testing.T, all []sessionstore.Entry, n int, got []sessionstore.Entry) {
	t.Helper()
	require.GreaterOrEqual(t, len(got), n)
	require.LessOrEqual(t, len(got), len(all))
	require.Equal(t, lines(all[:len(got)]), lines(got))
}

func TestTwoCompactionsAtOnceAgree(t *testing.T) {
	t.Parallel()
	onMeanwhile(t, func(t *testing.T, w world, n int, extra func() int) {
		_ = w.host("a").Compact(t.Context(), fakeKey) // it may find its sources gone
		requireHolds(t, w.host("b"), numberedList(0, n+extra()), "after both")
		requireSettled(t, w, numberedList(0, n+extra()), "after both")
	})
}

func TestAppendAmidCompaction(t *testing.T) {
	t.Parallel()
	onMeanwhile(t, func(t *testing.T, w world, n int, extra func() int) {
		a := w.host("a")
		first := sessionstore.Entry(`{"type":"mode","mode":"a1"}`)
		second := sessionstore.Entry(`{"type":"mode","mode":"a2"}`)
		require.NoError(t, a.Append(t.Context(), fakeKey, []sessionstore.Entry{first}))
		require.NoError(t, a.Append(t.Context(), fakeKey, []sessionstore.Entry{second}))
		require.NoError(t, a.Close()) // its index is written
		got, err := w.host("b").Load(t.Context(), fakeKey)
		require.NoError(t, err)
		require.Equal(t, lines(numberedList(0, n)), lines(got[:n]), "what was there before stays where it was")
		requireOrder(t, got, append(numberedList(0, n), first, second))
		requireOrder(t, got, numberedList(0, n+extra()))
		require.Len(t, got, n+extra()+2)
		requireSettled(t, w, got, "after all")
	}, "Append", "CompactOnHostAnHourBehind", "DeadHostCompacts")
}

// requireOrder: each of part is in whole, in this order.
func requireOrder(t testing.TB, whole, part []sessionstore.Entry) {
	t.Helper()
	i := 0
	for _, e := range whole {
		if i < len(part) && string(e) == string(part[i]) {
			i++
		}
	}
	require.Equal(t, len(part), i, "%s is missing or out of order in %s", part[min(i, len(part)-1)], lines(whole))
}

// What is large is not written again, so that others rely on an object whose
// writer still looks whether its sources were deleted by somebody.
func TestTwoCompactionsOfLargePartsAtOnce(t *testing.T) {
	large := func(n int) sessionstore.Entry {
		return sessionstore.Entry(fmt.Sprintf(`{"type":"mode","n":%d,"x":%q}`, n, strings.Repeat("x", closedSize/3+1)))
	}
	past := newWorld(t, &s3fake.Options{PageSize: 2})
	s := past.host("past")
	all := append([]sessionstore.Entry{large(0), large(1), large(2)}, numberedList(3, 10)...)
	for _, e := range all[:6] {
		require.NoError(t, s.Append(t.Context(), fakeKey, []sessionstore.Entry{e}))
	}
	require.NoError(t, s.Close())
	for step, more := 1, true; more; step++ { // a page of a list each
		require.Less(t, step, 100, "it never ends")
		w := world{past.Fork(t), t}
		reached := w.atList("a", step, func() {
			m := w.host("m")
			appendEach(t, m, 6, 8)
			require.NoError(t, m.Compact(t.Context(), fakeKey))
			appendEach(t, m, 8, 10)
		})
		_ = w.host("a").Compact(t.Context(), fakeKey)
		if more = reached(); more {
			got, err := w.host("b").Load(t.Context(), fakeKey)
			require.NoError(t, err)
			require.True(t, slices.Equal(lines(all), lines(got)), "%d of %d entries, other host before page %d", len(got), len(all), step)
		}
	}
}
