package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResumePassesAHangupOn(t *testing.T) {
	if len(hangup()) == 0 {
		t.Skip("hangups are ignored")
	}
	temp := machine(t)
	agentCommand(t, "") // needs a shell
	dir := filepath.Join(t.TempDir(), "store")
	add(t, dir, key("p", uuid(1)), hello)
	script := `trap 'echo "{\"type\":\"user\",\"uuid\":\"hup\"}" >> "$CLAUDE_CONFIG_DIR/projects/p/$0.jsonl"; exit 3' HUP
		kill -HUP $PPID
		while :; do sleep 0.05; done`
	r := cli(t, "resume", "-s", "file:"+dir, uuid(1), "--", "sh", "-c", script, "{}")
	require.Equal(t, 3, r.code, r.stderr)
	text, err := os.ReadFile(filepath.Join(dir, "p", uuid(1)+".jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"hup"`)
	requireEmpty(t, temp)
}

func TestResumeTakesThePrefixOfAnIDUnderSeveralProjects(t *testing.T) {
	machine(t)
	dir := filepath.Join(t.TempDir(), "store")
	for i, project := range []string{"a", "b"} {
		add(t, dir, key(project, uuid(1)), hello)
		setTime(t, dir, project, uuid(1), time.Unix(int64(2-i), 0))
	}
	require.Contains(t, ok(t, "resume", "-q", "--json", "-s", dir, uuid(1)[:8]), `"projectKey":"a"`)
	add(t, dir, key("a", uuid(2)), hello)
	require.Contains(t, fails(t, exitUsage, "resume", "-s", dir, uuid(1)[:8]), "ambiguous")
}

func TestResumeKeepsDamagedLines(t *testing.T) {
	for _, damage := range []string{"garbage\\n", `{"type":"us`} {
		temp := machine(t)
		agentCommand(t, "")
		dir := filepath.Join(t.TempDir(), "store")
		add(t, dir, key("p", uuid(1)), hello)
		script := `printf '` + damage + `' >> "$CLAUDE_CONFIG_DIR/projects/p/$0.jsonl"`
		r := cli(t, "resume", "-s", "file:"+dir, uuid(1), "--", "sh", "-c", script, "{}")
		require.Equal(t, exitFailure, r.code, r.stderr)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Contains(t, r.stderr, filepath.Join(temp, left[0].Name()))
	}
}
