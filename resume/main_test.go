package resume_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id      = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
	project = "proj"
)

var mainKey = sessionstore.Key{ProjectKey: project, SessionID: id}

func sub(subpath string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: project, SessionID: id, Subpath: subpath}
}

func entries(lines ...string) []sessionstore.Entry {
	out := make([]sessionstore.Entry, len(lines))
	for i, l := range lines {
		out[i] = sessionstore.Entry(l)
	}
	return out
}

func entry(n int) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"00000000-0000-4000-8000-%012d","message":{"role":"user","content":"%d"}}`, n, n))
}

// filled returns a store that holds a session with two subagents.
func filled(t *testing.T) *inmemory.Store {
	t.Helper()
	s := inmemory.New()
	put(t, s, mainKey, entry(1), entry(2))
	put(t, s, sub("subagents/agent-1"), entry(3), sessionstore.Entry(`{"type":"agent_metadata","agentType":"old"}`),
		sessionstore.Entry(`{"type":"agent_metadata","agentType":"new","toolUseId":"t1","spawnDepth":1}`))
	put(t, s, sub("subagents/workflows/wf_1/agent-2"), entry(4))
	return s
}

func put(t *testing.T, s sessionstore.SessionStore, key sessionstore.Key, list ...sessionstore.Entry) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), key, list))
}

// home is a machine of one's own: an empty home and a directory for temporary
// files, in which nothing may be left.
type home struct {
	t         *testing.T
	dir, temp string
	env       []string
}

func newHome(t *testing.T) home {
	t.Helper()
	h := home{t: t, dir: t.TempDir(), temp: t.TempDir()}
	h.env = []string{"HOME=" + h.dir, "USERPROFILE=" + h.dir, "PATH=" + os.Getenv("PATH")}
	return h
}

func (h home) options() resume.Options {
	return resume.Options{SessionID: id, ProjectKey: project, Env: h.env, TempDir: h.temp}
}

func (h home) requireNothingLeft() {
	h.t.Helper()
	left, err := os.ReadDir(h.temp)
	require.NoError(h.t, err)
	require.Empty(h.t, left)
}

func (h home) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
}

// tree returns the files below dir with their contents, without the record.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == resume.RecordFile {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(text)
		return err
	}))
	return files
}

// onlyMain hides the optional interfaces of a store.
type onlyMain struct{ store sessionstore.SessionStore }

func (s onlyMain) Append(ctx context.Context, key sessionstore.Key, e []sessionstore.Entry) error {
	return s.store.Append(ctx, key, e)
}

func (s onlyMain) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	return s.store.Load(ctx, key)
}

// hooked is a store in which each call can go wrong.
type hooked struct {
	*inmemory.Store
	before   func(ctx context.Context, what string) error // each call and each entry
	subpaths []string                                     // if not nil, what ListSubkeys returns
}

func (s *hooked) hook(ctx context.Context, what string) error {
	if s.before == nil {
		return nil
	}
	return s.before(ctx, what)
}

func (s *hooked) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	if err := s.hook(ctx, "load"); err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, key)
}

func (s *hooked) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		if err := s.hook(ctx, "stream "+key.Subpath); err != nil {
			yield(nil, err)
			return
		}
		for e, err := range s.Store.Stream(ctx, key) {
			if err == nil {
				err = s.hook(ctx, "entry "+key.Subpath)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s *hooked) ListSubkeys(ctx context.Context, p, session string) ([]string, error) {
	if err := s.hook(ctx, "list subkeys"); err != nil {
		return nil, err
	}
	if s.subpaths != nil {
		return s.subpaths, nil
	}
	return s.Store.ListSubkeys(ctx, p, session)
}

func (s *hooked) ListSessions(ctx context.Context, p string) ([]sessionstore.SessionInfo, error) {
	if err := s.hook(ctx, "list sessions"); err != nil {
		return nil, err
	}
	return s.Store.ListSessions(ctx, p)
}

func lines(list ...sessionstore.Entry) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(string(e) + "\n")
	}
	return b.String()
}
