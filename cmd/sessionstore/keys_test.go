package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// As in ~/.claude/projects, where the directories are named like the keys.
func TestAProjectKeyGoesBeforeADirectoryOfItsName(t *testing.T) {
	home(t)
	dir := t.TempDir()
	for _, project := range []string{"-home-dev-app", "named"} {
		add(t, dir, key(project, uuid(1)), hello)
	}
	t.Chdir(dir)
	for _, project := range []string{"-home-dev-app", "named"} {
		for _, args := range [][]string{
			{"ls", "-s", dir, project}, {"ls", "-s", dir, "-p", project}, {"show", "-s", dir, "-p", project, uuid(1)},
			{"copy", dir, "mem:", "--project", project, "--dry-run"}, {"import", "--from", dir, project, "--to", "mem:"},
		} {
			require.NotEmpty(t, ok(t, args...), args)
		}
		fails(t, exitNotFound, "ls", "-s", dir, "./"+project)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	other, err := sessionstore.ProjectKey(filepath.Join(dir, "other"))
	require.NoError(t, err)
	require.Contains(t, fails(t, exitNotFound, "ls", "-s", dir, "other"), other, "no key of the store: the directory")
	t.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(dir, "none"))
	require.Contains(t, fails(t, exitNotFound, "import", "-home-dev-app", "--to", "mem:"), "none", "no source either")
}

func TestWhatIsSuggestedForKeysWithTwoDashesWorks(t *testing.T) {
	dir := t.TempDir()
	for _, project := range []string{"--srv-app", "--srv-web"} {
		add(t, dir, key(project, uuid(1)), hello)
	}
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, uuid(1)), "--srv-app/"+uuid(1)+", --srv-web/"+uuid(1))
	require.Contains(t, ok(t, "show", "-s", dir, "--srv-app/"+uuid(1)), "hello")
	require.Contains(t, ok(t, "show", "-s", dir, "-p", "--srv-app", uuid(1)), "hello")
	require.Contains(t, fails(t, exitUsage, "ls", "-s", dir, "--srv-app"), "write -- before a project key")
	require.Contains(t, ok(t, "ls", "-s", dir, "--", "--srv-app"), uuid(1))
}

func TestJSONCannotControlATerminal(t *testing.T) {
	dir := t.TempDir()
	const text = "a\u009b31m\u202eb\u200b\U000E0041\x7fé中\U0001F600"
	content, err := json.Marshal(text)
	require.NoError(t, err)
	add(t, dir, key("-p", uuid(1)), `{"type":"user","uuid":"u1","message":{"role":"user","content":`+string(content)+`}}`)
	for _, args := range [][]string{{"ls", "-s", dir, "-p"}, {"info", "-s", dir, uuid(1)}} {
		if args[0] == "ls" {
			args = append(args, "-p")
		}
		out := ok(t, append(args, "--json")...)
		require.Contains(t, out, `a\u009b31m\u202eb\u200b\udb40\udc41\u007fé中`+"\U0001F600")
		var row struct{ FirstPrompt string }
		require.NoError(t, json.Unmarshal([]byte(out), &row))
		require.Equal(t, text, row.FirstPrompt)
	}
}

func TestASessionWithoutUsableEntryIsNotCalledUnknown(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "-p"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "-p", uuid(1)+".jsonl"), []byte("\uFEFF"+hello+"\n"), 0o600))
	for _, args := range [][]string{{"rename", uuid(1), "x"}, {"tag", uuid(1), "x"}, {"fork", uuid(1)}} {
		r := cli(t, append(args, "-s", "file:"+dir)...)
		require.Equal(t, exitFailure, r.code, args)
		require.Contains(t, r.stderr, "has no entry that can be read", args)
	}
}

func TestRepairOfADirectoryDropsSummariesOfDeletedSessions(t *testing.T) {
	dir := t.TempDir()
	for _, project := range []string{"-p", "-q"} {
		add(t, dir, key(project, uuid(1)), hello)
	}
	add(t, dir, key("-p", uuid(2)), hello)
	require.NoError(t, os.Remove(filepath.Join(dir, "-p", uuid(1)+".jsonl")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "-q")))
	require.Equal(t, "2 summaries of deleted sessions removed\n", ok(t, "repair", "-s", "file:"+dir))
	require.Equal(t, "{\"strays\":0}\n", ok(t, "repair", "-s", "file:"+dir, "--json"))
}
