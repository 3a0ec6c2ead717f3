//go:build unix

package host_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stop ends a process that a test has started.
func stop(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
}
