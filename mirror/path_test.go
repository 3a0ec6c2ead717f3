package mirror_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

func TestPathsBecomeKeys(t *testing.T) {
	const dir = "/c/projects"
	key := func(p, s, sub string) sessionstore.Key {
		return sessionstore.Key{ProjectKey: p, SessionID: s, Subpath: sub}
	}
	tests := []struct {
		dir, path string
		want      sessionstore.Key
	}{
		{dir, "/c/projects/p/s.jsonl", key("p", "s", "")},
		{dir + "/", "/c//projects///p/./s.jsonl", key("p", "s", "")},
		{dir + "//x/..", "/c/projects/p/s.jsonl", key("p", "s", "")},
		{dir, "/c/projects/p/s/subagents/agent-1.jsonl", key("p", "s", "subagents/agent-1")},
		{dir, "/c/projects/p/s/subagents/workflows/wf_1/agent-1.jsonl", key("p", "s", "subagents/workflows/wf_1/agent-1")},
		{dir, "/c/projects/p/s.x.jsonl", key("p", "s.x", "")},
		{`C:\Users\dev\.claude\projects`, `C:\Users\dev\.claude\projects\p\s.jsonl`, key("p", "s", "")},
		{`C:\Users\dev\.claude\projects\`, `c:/users/Dev/.claude/projects/p/s/subagents/a.jsonl`, key("p", "s", "subagents/a")},
		{`\\server\share\projects`, `\\server\share\projects\p\s.jsonl`, key("p", "s", "")},
	}
	for _, tc := range tests {
		s := newFake()
		m, err := mirror.New(s, tc.dir, nil)
		require.NoError(t, err)
		require.NoError(t, m.Frame(tc.path, entries(user("a"))), tc.path)
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, tc.want), 1, tc.path)
	}
}

func TestPathsFromElsewhereAreReportedAndNeverBecomeKeys(t *testing.T) {
	tests := []struct {
		path    string
		outside bool
		reason  string
	}{
		{"/other/projects/p/s.jsonl", true, "outside"},
		{"/home/dev/.claude/projects-2/p/s.jsonl", true, "outside"},
		{"/home/dev/.claude/projects", false, "two levels"},
		{projectsDir + "/s.jsonl", false, "two levels"},
		{projectsDir + "/p/s/three.jsonl", false, "two levels"},
		{projectsDir + "/p/s.json", false, "ends in"},
		{projectsDir + "/p/.jsonl", false, "ends in"},
		{projectsDir + "/p/../../../etc/x/s.jsonl", false, `".."`},
		{projectsDir + "/p/s/../../other/s.jsonl", false, `".."`},
		{projectsDir + "/../evil.jsonl", false, `".."`},
		{projectsDir + `/p/s/a\..\..\x/agent.jsonl`, false, "backslash"},
		{projectsDir + "/p/s\x00.jsonl", false, "NUL"},
		{projectsDir + "/p/" + strings.Repeat("s", 300) + ".jsonl", false, "limit"},
		{"p/s.jsonl", false, "not absolute"},
		{`C:\x\p\s.jsonl`, false, "not absolute"},
		{"", false, "not absolute"},
	}
	var log errorLog
	opts := log.options()
	s := newFake()
	m := open(t, s, &opts)
	for i, tc := range tests {
		err := m.Frame(tc.path, entries(user("a")))
		var foreign *mirror.ForeignError
		require.ErrorAs(t, err, &foreign, tc.path)
		require.Equal(t, tc.outside, foreign.Outside, tc.path)
		require.ErrorContains(t, err, tc.reason)
		require.True(t, foreign.First)
		require.Equal(t, projectsDir, foreign.ProjectsDir)
		require.Equal(t, texts(entries(user("a"))), texts(foreign.Entries))
		require.Same(t, foreign, log.foreign[i], "reported at the first frame")
	}
	require.Error(t, m.Frame(tests[0].path, entries(user("a"))))
	require.False(t, log.foreign[len(tests)].First)
	require.True(t, m.Failed())
	require.ErrorContains(t, m.Close(t.Context()), "17 frames")
	require.Zero(t, s.count())
}

func TestLinksInTheWayToTheProjectsDirectory(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.MkdirAll(filepath.Join(real, "projects", "p"), 0o700))
	require.NoError(t, os.Symlink(real, link))
	for host, agent := range map[string]string{real: link, link: real, link + "/../" + filepath.Base(link): link} {
		s := inmemory.New()
		m, err := mirror.New(s, filepath.Join(host, "projects"), nil)
		require.NoError(t, err)
		require.NoError(t, m.Frame(agent+"/projects/p/s.jsonl", entries(user("a"))))
		require.NoError(t, m.Frame(agent+"/projects/later/s/subagents/x.jsonl", entries(user("a"))), "directories may not exist")
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, sessionstore.Key{ProjectKey: "p", SessionID: "s"}), 1)
	}
	m, err := mirror.New(inmemory.New(), filepath.Join(t.TempDir(), "not", "there"), nil)
	require.NoError(t, err)
	require.Error(t, m.Frame(link+"/projects/p/s.jsonl", nil))
	require.Error(t, m.Close(t.Context()))
}
