package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRm(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	for _, id := range []string{"session-1", "session-2", "session-10"} {
		add(t, dir, key("p", id), hello)
	}
	require.Contains(t, fails(t, exitUsage, "rm", "-s", dir, "p/session-1"), "this would delete 1 session from file:"+dir+"; say --yes")

	r := cli(t, "rm", "-s", dir, "session-1", "session-2", "session-1", "--dry-run")
	require.Equal(t, "p/session-1\np/session-2\n", r.stdout)
	require.Equal(t, "would delete 2 sessions\n", r.stderr)
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), "session-1 ")

	require.Equal(t, "deleted 2 sessions\n", ok(t, "rm", "-s", dir, "session-1", "session-2", "--yes"))
	require.NotContains(t, ok(t, "ls", "-s", dir, "p"), "session-1 ")
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), "session-10")
	fails(t, exitNotFound, "rm", "-s", dir, "session-1", "--yes", "--project", "p", "--subpath", "x")

	require.Equal(t, "deleted 1 transcript\n", ok(t, "rm", "-s", dir, recordedID, "--subpath", "agent-a54a", "-y"))
	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, recordedID, "--subpath", "agent-a54a"), "has no transcript")
	require.Equal(t, `{"projectKey":"-home-dev-subagents-proj","sessionId":"`+recordedID+`"}`+"\n"+`{"deleted":1,"dryRun":false}`+"\n",
		ok(t, "rm", "-s", dir, recordedID, "-y", "--json"))
	require.Equal(t, "deleted 1 session\n", ok(t, "rm", "-s", dir, "--project", "p", "--all", "-y"))
	require.Contains(t, fails(t, exitNotFound, "rm", "-s", dir, "--project", "p", "--all", "-y"), "no sessions of project p")
	require.Contains(t, fails(t, exitNotFound, "verify", dir, dir, "--project", "typo"), "typo")
	require.Contains(t, fails(t, exitNotFound, "copy", dir, "mem:", "--project", "typo"), "typo")
}

func TestRmOfAllNamesOrNone(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "session-1"), hello)
	fails(t, exitNotFound, "rm", "-s", dir, "session-1", "nobody", "--yes")
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), "session-1", "a mistake in one name deletes nothing")
}

func TestRmOlderThan(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now()
	for _, project := range []string{"p", "q"} {
		for id, days := range map[string]int{"today": 0, "month": 31, "year": 366} {
			add(t, dir, key(project, id), hello)
			setTime(t, dir, project, id, now.AddDate(0, 0, -days))
		}
	}
	r := cli(t, "rm", "-s", dir, "--older-than", "30d", "--dry-run")
	require.Equal(t, "p/month\nq/month\np/year\nq/year\n", r.stdout)
	require.Equal(t, "deleted 1 session\n", ok(t, "rm", "-s", dir, "--older-than", "52w", "--project", "q", "--yes"))
	require.Contains(t, fails(t, exitUsage, "rm", "-s", dir, "--older-than", "30d"), "this would delete 3 sessions")
	require.Equal(t, "deleted 3 sessions\n", ok(t, "rm", "-s", dir, "--older-than", "30d", "--yes"))
	out := ok(t, "ls", "-s", dir, "--all")
	require.NotContains(t, out, "month")
	require.NotContains(t, out, "year")
	require.Contains(t, out, "today")
}

func TestRmAsks(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "session-1"), hello)
	for answer, left := range map[string]bool{"\n": true, "n\n": true, "": true, "yes please\n": true, " Y \n": false} {
		code, stderr := rmOnTerminal(t, answer, "rm", "-s", dir, "session-1")
		require.Contains(t, stderr, "  p/session-1\nDelete 1 session from file:"+dir+"? [y/N] ")
		if left {
			require.Equal(t, exitFailure, code)
			require.Contains(t, stderr, "sessionstore: nothing was deleted\n")
		} else {
			require.Equal(t, exitOK, code)
			add(t, dir, key("p", "session-1"), hello)
		}
	}
}
