//go:build unix

package host

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

// Ctrl-C in a terminal goes to the group of the host.
func TestTheAgentIsInAGroupOfItsOwn(t *testing.T) {
	a, err := Start(t.Context(), inmemory.New(), Options{
		Command: []string{"/bin/sh", "-c", "cat > /dev/null"}, Grace: time.Minute,
		Session: resume.Options{ConfigDir: t.TempDir()},
	})
	require.NoError(t, err)
	group, err := syscall.Getpgid(a.cmd.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, a.cmd.Process.Pid, group)
	require.NoError(t, a.Close(t.Context()))
}
