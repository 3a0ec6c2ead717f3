package testuser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPermissionsStopTheUser(t *testing.T) {
	Run(t, func(t *testing.T) {
		require.NotZero(t, os.Geteuid())
		name := filepath.Join(t.TempDir(), "locked")
		require.NoError(t, os.WriteFile(name, nil, 0))
		_, err := os.ReadFile(name)
		require.ErrorIs(t, err, os.ErrPermission)
	})
}
