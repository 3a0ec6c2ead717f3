package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/testuser"
)

func TestLsShowsTitlesAndTags(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now()
	add(t, dir, key("p", uuid(1)), append(chain("first prompt\nof one"),
		`{"type":"tag","tag":"keep\u001b[2J"}`, `{"type":"custom-title","customTitle":"A \u202etitle\u001b]0;x\u0007 日本"}`)...)
	add(t, dir, key("p", uuid(2)), `{"type":"user","isSidechain":true,"message":{"content":"of a sidechain"}}`)
	add(t, dir, key("p", uuid(3)), `{"type":"mode"}`)
	add(t, dir, key("q", uuid(4)), chain("prompt of four")...)
	for i := range 4 {
		setTime(t, dir, []string{"p", "p", "p", "q"}[i], uuid(i+1), now.Add(-time.Duration(i)*time.Minute))
	}

	lines := strings.Split(ok(t, "ls", "-s", dir, "--all"), "\n")
	require.Regexp(t, `^SESSION +LAST WRITTEN +AGE +PROJECT +TAG +TITLE$`, lines[0])
	require.Regexp(t, `^`+uuid(1)+` .* 0s +p +keep\?\[2J +A .title.\]0;x. 日本$`, strings.NewReplacer("␛", "?").Replace(lines[1]))
	require.Regexp(t, `^`+uuid(2)+` .* 1m +p$`, lines[2], "what has no title can still be found")
	require.Regexp(t, `^`+uuid(3)+` .* 2m +p$`, lines[3])
	require.Regexp(t, `^`+uuid(4)+` .* 3m +q +prompt of four$`, lines[4])
	for _, r := range strings.Join(lines, "") {
		require.False(t, r < 0x20 || changesDirection(r), "%U", r)
	}

	out := ok(t, "ls", "-s", dir, "q", "--json")
	require.Contains(t, out, `Z","summary":"prompt of four","firstPrompt":"prompt of four"}`)
	out = cli(t, "ls", "-s", dir, "p", "--json", "-n1").stdout
	require.Contains(t, out, `"customTitle":"A `)
	require.Contains(t, out, `"firstPrompt":"first prompt of one","tag":"keep\u001b[2J"`)
}

func TestLsOnATerminalFitsIt(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("-home-dev-a-rather-long-name-of-a-project", uuid(1)), chain(strings.Repeat("日本 words ", 40))...)
	for _, c := range []struct {
		width int
		args  []string
		want  string
	}{
		{80, []string{"-home-dev-a-rather-long-name-of-a-project"}, `^\S+ +\d+s +日本 words .*…$`},
		{80, []string{"--all"}, `^\S+ +\d+s +…\S+ect  日本 .*…$`},
		{140, []string{"--all"}, `^\S+ +\d{4}-\d\d-\d\d \d\d:\d\d  \d+s +…\S+project  日本 .*…$`},
	} {
		var stdout bytes.Buffer
		a := newApp(strings.NewReader(""), &stdout, &bytes.Buffer{})
		a.out = terminal{is: true, width: c.width, height: 24}
		root := newRoot(a)
		root.SetArgs(maskDashArgs(append([]string{"ls", "-s", dir}, c.args...)))
		require.Equal(t, exitOK, a.finish(t.Context(), root.ExecuteContext(t.Context())))
		lines := strings.Split(stdout.String(), "\n")
		require.Regexp(t, c.want, lines[1])
		require.LessOrEqual(t, textWidth(lines[1]), c.width)
	}
}

// A directory keeps no summaries, so what is not shown must not be read. A
// transcript that is a directory can't be.
func TestLsReadsOnlyWhatItShows(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now()
	for i := range 40 {
		add(t, dir, key("p", uuid(i)), chain(fmt.Sprintf("prompt %d.", i))...)
		setTime(t, dir, "p", uuid(i), now.Add(-time.Duration(i)*time.Minute))
	}
	r := cli(t, "ls", "-s", dir, "p")
	require.Equal(t, exitOK, r.code)
	require.Equal(t, "10 more; see --limit\n", r.stderr)
	require.Equal(t, 31, strings.Count(r.stdout, "\n"))
	require.Contains(t, r.stdout, "prompt 29.")

	r = cli(t, "ls", "-s", dir, "p", "--json")
	require.Equal(t, 30, strings.Count(r.stdout, "\n"))
	require.Equal(t, "10 more; see --limit\n", r.stderr, "a script that reads all must be able to know")
	require.Equal(t, 41, strings.Count(ok(t, "ls", "-s", dir, "p", "--limit", "0"), "\n"))
	require.NotContains(t, ok(t, "ls", "-s", dir, "p", "--limit", "0", "--no-titles"), "prompt")

	var read countingStore
	read.SessionStore = openStore(t, dir)
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{})
	rows := make([]row, 5)
	for i := range rows {
		rows[i] = row{project: "p", SessionInfo: sessionstore.SessionInfo{SessionID: uuid(i), Mtime: 1}}
	}
	failed, err := a.readTitles(t.Context(), &handle{store: &read}, rows)
	require.NoError(t, err)
	require.False(t, failed)
	require.EqualValues(t, 5, read.loads.Load())
	require.Equal(t, "prompt 4.", rows[4].about.Summary)
}

func TestLsGoesOnWithoutATitleThatCannotBeRead(t *testing.T) {
	testuser.Run(t, func(t *testing.T) {
		home(t)
		dir := filepath.Join(t.TempDir(), "s")
		add(t, dir, key("p", uuid(1)), chain("locked")...)
		add(t, dir, key("p", uuid(2)), chain("open")...)
		require.NoError(t, os.Chmod(filepath.Join(dir, "p", uuid(1)+".jsonl"), 0))
		r := cli(t, "ls", "-s", dir, "p")
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.stdout, "open")
		require.Contains(t, r.stdout, uuid(1))
		require.Contains(t, r.stderr, "warning: titles are missing: ")
	})
}

func TestLsTellsDirectoriesOfOneProjectApart(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	for i, cwd := range []string{"/a/b-c", "/a/b/c", "/a/b-c"} {
		add(t, dir, key("-a-b-c", uuid(i)), fmt.Sprintf(`{"type":"user","cwd":%q,"message":{"content":"prompt %d"}}`, cwd, i))
	}
	add(t, dir, key("-a-b-c", uuid(3)), `{"type":"mode"}`)
	ids := func(args ...string) (list []string) {
		for _, l := range strings.Split(strings.TrimSpace(ok(t, append([]string{"ls", "-s", dir}, args...)...)), "\n")[1:] {
			list = append(list, strings.Fields(l)[0])
		}
		return list
	}
	require.Len(t, ids("/a/b-c"), 4)
	require.ElementsMatch(t, []string{uuid(0), uuid(2), uuid(3)}, ids("/a/b-c/", "--same-dir"), "and those that don't say")
	require.ElementsMatch(t, []string{uuid(1), uuid(3)}, ids("--same-dir", "-p", "/a/b/c"))
	require.Equal(t, 2, strings.Count(cli(t, "ls", "-s", dir, "/a/b-c", "--same-dir", "-n1").stdout, "\n"), "with the heading")
	require.Contains(t, fails(t, exitUsage, "ls", "-s", dir, "-a-b-c", "--same-dir"), "is no directory")
	require.Contains(t, fails(t, exitUsage, "ls", "-s", dir, "--all", "--same-dir"), "--same-dir")
}
