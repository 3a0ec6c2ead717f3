//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testuser"
)

// lock takes all rights away until the test ends.
func lock(t *testing.T, elem ...string) {
	path := filepath.Join(elem...)
	require.NoError(t, os.Chmod(path, 0))
	t.Cleanup(func() { os.Chmod(path, 0o700) })
}

// partly runs the program and demands that it has printed something, has named
// what it could not read, once, and has failed.
func partly(t *testing.T, unread string, args ...string) string {
	t.Helper()
	r := cli(t, append(args, "-q")...)
	require.Equal(t, exitFailure, r.code, "%v: %s", args, r.stderr)
	require.Regexp(t, `^error: [^\n]*`+unread+`[^\n]*permission denied\n$`, r.stderr, "%v", args)
	return r.stdout
}

func subOf(session, sub string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: "-p", SessionID: session, Subpath: sub}
}

func TestOneUnreadableSubagentHidesNothingElse(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir, out := t.TempDir(), t.TempDir()
		for i := range 3 {
			add(t, dir, key("-p", uuid(i)), chain("question", "answer")...)
		}
		for _, agent := range []string{"ok1", "no", "ok2"} {
			add(t, dir, subOf(uuid(0), "subagents/agent-"+agent), chain("task "+agent, "result "+agent)...)
		}
		lock(t, dir, "-p", uuid(0), "subagents", "agent-no.jsonl")

		text := partly(t, "agent-no", "subagents", "-s", dir, uuid(0))
		require.Contains(t, text, "result ok1")
		require.Contains(t, text, "result ok2")
		for _, flags := range [][]string{nil, {"--json"}, {"--all"}} {
			text = partly(t, "agent-no", append([]string{"show", "-s", dir, uuid(0), "--subagents"}, flags...)...)
			require.Contains(t, text, "result ok2")
		}
		page := filepath.Join(out, "x.html")
		partly(t, "agent-no", "show", "-s", dir, uuid(0), "--html", page)
		html, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(html), "result ok2")
		require.Contains(t, string(html), "cannot be read")
		require.Contains(t, string(html), "</html>")

		for _, args := range [][]string{{"import", dir, "--to"}, {"copy", "--skip-diverged", dir}, {"copy", dir}} {
			to := "file:" + filepath.Join(t.TempDir(), "copy")
			partly(t, "agent-no", append(args, to)...)
			require.Contains(t, ok(t, "ls", "-s", to, "--all"), uuid(2))
			require.NotContains(t, ok(t, "ls", "-s", to, "--all"), uuid(0), "a session is copied whole or not at all")
		}
		r := cli(t, "copy", dir, "mem:", "--json")
		require.Contains(t, r.stdout, `"unreadable":[{"projectKey":"-p","sessionId":"`+uuid(0)+`","subpath":"subagents/agent-no"}]`)
		fails(t, exitFailure, "show", "-s", dir, uuid(0), "--subpath", "no")
	})
}

func TestOneUnreadableProjectHidesNoOther(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		for i, project := range []string{"-p", "-q", "-r"} {
			add(t, dir, key(project, uuid(i)), chain("question", "answer")...)
		}
		lock(t, dir, "-q")
		for _, args := range [][]string{
			{"ls", "--all"}, {"ls", "--all", "--no-titles"}, {"rm", "--older-than", "0s", "--dry-run"},
		} {
			text := partly(t, "-q", append(args, "-s", dir)...)
			require.Contains(t, text, uuid(0))
			require.Contains(t, text, uuid(2))
		}
		require.Contains(t, partly(t, "-q", "projects", "-s", dir), "-r")
		for _, args := range [][]string{{"info", uuid(2)}, {"show", uuid(2)}, {"export", uuid(2), "-"}} {
			require.NotEmpty(t, partly(t, "-q", append(args, "-s", dir)...))
		}
		r := cli(t, "info", "-s", dir, uuid(1))
		require.Equal(t, exitFailure, r.code, "not unknown")
		require.Contains(t, r.stderr, "in what can be read")
		fails(t, exitFailure, "ls", "-s", dir, "--", "-q")
		require.Contains(t, fails(t, exitFailure, "rm", "-s", "file:"+dir, uuid(2), "--yes"), "permission denied", "it must be the right one")
		completed := cli(t, "__complete", "show", "-s", dir, "")
		require.Contains(t, completed.stdout, uuid(2))
		require.NotContains(t, completed.stderr, "permission denied")
		ok(t, "rm", "-s", "file:"+dir, "-r/"+uuid(2), "--yes")
	})
}
