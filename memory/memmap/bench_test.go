package memmap

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func BenchmarkTool(b *testing.B) {
	s, err := New("scope")
	require.NoError(b, err)
	text := make([]byte, 4<<10)
	copied := func(data []byte) error { bytes.Clone(data); return nil }
	memorytest.Bench(b, s, func() error { return copied(text) }, copied)
}
