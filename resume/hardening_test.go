package resume_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/resume"
)

func TestAConfigFileThatIsTooLargeIsAnError(t *testing.T) {
	h := newHome(t)
	h.write(".claude/settings.json", `{}`)
	require.NoError(t, os.Truncate(filepath.Join(h.dir, ".claude", "settings.json"), 1<<30))
	_, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.ErrorContains(t, err, "larger than 16 MiB")
	h.requireNothingLeft()
}

func TestAStoreThatEndsItsGoroutineIsAnError(t *testing.T) {
	for _, what := range []string{"stream ", "list subkeys", "entry subagents/agent-1"} {
		h := newHome(t)
		_, err := resume.Materialize(t.Context(), &hooked{Store: filled(t), before: func(_ context.Context, w string) error {
			if w == what {
				runtime.Goexit()
			}
			return nil
		}}, h.options())
		require.ErrorContains(t, err, "ended its goroutine", what)
		h.requireNothingLeft()
	}
}

func TestAKeptDirectoryHasTranscriptsOnly(t *testing.T) {
	h := newHome(t)
	for _, name := range []string{".credentials.json", ".claude.json", "settings.json", "cowork_settings.json"} {
		h.write(".claude/"+name, `{"primaryApiKey":"secret"}`)
	}
	opts := h.options()
	opts.KeepOnMirrorLoss = func() bool { return true }
	s, err := resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.ConfigDir, ".claude.json.backup"), []byte("secret"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(s.ConfigDir, "backups"), 0o700))
	kept := (*resume.KeptError)(nil)
	require.ErrorAs(t, s.Close(), &kept)
	left, err := os.ReadDir(kept.Dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, resume.RecordFile, left[0].Name())
	require.Equal(t, "projects", left[1].Name())
	require.Len(t, tree(t, kept.Dir), 4)
}

func TestReadOnlyDirectoriesAreRemoved(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("root and Windows remove them anyway")
	}
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.NoError(t, err)
	dir := filepath.Join(s.ConfigDir, "mod", "x")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o400))
	require.NoError(t, os.Chmod(dir, 0o500))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0))
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

func TestRefreshTokensInAnySpelling(t *testing.T) {
	for _, name := range []string{"refreshtoken", "refresh_token", "RefreshToken", "REFRESH_TOKEN"} {
		got, err := resume.WithoutRefreshTokens([]byte(`{"a":{"` + name + `":"secret","b":1}}`))
		require.NoError(t, err)
		require.Equal(t, `{"a":{"b":1}}`, string(got))
		require.False(t, strings.Contains(string(got), "secret"))
	}
}
