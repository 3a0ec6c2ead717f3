package memmap

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	memorytest.Run(t, memorytest.Harness{
		Open: func(_ testing.TB, scope string) (memory.Store, error) { return New(scope) },
		Later: func(tb testing.TB, s memory.Store, d time.Duration) memory.Store {
			s.(*Store).now = func() time.Time { return time.Now().Add(d) }
			return s
		},
		OwnMemory: true,
		Require:   memorytest.Expire | memorytest.Later,
	})
}

func TestErrorsNameScopeAndPath(t *testing.T) {
	s, err := New("user 1")
	require.NoError(t, err)
	_, err = s.Read(context.Background(), "/memories/a b", 0)
	require.EqualError(t, err, `memmap: read "user 1"#"/memories/a b": no such file or directory in memory`)
	_, err = New("")
	require.ErrorContains(t, err, "the scope is empty")
}
