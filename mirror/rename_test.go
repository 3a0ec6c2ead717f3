package mirror_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

// tenantStore keeps what the agent files under its directory under a tenant.
type tenantStore struct{ *fakeStore }

var tenantKey = sessionstore.Key{ProjectKey: "tenant:42", SessionID: session}

func (s tenantStore) StoreKey(key sessionstore.Key) sessionstore.Key {
	if key.ProjectKey == project {
		key.ProjectKey = tenantKey.ProjectKey
	}
	return key
}

func TestErrorsAndFilesNameTheKeyOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		var log errorLog
		opts := log.options()
		opts.Spill = t.TempDir()
		m := open(t, tenantStore{s}, &opts)
		require.NoError(t, m.Frame(mainPath, entries(user("a"), mode("m"))))
		err := m.Close(t.Context())
		require.ErrorContains(t, err, "tenant:42")
		require.NotContains(t, err.Error(), project)
		require.Equal(t, tenantKey, log.all()[0].Key)
		require.Equal(t, tenantKey, m.Losses()[0].Key)
		header, err := os.ReadFile(spilled(t, opts.Spill)[0])
		require.NoError(t, err)
		require.Contains(t, string(header), `"projectKey":"tenant:42"`)

		// After a crash nobody translates any more.
		s.before = nil
		_, err = mirror.Replay(t.Context(), opts.Spill, s, nil)
		require.NoError(t, err)
		require.Len(t, load(t, s, tenantKey), 2)
		projects, err := s.ListProjects(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"tenant:42"}, projects)
	})
}

func TestWatchNamesTheKeyOfTheStore(t *testing.T) {
	dir := t.TempDir()
	write(t, lines(user("a")), dir, mainFile)
	s := newFake()
	var told []sessionstore.Key
	opts := mirror.WatchOptions{Once: true, Attempts: 1,
		OnError:  func(e *mirror.Error) { told = append(told, e.Key) },
		OnAppend: func(a mirror.WatchAppend) { told = append(told, a.Key) }}
	s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
	_, err := mirror.Watch(t.Context(), dir, tenantStore{s}, &opts)
	require.ErrorContains(t, err, `"tenant:42"/`+session)
	s.before = nil
	_, err = mirror.Watch(t.Context(), dir, tenantStore{s}, &opts)
	require.NoError(t, err)
	require.Equal(t, []sessionstore.Key{tenantKey, tenantKey}, told)
	require.Len(t, load(t, s, tenantKey), 1)
}

// The agent's files are not needed when all that is not stored was spilled.
func TestNeedsFilesSaysWhetherAllIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		spill, needs bool
		change       func(t *testing.T, m *mirror.Mirror, spill string)
	}{
		"no spill":     {needs: true},
		"all spilled":  {spill: true},
		"broken frame": {spill: true, needs: true, change: func(t *testing.T, m *mirror.Mirror, _ string) { copyAll(t, m, frameLine(mainPath, user("z"))[:100]) }},
		"no entry": {spill: true, needs: true, change: func(t *testing.T, m *mirror.Mirror, _ string) {
			require.NoError(t, m.Frame(mainPath, entries(sessionstore.Entry("null"))))
		}},
		"elsewhere": {spill: true, needs: true, change: func(t *testing.T, m *mirror.Mirror, _ string) {
			require.Error(t, m.Frame("/x/y.jsonl", entries(user("z"))))
		}},
		"file is gone": {spill: true, needs: true, change: func(t *testing.T, _ *mirror.Mirror, spill string) {
			require.NoError(t, os.Remove(spilled(t, spill)[0]))
		}},
		"another mirror": {spill: true, change: func(t *testing.T, _ *mirror.Mirror, spill string) {
			require.NoError(t, os.Mkdir(filepath.Join(spill, "other"), 0o700))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake()
				s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
				opts := mirror.Options{Attempts: 1}
				if c.spill {
					opts.Spill = t.TempDir()
				}
				m := open(t, s, &opts)
				require.False(t, m.NeedsFiles())
				require.NoError(t, m.Frame(mainPath, entries(user("a"))))
				require.Error(t, m.Flush(t.Context()))
				if c.change != nil {
					c.change(t, m, opts.Spill)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // nobody looks for the files any more
				var loss *mirror.LossError
				require.ErrorAs(t, m.Close(ctx), &loss)
				require.True(t, m.Failed())
				require.Equal(t, c.needs, m.NeedsFiles())
				require.Equal(t, !c.needs, loss.AllSpilled())
			})
		})
	}
}
