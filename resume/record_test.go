package resume_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

const oddTenant = "tenant:42/é"

// abandoned leaves a directory behind as a host does that was killed.
func abandoned(t *testing.T, h home, project string) string {
	t.Helper()
	store := inmemory.New()
	put(t, store, sessionstore.Key{ProjectKey: project, SessionID: id}, entry(1))
	opts := h.options()
	opts.ProjectKey = project
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	s.Release()
	require.NoError(t, s.Close())
	return s.ConfigDir
}

func TestAPrivateDirectorySaysWhoseItIs(t *testing.T) {
	for _, project := range []string{oddTenant, "tenant-7"} {
		h := newHome(t)
		dir := abandoned(t, h, project)
		info, err := os.Stat(filepath.Join(dir, resume.RecordFile))
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			require.Equal(t, fs.FileMode(0o600), info.Mode())
		}
		list, err := resume.Leftovers(t.Context(), h.temp)
		require.NoError(t, err)
		require.Equal(t, []string{dir}, list)
		l, err := resume.OpenLeftover(dir)
		require.NoError(t, err)
		require.Equal(t, sessionstore.Key{ProjectKey: project, SessionID: id}, l.Key)
		names, err := os.ReadDir(l.ProjectsDir())
		require.NoError(t, err)
		require.Len(t, names, 1)
		store := inmemory.New()
		put(t, l.Store(store), sessionstore.Key{ProjectKey: names[0].Name(), SessionID: id}, entry(1))
		got, err := store.Load(t.Context(), l.Key)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.NoError(t, l.Remove())
		h.requireNothingLeft()
	}
}

func TestANewSessionHasARecordToo(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.SessionID, opts.Fresh = "", true
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	s.Release()
	require.NoError(t, s.Close())
	l, err := resume.OpenLeftover(s.ConfigDir)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, sessionstore.Key{ProjectKey: project}, l.Key)
}

func TestADirectoryInUseIsNotOpened(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no flock")
	}
	h := newHome(t)
	opts := h.options()
	opts.KeepOnMirrorLoss = func() bool { return true }
	s, err := resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	_, err = resume.OpenLeftover(s.ConfigDir)
	require.ErrorIs(t, err, resume.ErrInUse)
	require.ErrorContains(t, err, s.ConfigDir)
	require.Error(t, s.Close()) // which keeps it
	l, err := resume.OpenLeftover(s.ConfigDir)
	require.NoError(t, err)
	_, err = resume.OpenLeftover(s.ConfigDir)
	require.ErrorIs(t, err, resume.ErrInUse)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	l, err = resume.OpenLeftover(s.ConfigDir)
	require.NoError(t, err)
	require.NoError(t, l.Remove())
	h.requireNothingLeft()
}

// Whoever looks for leftovers has the lock of each directory for a moment.
func TestADirectoryIsLockedAlsoWhileOthersLookAround(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no flock")
	}
	h := newHome(t)
	store, opts := filled(t), h.options()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for ctx.Err() == nil {
			dirs, _ := resume.Leftovers(ctx, opts.TempDir)
			for _, dir := range dirs {
				if l, err := resume.OpenLeftover(dir); err == nil {
					l.Close()
					t.Errorf("%s is in use and was opened", dir)
				}
			}
		}
	})
	for range 300 {
		s, err := resume.Materialize(t.Context(), store, opts)
		require.NoError(t, err)
		_, err = resume.OpenLeftover(s.ConfigDir)
		require.Error(t, err, "it may be held by the one who looks around, but not be free")
		require.NoError(t, s.Close())
	}
}

func TestALinkInsteadOfProjectsIsRefused(t *testing.T) {
	h := newHome(t)
	dir := abandoned(t, h, oddTenant)
	projects := filepath.Join(dir, "projects")
	require.NoError(t, os.Rename(projects, projects+"-of-others"))
	require.NoError(t, os.Symlink(projects+"-of-others", projects))
	_, err := resume.OpenLeftover(dir)
	require.ErrorContains(t, err, "projects is not a directory")
}

func TestStripLeavesTranscriptsAndTheRecord(t *testing.T) {
	h := newHome(t)
	h.write(".claude/.credentials.json", `{"a":"secret"}`)
	dir := abandoned(t, h, project)
	require.FileExists(t, filepath.Join(dir, ".credentials.json"))
	l, err := resume.OpenLeftover(dir)
	require.NoError(t, err)
	require.NoError(t, l.Strip())
	require.NoError(t, l.Close())
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.FileExists(t, filepath.Join(dir, resume.RecordFile))
}

