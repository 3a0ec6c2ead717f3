package idset

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetHoldsWhatWasAdded(t *testing.T) {
	var s Set
	a, b := Of([]byte("a")), Of([]byte("A"))
	require.False(t, s.Has(a))
	require.True(t, s.Add(a))
	require.False(t, s.Add(a))
	require.False(t, s.Has(b), "letter case counts")
	require.Equal(t, 1, s.Len())
	s.Remove(a)
	require.True(t, s.Add(a))
}

func TestMillionIDsStayWithinTheirBudget(t *testing.T) {
	const n = 1 << 20
	before := liveHeap()
	var s Set
	for i := range uint64(n) {
		s.Add(Of(binary.LittleEndian.AppendUint64(nil, i)))
	}
	perID := float64(liveHeap()-before) / n
	require.LessOrEqual(t, perID, 48.0, "bytes per ID")
	require.Equal(t, n, s.Len())
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
