package filestore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestGateLetsAWaitingWriterGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gs gates
		var order []string
		take := func(name string, exclusive bool) (release func()) {
			release, err := gs.acquire(t.Context(), "x", exclusive)
			require.NoError(t, err)
			order = append(order, name)
			return release
		}
		first, second := take("reader", false), take("reader", false)
		go func() { take("writer", true)() }()
		synctest.Wait()
		go func() { take("late reader", false)() }()
		synctest.Wait()
		require.Equal(t, []string{"reader", "reader"}, order)
		first()
		synctest.Wait()
		require.Len(t, order, 2, "one reader is still inside")
		second()
		synctest.Wait()
		require.Equal(t, []string{"reader", "reader", "writer", "late reader"}, order)
		require.Empty(t, gs.m, "no gate is kept without need")
	})
}

func TestGateWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gs gates
		release, err := gs.acquire(t.Context(), "x", false)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err = gs.acquire(ctx, "x", true)
		require.ErrorIs(t, err, context.Canceled)
		other, err := gs.acquire(t.Context(), "x", false)
		require.NoError(t, err, "the writer that gave up holds nobody back")
		other()
		release()
		require.Empty(t, gs.m)
	})
}

func TestRoomForEntriesIsBounded(t *testing.T) {
	few := make([]sessionstore.Entry, 64)
	const size = 64 << 20
	require.LessOrEqual(t, cap(grown(few, 192, size))*24, size/10, "after 64 lines of 3 bytes")
	require.InDelta(t, 32_000, cap(grown(few, 64*2000, size)), 3_000, "after 64 lines of 2 KB")
	require.GreaterOrEqual(t, cap(grown(few, 0, 0)), 80)
}
