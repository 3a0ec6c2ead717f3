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
	a := tr.Begin("k", batch("x", "y"))
	require.False(t, a.Repeated)
	a.State = 7
	a.Unknown()

	other := tr.Begin("k2", batch("x", "y"))
	require.False(t, other.Repeated, "another key")
	other.Stored()

	again := tr.Begin("k", batch("x", "y"))
	require.True(t, again.Repeated)
	require.Equal(t, 7, again.State)
	again.NotStored() // the first outcome is as unknown as before

	third := tr.Begin("k", batch("x", "y"))
	require.True(t, third.Repeated)
	third.Stored()

	fresh := tr.Begin("k", batch("x", "y"))
	require.False(t, fresh.Repeated, "a success forgets")
	fresh.Stored()
	require.Empty(t, tr.keys, "nothing is kept without need")
}

func TestEntryBoundariesCount(t *testing.T) {
	var tr Tracker[string, int]
	tr.Begin("k", batch("ab", "c")).Unknown()
	a := tr.Begin("k", batch("a", "bc"))
	require.False(t, a.Repeated)
	a.NotStored()
}

func TestAnotherBatchOfTheSameWriterForgets(t *testing.T) {
	var tr Tracker[string, int]
	tr.Begin("k", batch("x")).Unknown()
	tr.Begin("k", batch("y")).Stored()
	a := tr.Begin("k", batch("x"))
	require.False(t, a.Repeated, "x was given up; this is a new x")
	a.Stored()
}

func TestOtherWritersOfTheKeyDoNotForget(t *testing.T) {
	var tr Tracker[string, int]
	mine := tr.Begin("k", batch("x"))
	theirs := tr.Begin("k", batch("y"))
	mine.Unknown()
	theirs.Stored()
	a := tr.Begin("k", batch("x"))
	require.True(t, a.Repeated)
	a.Stored()
	require.Empty(t, tr.keys)
}

func TestConcurrentWritersEachFindTheirOwnAttempt(t *testing.T) {
	var tr Tracker[string, int]
	gate := tr.Begin("k", batch("gate")) // keeps the key shared
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for n := range 50 {
				b := batch(fmt.Sprint(w, "/", n))
				a := tr.Begin("k", b)
				a.State = w*1000 + n
				a.Unknown()
				again := tr.Begin("k", b)
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
		tr.Begin("k", batch(fmt.Sprint(i))).Unknown()
	}
	require.Len(t, tr.keys["k"].pending, maxPending)
	a := tr.Begin("k", batch("0"))
	require.False(t, a.Repeated)
	a.NotStored()
	b := tr.Begin("k", batch("1"))
	require.True(t, b.Repeated)
	b.Stored()
}
