package memredis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func BenchmarkTool(b *testing.B) {
	p := newPlace(b, single)
	s, err := p.open("scope")
	require.NoError(b, err)
	memorytest.Bench(b, s, func() error {
		return p.client.HGet(b.Context(), s.key, memorytest.BenchPath).Err()
	}, func(data []byte) error {
		return p.client.HSet(b.Context(), s.key, "floor", data).Err()
	})
}
