package memdir

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func TestMain(m *testing.M) {
	if runWriter() {
		return
	}
	goleak.VerifyTestMain(m)
}

func open(tb testing.TB, dir, scope string) *Store {
	tb.Helper()
	s, err := Open(dir, scope, nil)
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	dirs := map[testing.TB]string{}
	dirOf := func(tb testing.TB) string {
		if dirs[tb] == "" {
			dirs[tb] = tb.TempDir()
		}
		return dirs[tb]
	}
	reopen := func(tb testing.TB, s memory.Store) *Store { return open(tb, dirOf(tb), s.(*Store).scope) }
	memorytest.Run(t, memorytest.Harness{
		Open: func(tb testing.TB, scope string) (memory.Store, error) {
			s, err := Open(dirOf(tb), scope, nil)
			if err != nil {
				return nil, err
			}
			tb.Cleanup(func() { s.Close() })
			return s, nil
		},
		Reopen: func(tb testing.TB, s memory.Store) memory.Store { return reopen(tb, s) },
		Later: func(tb testing.TB, s memory.Store, d time.Duration) memory.Store {
			later := reopen(tb, s)
			later.now = func() time.Time { return time.Now().Add(d) }
			return later
		},
		Outage:     func(tb testing.TB, s memory.Store) { s.(*Store).Close() },
		FoldsNames: reopen(t, &Store{scope: "x"}).folds,
		Require:    memorytest.All,
	})
}
