package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDemo(t *testing.T) {
	h := home(t)
	t.Setenv("TMPDIR", t.TempDir())
	require.NotContains(t, ok(t, "demo"), "ls --all", "no agent has run here")
	own := filepath.Join(h, ".claude", "projects")
	require.NoError(t, os.MkdirAll(own, 0o700))
	require.NotContains(t, ok(t, "demo"), "ls --all", "nothing is there")
	add(t, own, key("p", uuid(1)), hello)
	out := ok(t, "demo")
	for _, text := range []string{
		"1. Host A runs an agent", "killed (kill -9)", "112 entries in 7 batch appends",
		"2. Host B resumes the session", "3. The agent goes on", "64 entries in 5 batch appends",
		"4. Is everything there?", "Yes: the 162 entries of 8 transcripts", "Another 14 were descriptions of the subagents",
		"5. The conversation", "One agent [[script:sub]]", "Subagent result: 42 leaf",
		"6. Where it lies", recordedID + ".jsonl", "agent-a54a7a95de8336d08.meta.json",
		"Try next", "ls --all", "rm -r ",
	} {
		require.Contains(t, out, text)
	}
	dir := regexp.MustCompile(`rm -r (\S+)`).FindStringSubmatch(out)[1]
	require.Contains(t, ok(t, "show", "-s", "file:"+dir, recordedID[:8]), "One agent")
	again := ok(t, "demo")
	temp := regexp.MustCompile(`sessionstore-demo-\d+`)
	require.Equal(t, temp.ReplaceAllString(out, ""), temp.ReplaceAllString(again, ""), "the output is the same each time")
}

func TestDemoInADirectory(t *testing.T) {
	h := home(t)
	out := ok(t, "demo", "--dir", "~/demo dir")
	require.Contains(t, out, "show -s 'file:"+filepath.Join(h, "demo dir")+"' "+recordedID[:8]+" --subagents")
	before := files(t, filepath.Join(h, "demo dir"))
	out = ok(t, "demo", "--dir", "~/demo dir")
	require.Contains(t, out, "in this directory already; entries added: 0")
	require.Equal(t, before, files(t, filepath.Join(h, "demo dir")))
	require.Regexp(t, `^\{"dir":.*"batches":0,"entries":162,"added":0,"stored":0,"equal":true,"transcripts":8\}\n$`,
		ok(t, "demo", "--dir", filepath.Join(h, "demo dir"), "--json"))
}

func TestDemoCompletesAnInterruptedRun(t *testing.T) {
	h := home(t)
	dir := filepath.Join(h, "demo")
	ok(t, "demo", "--dir", dir)
	path := filepath.Join(dir, recordedKey, recordedID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:20], "")), 0o600))
	require.Contains(t, ok(t, "demo", "--dir", dir), "entries added: 40")
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(data), string(now))
}

func TestDemoFailsWhenSomethingIsWrong(t *testing.T) {
	h := home(t)
	dir := filepath.Join(h, "demo")
	ok(t, "demo", "--dir", dir)
	path := filepath.Join(dir, recordedKey, recordedID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), "One agent", "Two agents", 1)), 0o600))
	r := cli(t, "demo", "--dir", dir)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "diverged")

	file := filepath.Join(h, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Contains(t, cli(t, "demo", "--dir", file).stderr, "is not a directory")
}

func TestDemoCountsWhatTheHostsHaveDone(t *testing.T) {
	home(t)
	require.Regexp(t, `"batches":12,"entries":162,"added":176,"stored":112,"equal":true,"transcripts":8\}\n$`,
		ok(t, "demo", "--dir", filepath.Join(t.TempDir(), "demo"), "--json"))
}

func TestDemoThatIsInterruptedLeavesNoProcessAndNoHomes(t *testing.T) {
	home(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := filepath.Join(t.TempDir(), "demo")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil && !isDir(filepath.Join(dir, recordedKey)) {
			time.Sleep(time.Millisecond)
		}
	}()
	require.Equal(t, exitInterrupted, cliWith(ctx, "", "demo", "--dir", dir).code)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Contains(t, ok(t, "demo", "--dir", dir), "Yes: the 162 entries of 8 transcripts", "another run goes on from there")
}

func TestDemoCanCleanUp(t *testing.T) {
	home(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	require.Contains(t, ok(t, "demo", "--keep=false"), "The directory is removed now")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}