// What others can write is not believed.
func TestARecordThatOthersCouldHaveWrittenIsNotTrusted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs permissions and links")
	}
	other := func(t *testing.T, path string) {
		if os.Getuid() != 0 {
			t.Skip("only root can give files away")
		}
		require.NoError(t, os.Lchown(path, 12345, -1))
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir, record string)
		want   error
	}{
		"open directory":      {func(t *testing.T, dir, _ string) { require.NoError(t, os.Chmod(dir, 0o750)) }, resume.ErrNotPrivate},
		"open record":         {func(t *testing.T, _, record string) { require.NoError(t, os.Chmod(record, 0o644)) }, resume.ErrNotPrivate},
		"another's directory": {func(t *testing.T, dir, _ string) { other(t, dir) }, resume.ErrNotOurs},
		"another's record":    {func(t *testing.T, _, record string) { other(t, record) }, resume.ErrNotOurs},
		"no record":           {func(t *testing.T, _, record string) { require.NoError(t, os.Remove(record)) }, fs.ErrNotExist},
		"a link to the record": {func(t *testing.T, dir, record string) {
			require.NoError(t, os.Rename(record, record+".x"))
			require.NoError(t, os.Symlink(filepath.Base(record)+".x", record))
		}, nil},
		"a directory": {func(t *testing.T, dir, record string) {
			require.NoError(t, os.Remove(record))
			require.NoError(t, os.Mkdir(record, 0o700))
		}, nil},
		"a link to it all": {func(t *testing.T, dir, _ string) {
			require.NoError(t, os.Rename(dir, dir+".x"))
			require.NoError(t, os.Symlink(dir+".x", dir))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := abandoned(t, newHome(t), project)
			c.change(t, dir, filepath.Join(dir, resume.RecordFile))
			_, err := resume.OpenLeftover(dir)
			require.Error(t, err)
			require.ErrorContains(t, err, dir)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

func TestADamagedRecordIsAnError(t *testing.T) {
	for text, want := range map[string]error{
		"":                           sessionstore.ErrCorrupt,
		"{":                          sessionstore.ErrCorrupt,
		`{"version":2}`:              sessionstore.ErrCorrupt,
		strings.Repeat(" ", 100<<10): sessionstore.ErrCorrupt,
		`{"version":1}`:              sessionstore.ErrInvalidKey,
		`{"version":1,"projectKey":"p","sessionId":"../x","directory":"p"}`: sessionstore.ErrInvalidKey,
		`{"version":1,"projectKey":"p"}`:                                    sessionstore.ErrCorrupt,
		`{"version":1,"projectKey":"p","directory":".."}`:                   sessionstore.ErrCorrupt,
		`{"version":1,"projectKey":"p","directory":"a/b"}`:                  sessionstore.ErrCorrupt,
	} {
		dir := abandoned(t, newHome(t), project)
		require.NoError(t, os.WriteFile(filepath.Join(dir, resume.RecordFile), []byte(text), 0o600))
		_, err := resume.OpenLeftover(dir)
		require.ErrorIs(t, err, want, "%.60s", text)
	}
}

func TestLeftoversAreThisUsersDirectories(t *testing.T) {
	h := newHome(t)
	dir := abandoned(t, h, project)
	require.NoError(t, os.Mkdir(filepath.Join(h.temp, "other"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.temp, resume.DirPrefix+"file"), nil, 0o600))
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(dir, filepath.Join(h.temp, resume.DirPrefix+"link")))
		if os.Getuid() == 0 {
			theirs := filepath.Join(h.temp, resume.DirPrefix+"theirs")
			require.NoError(t, os.Mkdir(theirs, 0o700))
			require.NoError(t, os.Chown(theirs, 12345, -1))
		}
	}
	list, err := resume.Leftovers(t.Context(), h.temp)
	require.NoError(t, err)
	require.Equal(t, []string{dir}, list)
	_, err = resume.Leftovers(t.Context(), filepath.Join(h.temp, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestADirectoryThatIsNotThereIsNamed(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{filepath.Join(h.dir, "none"), file} {
		opts := h.options()
		opts.Dir = dir
		_, err := resume.Materialize(t.Context(), inmemory.New(), opts)
		option := (*resume.OptionError)(nil)
		require.ErrorAs(t, err, &option)
		require.Equal(t, "Dir", option.Option)
		require.ErrorContains(t, err, dir)
	}
	h.requireNothingLeft()
}

func TestARecordOfAnotherPlaceIsRefused(t *testing.T) {
	for _, record := range []string{
		`{"version":1,"projectKey":"t","directory":"."}`,
		`{"version":1,"projectKey":"t\ud800","directory":"t"}`,
		`{"version":1,"projectKey":"t","directory":"\udc00t"}`,
	} {
		dir := abandoned(t, newHome(t), project)
		name := filepath.Join(dir, resume.RecordFile)
		require.NoError(t, os.WriteFile(name, []byte(record), 0o600))
		_, err := resume.OpenLeftover(dir)
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, record)
		require.NoError(t, os.WriteFile(name, []byte(`{"version":1,"projectKey":"t�","directory":"t"}`), 0o600))
		l, err := resume.OpenLeftover(dir)
		require.NoError(t, err, "this is its name")
		require.NoError(t, l.Close())
	}
}

func TestOnlyDirectoriesOfOursAreStripped(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := resume.StripLeftover(dir)
	require.ErrorContains(t, err, resume.DirPrefix)
	require.FileExists(t, file)

	h := newHome(t)
	s, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.NoError(t, err)
	_, err = resume.StripLeftover(s.ConfigDir)
	if runtime.GOOS != "windows" {
		require.ErrorIs(t, err, resume.ErrInUse)
	}
	require.NoError(t, s.Close())
}
