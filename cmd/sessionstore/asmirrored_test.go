package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestWhatWatchStoredIsComparedAsMirrored(t *testing.T) {
	dir := filepath.Join(home(t), ".claude", "projects")
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	add(t, dir, key, `{"type":"user","uuid":"a"}`, `{"type":"api-request"}`, `{"type":"user","uuid":"b"}`)
	key.Subpath = "subagents/workflows/w/journal"
	add(t, dir, key, `{"type":"started"}`)
	to := "file:" + filepath.Join(t.TempDir(), "to")
	require.Equal(t, exitOK, cli(t, "watch", "--to", to, "--once").code)
	require.Equal(t, exitFailure, cli(t, "verify", to).code)
	require.Contains(t, ok(t, "verify", "--as-mirrored", to), "equal: ")
	require.Contains(t, ok(t, "import", "--as-mirrored", "--to", to), "added 0 entries")
	full := "file:" + filepath.Join(t.TempDir(), "full")
	ok(t, "import", "--to", full)
	require.Contains(t, ok(t, "verify", full), "equal: ")
	require.Contains(t, ok(t, "import", "--as-mirrored", "--to", full), "added 0 entries")
}

func TestAConfigDirectoryIsNoStore(t *testing.T) {
	config := filepath.Join(home(t), ".claude")
	add(t, filepath.Join(config, "projects"), sessionstore.Key{ProjectKey: "p", SessionID: "s"}, `{"uuid":"a"}`)
	want := "did you mean " + filepath.Join(config, "projects") + "?"
	require.Contains(t, fails(t, exitUsage, "import", config, "--to", "mem:"), want)
	require.Contains(t, fails(t, exitUsage, "watch", config, "--to", "mem:", "--once"), want)
	require.Contains(t, fails(t, exitUsage, "projects", "--store", "file:"+config), want)
	add(t, filepath.Join(config), sessionstore.Key{ProjectKey: "projects", SessionID: "s"}, `{"uuid":"a"}`)
	ok(t, "projects", "--store", "file:"+config)
}

func TestAStoreThatDoesNotExistIsNotFound(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "no")
	for _, args := range [][]string{{"show", "abcd"}, {"ls"}, {"projects"}, {"resume", "abcd", "--", "true"}, {"memory", "ls", "--scope", "x"}} {
		require.Contains(t, fails(t, exitNotFound, append([]string{args[0], "-s", "file:" + dir}, args[1:]...)...), "no such store")
	}
	require.NoDirExists(t, dir)
}

func TestHintsNameTheStore(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, "nobody"), `"sessionstore ls --all -s file:`+dir+`" lists`)
	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, recordedID, "--subpath", "x"), `"sessionstore subagents -s file:`+dir+` `+recordedID+`" lists`)
	t.Setenv("SESSIONSTORE_URL", dir)
	require.Contains(t, fails(t, exitNotFound, "show", "nobody"), `"sessionstore ls --all" lists`)
}

func TestWatchSumsUpWhatIsNotStored(t *testing.T) {
	home(t)
	t.Setenv("PGCONNECT_TIMEOUT", "1")
	dir := t.TempDir()
	for _, id := range []string{"s1", "s2", "s3"} {
		add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: id}, `{"uuid":"a"}`)
	}
	r := cli(t, "watch", dir, "--to", "redis://127.0.0.1:1?retry_for=1ms", "--once")
	if r.code == exitUsage {
		r = cli(t, "watch", dir, "--to", "redis://127.0.0.1:1", "--once")
	}
	require.Equal(t, exitFailure, r.code)
	require.Regexp(t, `(?m)^sessionstore: 3 transcripts not stored: p/s\d: [^;]*refused$`, r.stderr)
}

func TestReplayRefusesADirectoryOfSomethingElse(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	require.Contains(t, fails(t, exitUsage, "replay", dir, "--to", "mem:"), "is not a directory that a mirror spills to")
	require.DirExists(t, filepath.Join(dir, "empty"))
}

func TestS3WithoutARegionSaysSo(t *testing.T) {
	home(t)
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_CONFIG_FILE"} {
		t.Setenv(name, "")
	}
	require.Contains(t, fails(t, exitUsage, "ls", "-s", "s3://bucket/x"), "add region=")
	require.Contains(t, fails(t, exitUsage, "memory", "ls", "--scope", "x", "-s", "s3://bucket/x"), "add region=")
}

func TestAnEmptyMemoryIsAnEmptyList(t *testing.T) {
	home(t)
	for kind, url := range memoryStores(t) {
		if kind == "postgres" {
			ok(t, "memory", "migrate", "-s", url)
		}
		if kind == "file" {
			require.NoError(t, os.Mkdir(url[len("file:"):], 0o700))
		}
		require.Empty(t, ok(t, "memory", "ls", "-s", url, "--scope", "nobody"), kind)
	}
}
