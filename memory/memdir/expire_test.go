package memdir

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

func TestAFileThatIsReadWhileExpireRunsStays(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, "scope"), open(t, dir, "scope")
	s.now = func() time.Time { return time.Now().Add(-5 * time.Hour) }
	for _, p := range []string{"a", "b"} {
		require.NoError(t, s.Write(t.Context(), "/memories/"+p, []byte("text"), "", memory.Limits{}))
	}
	s.step = func(name string) {
		if name == "trashed" {
			_, err := other.Read(t.Context(), "/memories/b", 0)
			assert.NoError(t, err)
		}
	}
	gone, err := s.Expire(t.Context(), time.Now().Add(-2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, []string{"/memories/a"}, gone)
}
