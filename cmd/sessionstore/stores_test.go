package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoresByURL(t *testing.T) {
	h := home(t)
	dir := recordedDir(t)
	require.NoError(t, os.Symlink(dir, filepath.Join(h, "x")))
	t.Chdir(filepath.Dir(dir))
	for _, url := range []string{
		dir, "file:" + dir, "file://" + dir, "file://localhost" + dir, "FILE:" + dir,
		"store", "./store", "file:store", "file:./store?readonly=true", "file:" + dir + "?fsync=true&readonly=1",
		"~/x", "file:~/x",
	} {
		require.Contains(t, ok(t, "ls", "--all", "--store", url), recordedID, url)
		t.Setenv("SESSIONSTORE_URL", url)
		require.Contains(t, ok(t, "ls", "--all"), recordedID, url)
		os.Unsetenv("SESSIONSTORE_URL")
	}
	require.NoFileExists(t, filepath.Join(filepath.Dir(dir), "~"))
}

func TestURLsWithEscapes(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "a?b c")
	add(t, dir, key("p", "session"), hello)
	require.Contains(t, ok(t, "ls", "--all", "-s", dir), "session")
	require.Contains(t, ok(t, "ls", "--all", "-s", "file://"+filepath.Dir(dir)+"/a%3Fb%20c"), "session")
}

func TestBadStores(t *testing.T) {
	h := home(t)
	file := filepath.Join(h, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		url  string
		code int
		text string
	}{
		{"gs://bucket/x", exitUsage, `unknown kind of store "gs" in gs://bucket/x; known are file:DIR, mem:`},
		{"mysql://me:secret@host/db", exitUsage, "mysql://me:xxxxx@host/db"},
		{"postgres://me:secret@host:port/db", exitUsage, "postgres:"},
		{"postgres://me@host/db?sslmode=no", exitUsage, "sslmode is invalid"},
		{"postgres://me@host/db?schema=" + strings.Repeat("x", 64), exitUsage, "the limit is 63"},
		{"mem:x", exitUsage, "has no name"},
		{"file:", exitUsage, "the form is file:DIR"},
		{"file:~bob/x", exitUsage, "only ~ and ~/ are expanded"},
		{"file://x/y", exitUsage, "write file:x/y"},
		{"file:x?fsink=true", exitUsage, `unknown option "fsink"`},
		{"file:x?fsync=maybe", exitUsage, "write true or false"},
		{"file:" + h + "/none", exitNotFound, "no directory " + h + "/none"},
		{h + "/none", exitNotFound, "no directory " + h + "/none"},
		{"file:" + file, exitFailure, file + " is not a directory"},
		{file, exitFailure, file + " is not a directory"},
		{"file:a\nb\x1b[31m", exitNotFound, "no directory a b"},
	} {
		require.Contains(t, fails(t, c.code, "ls", "--all", "-s", c.url), c.text, c.url)
	}
	require.Contains(t, fails(t, exitNotFound, "copy", recordedDir(t), h+"/new"), "write file:"+h+"/new to create it")
}

func TestTheAgentsOwnDirectoryIsTheDefaultAndOnlyRead(t *testing.T) {
	h := home(t)
	require.Contains(t, fails(t, exitNotFound, "ls", "--all"), "where the agent keeps its sessions; name a store with --store")
	own := filepath.Join(h, ".claude", "projects")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.CopyFS(own, os.DirFS(recordedDir(t))))
	require.Contains(t, ok(t, "ls", "--all"), recordedID)
	require.Contains(t, ok(t, "show", recordedID), "One agent")
	require.Contains(t, fails(t, exitUsage, "rm", recordedID, "--yes"), "name it with --store")

	other := filepath.Join(h, "other")
	t.Setenv("CLAUDE_CONFIG_DIR", other)
	require.Contains(t, fails(t, exitNotFound, "ls", "--all"), filepath.Join(other, "projects"))
}

func TestReadOnlyStoreRefusesWrites(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	before := files(t, dir)
	fails(t, exitFailure, "rm", "-s", "file:"+dir+"?readonly=true", recordedID, "--yes")
	src := filepath.Join(t.TempDir(), "src")
	add(t, src, key("p", "session"), hello)
	fails(t, exitFailure, "copy", src, "file:"+dir+"?readonly=true")
	require.Equal(t, before, files(t, dir))
}

// files maps the files below a directory to their contents. Kept summaries,
// which name a file's inode and time, are left out.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		if !strings.HasSuffix(rel, ".summary") {
			all[rel] = string(data)
		}
		return err
	}))
	return all
}
