package attempt

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func batch(entries ...string) [][]byte {
	var b [][]byte
	for _, e := range entries {
		b = append(b, []byte(e))
	}
	return b
}

func TestUnknownOutcomeIsTakenUpByTheSameBatch(t *testing.T) {
	var tr Tracker[string, int]
	a := tr.Begin(t.Context(), "k", batch("x", "y"))
	require.False(t, a.Repeated)
	a.State = 7
	a.Unknown()

	other := tr.Begin(t.Context(), "k2", batch("x", "y"))
	require.False(t, other.Repeated, "another key")
	other.Stored()

	again := tr.Begin(t.Context(), "k", batch("x", "y"))
	require.True(t, again.Repeated)
	require.Equal(t, 7, again.State)
	again.NotStored() // the first outcome is as unknown as before

	third := tr.Begin(t.Context(), "k", batch("x", "y"))
	require.True(t, third.Repeated)
	third.Stored()

	fresh := tr.Begin(t.Context(), "k", batch("x", "y"))
	require.False(t, fresh.Repeated, "a success forgets")
	fresh.Stored()
	require.Empty(t, tr.keys, "nothing is kept without need")
}

func TestEntryBoundariesCount(t *testing.T) {
	var tr Tracker[string, int]
	tr.Begin(t.Context(), "k", batch("ab", "c")).Unknown()
	a := tr.Begin(t.Context(), "k", batch("a", "bc"))
	require.False(t, a.Repeated)
	a.NotStored()
}

func TestNewBatchRepeatsNothingAndGivesTheOldOneUp(t *testing.T) {
	var tr Tracker[string, int]
	old := tr.Begin(t.Context(), "k", batch("x"))
	old.State = 1
	old.Unknown()
	a := tr.Begin(WithNewBatch(t.Context()), "k", batch("x"))
	require.False(t, a.Repeated)
	a.State = 2
	a.Unknown()
	retry := tr.Begin(t.Context(), "k", batch("x"))
	require.True(t, retry.Repeated)
	require.Equal(t, 2, retry.State, "not the older one")
	retry.Stored()
}

func TestABatchRepeatsItsOwnAttemptsOnly(t *testing.T) {
	var tr Tracker[string, int]
	older, mine := new(Batch), new(Batch)
	a := tr.Begin(older.First(t.Context()), "k", batch("x"))
	require.True(t, IsNewBatch(older.First(t.Context())))
	require.False(t, IsNewBatch(older.Again(t.Context())))
	a.State = 1
	a.Unknown()
	// Its first attempt has never come here: something between has failed.
	b := tr.Begin(mine.Again(t.Context()), "k", batch("x"))
	require.False(t, b.Repeated, "that was another batch")
	b.State = 2
	b.Unknown()
	c := tr.Begin(mine.Again(t.Context()), "k", batch("x"))
	require.True(t, c.Repeated)
	require.Equal(t, 2, c.State)
	c.NotStored() // as unknown as before
	d := tr.Begin(t.Context(), "k", batch("x"))
	require.True(t, d.Repeated, "without a name the content counts")
	d.Unknown()
	e := tr.Begin(mine.Again(t.Context()), "k", batch("x"))
	require.True(t, e.Repeated, "and that does not make another batch of it")
	e.Stored()
	require.Empty(t, tr.keys)
}

func TestABatchFindsItsOwnAmongEqualAttempts(t *testing.T) {
	var tr Tracker[string, int]
	one, two := new(Batch), new(Batch)
	a, b := tr.Begin(one.First(t.Context()), "k", batch("x")), tr.Begin(two.First(t.Context()), "k", batch("x"))
	a.State, b.State = 1, 2
	a.Unknown()
	b.Unknown()
	again := tr.Begin(two.Again(t.Context()), "k", batch("x"))
	require.Equal(t, 2, again.State)
	again.Stored()
	again = tr.Begin(one.Again(t.Context()), "k", batch("x"))
	require.Equal(t, 1, again.State)
	again.Stored()
}

func TestAnotherBatchOfTheSameWriterForgets(t *testing.T) {
	var tr Tracker[string, int]
	tr.Begin(t.Context(), "k", batch("x")).Unknown()
	tr.Begin(t.Context(), "k", batch("y")).Stored()
	a := tr.Begin(t.Context(), "k", batch("x"))
	require.False(t, a.Repeated, "x was given up; this is a new x")
	a.Stored()
}

func TestOtherWritersOfTheKeyDoNotForget(t *testing.T) {
	var tr Tracker[string, int]
	mine := tr.Begin(t.Context(), "k", batch("x"))
	theirs := tr.Begin(t.Context(), "k", batch("y"))
	mine.Unknown()
	theirs.Stored()
	a := tr.Begin(t.Context(), "k", batch("x"))
	require.True(t, a.Repeated)
	a.Stored()
	require.Empty(t, tr.keys)
}

func TestConcurrentWritersEachFindTheirOwnAttempt(t *testing.T) {
	var tr Tracker[string, int]
	gate := tr.Begin(t.Context(), "k", batch("gate")) // keeps the key shared
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for n := range 50 {
				b := batch(fmt.Sprint(w, "/", n))
				a := tr.Begin(t.Context(), "k", b)
				a.State = w*1000 + n
				a.Unknown()
				again := tr.Begin(t.Context(), "k", b)
				if !again.Repeated || again.State != w*1000+n {
					t.Errorf("writer %d batch %d: repeated %v, state %d", w, n, again.Repeated, again.State)
				}
				again.Stored()
			}
		})
	}
	wg.Wait()
	gate.Stored()
	require.Empty(t, tr.keys)
}

func TestOldAttemptsAreForgottenFirst(t *testing.T) {
	var tr Tracker[string, int]
	for i := range maxPending + 1 {
		tr.Begin(t.Context(), "k", batch(fmt.Sprint(i))).Unknown()
	}
	require.Len(t, tr.keys["k"].pending, maxPending)
	a := tr.Begin(t.Context(), "k", batch("0"))
	require.False(t, a.Repeated)
	a.NotStored()
	b := tr.Begin(t.Context(), "k", batch("1"))
	require.True(t, b.Repeated)
	b.Stored()
}
