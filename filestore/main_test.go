package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

// TestMain runs the tests, or one of the writers that tests start as processes
// of their own.
func TestMain(m *testing.M) {
	if mode := os.Getenv(writerEnv); mode != "" {
		os.Exit(runWriter(mode))
	}
	goleak.VerifyTestMain(m)
}

const (
	project = "-home-dev-proj"
	session = "11111111-2222-4333-8444-555555555555"
)

var (
	mainKey = sessionstore.Key{ProjectKey: project, SessionID: session}
	subKey  = sub("subagents/agent-1a2b")
)

func sub(path string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: path}
}

func open(t testing.TB, dir string, opts *filestore.Options) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// user is an entry with a uuid.
func user(id string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"user","uuid":"` + id + `"}`)
}

// title is an entry without one.
func title(text string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"custom-title","customTitle":"` + text + `"}`)
}

func metadata(agent string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"agent_metadata","agentType":"` + agent + `","spawnDepth":1}`)
}

func appendAll(t testing.TB, s *filestore.Store, key sessionstore.Key, entries ...sessionstore.Entry) {
	t.Helper()
	require.NoError(t, s.Append(t.Context(), key, entries))
}

func load(t testing.TB, s *filestore.Store, key sessionstore.Key) []string {
	t.Helper()
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	if entries == nil {
		return nil
	}
	return texts(entries...)
}

func texts(entries ...sessionstore.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = string(e)
	}
	return list
}

// files are the names of all files below dir, without the store's own.
func files(t testing.TB, dir string) []string {
	t.Helper()
	list := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		if !d.IsDir() && !strings.HasPrefix(rel, filestore.PrivateDir) {
			list = append(list, filepath.ToSlash(rel))
		}
		return nil
	}))
	slices.Sort(list)
	return list
}

func read(t testing.TB, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(data)
}

// write puts text into a file behind the back of the store.
func write(t testing.TB, text string, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func add(t testing.TB, text string, elem ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(elem...), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	require.NoError(t, err)
}

// skips collects what a store passes over. The tests that use it read from one
// goroutine.
type skips []filestore.Skip

func (s *skips) options() *filestore.Options {
	return &filestore.Options{OnSkip: func(sk filestore.Skip) { *s = append(*s, sk) }}
}

func (s *skips) paths() []string {
	var list []string
	for _, sk := range *s {
		list = append(list, sk.Path)
	}
	slices.Sort(list)
	return list
}

func numbered(n int) []sessionstore.Entry {
	entries := make([]sessionstore.Entry, n)
	for i := range entries {
		entries[i] = user(fmt.Sprintf("u%d", i))
	}
	return entries
}
