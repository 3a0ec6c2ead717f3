package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestLs(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now()
	for i, id := range []string{"old-session", "new-session", "mid-session"} {
		add(t, dir, key("-home-dev-app", id), hello)
		setTime(t, dir, "-home-dev-app", id, now.Add(-[]time.Duration{50 * time.Hour, time.Minute, 3 * time.Hour}[i]))
	}
	add(t, dir, key("-other", "other-session"), hello)
	setTime(t, dir, "-other", "other-session", now.Add(-2*time.Hour))

	out := ok(t, "ls", "-s", dir, "-home-dev-app")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^SESSION +LAST WRITTEN +AGE +TITLE$`, lines[0])
	require.Regexp(t, `^new-session +\d{4}-\d\d-\d\d \d\d:\d\d +1m`, lines[1])
	require.Regexp(t, `^mid-session .* 3h`, lines[2])
	require.Regexp(t, `^old-session .* 2d`, lines[3])
	lines = strings.Split(ok(t, "ls", "-s", dir, "-home-dev-app", "--no-titles"), "\n")
	require.Regexp(t, `^SESSION +LAST WRITTEN +AGE +PROJECT$`, lines[0])
	require.Regexp(t, `^new-session .* 1m +-home-dev-app$`, lines[1])

	out = ok(t, "ls", "-s", dir, "--all", "--json", "--no-titles")
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Regexp(t, `^\{"sessionId":"new-session","projectKey":"-home-dev-app","mtime":\d{13},"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"\}`, out)

	r := cli(t, "ls", "-s", dir, "--all", "--limit", "1")
	require.Contains(t, r.stdout, "new-session")
	require.NotContains(t, r.stdout, "mid-session")
	require.Equal(t, "3 more; see --limit\n", r.stderr)
	require.Empty(t, cli(t, "ls", "-s", dir, "--all", "--limit", "1", "-q").stderr)
}

func TestLsOfDirectories(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	work := filepath.Join(t.TempDir(), "work dir")
	require.NoError(t, os.Mkdir(work, 0o700))
	project, err := sessionstore.ProjectKey(work)
	require.NoError(t, err)
	add(t, dir, key(project, "session-of-work"), hello)

	require.Contains(t, ok(t, "ls", "-s", dir, work), "session-of-work")
	require.Contains(t, ok(t, "ls", "-s", dir, work+"/../work dir/"), "session-of-work")
	t.Chdir(work)
	require.Contains(t, ok(t, "ls", "-s", dir), "session-of-work")
	require.Contains(t, ok(t, "ls", "-s", dir, "."), "session-of-work")
	t.Chdir(filepath.Dir(work))
	require.Contains(t, ok(t, "ls", "-s", dir, "./work dir"), "session-of-work")
	text := fails(t, exitNotFound, "ls", "-s", dir)
	require.Contains(t, text, "no sessions for the current directory")
	require.Contains(t, text, `try "sessionstore projects -s `)
	require.Contains(t, fails(t, exitNotFound, "ls", "-s", dir, "/gone/long ago"), "(project -gone-long-ago)")
}

func TestProjects(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	add(t, dir, sessionstore.Key{ProjectKey: "only-subpaths", SessionID: "s", Subpath: "x"}, hello)
	out := ok(t, "projects", "-s", dir)
	require.Regexp(t, `(?m)^1 +\d{4}-\d\d-\d\d \d\d:\d\d +\d+s +-home-dev-subagents-proj$`, out)
	require.Regexp(t, `(?m)^0 +- +- +only-subpaths$`, out)
	out = ok(t, "projects", "-s", dir, "--json")
	require.Contains(t, out, `{"projectKey":"-home-dev-subagents-proj","sessions":1,"newestMtime":`)
	require.Contains(t, out, `{"projectKey":"only-subpaths","sessions":0}`)
	require.Equal(t, "no projects in mem:\n", cli(t, "projects", "-s", "mem:").stderr)
}

func TestSessionsByPrefix(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "abcd-1"), `{"type":"user","message":{"content":"one"}}`)
	add(t, dir, key("p", "abcd-2"), `{"type":"user","message":{"content":"two"}}`)
	add(t, dir, key("p", "abcd"), `{"type":"user","message":{"content":"whole"}}`)
	add(t, dir, key("q", "abcd-1"), `{"type":"user","message":{"content":"other project"}}`)
	add(t, dir, key("q", "short"), `{"type":"user","message":{"content":"short"}}`)

	show := func(args ...string) string { return ok(t, append([]string{"show", "-s", dir}, args...)...) }
	require.Contains(t, show("abcd"), "whole", "the whole id of one session is no prefix of others")
	require.Contains(t, show("abcd-2"), "two")
	require.Contains(t, show("q/abcd-1"), "other project")
	require.Contains(t, show("q/abcd"), "other project")
	require.Contains(t, show("abcd-1", "--project", "p"), "one")
	require.Contains(t, show("shor"), "short")

	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, "sho"), "give at least 4 characters")
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, "abcd-1"),
		"abcd-1 is ambiguous: p/abcd-1, q/abcd-1; give one of these, or --project")
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, "abcd-"), "p/abcd-1, p/abcd-2, q/abcd-1")
	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, "nobody"), "lists them")
}

func TestSubpaths(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	sub := "subagents/agent-a54a7a95de8336d08"
	want := ok(t, "show", "-s", dir, recordedKey+"/"+recordedID+"#"+sub)
	require.Contains(t, want, "Do part two.")
	for _, name := range []string{sub, "agent-a54a7a95de8336d08", "agent-a5", "a54a"} {
		require.Equal(t, want, ok(t, "show", "-s", dir, recordedID, "--subpath", name), name)
	}
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, recordedID, "--subpath", "agent-a"), "agent-a is ambiguous: subagents/agent-a54a")
	require.Contains(t, fails(t, exitNotFound, "show", "-s", dir, recordedID, "--subpath", "x"), "has no transcript x")
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, recordedID+"#x", "--subpath", "y"), "so does --subpath")
}

func TestSessionOfSubpathsOnly(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: "lonely", Subpath: "a/b"}, hello)
	fails(t, exitNotFound, "show", "-s", dir, "lone")
	require.Contains(t, ok(t, "show", "-s", dir, "lonely"), "a/b")
	require.Contains(t, ok(t, "show", "-s", dir, "p/lonely"), "a/b")
	require.Contains(t, ok(t, "show", "-s", dir, "p/lonely#a/b"), "hello")
}

// Names that stores must keep apart come back from a listing as arguments.
func TestHostileNames(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	names := []string{
		"../../etc", "a/b#c", `quo"te`, "new\nline", "\x1b[2Jclear", "__sessions", "*", "{x}", "%2F",
		"part-1.jsonl", "x.jsonl", "-rf", "日本語", " ", ".",
	}
	for i, n := range names {
		k := sessionstore.Key{ProjectKey: n, SessionID: n}
		add(t, dir, k, `{"type":"user","message":{"content":"text `+strings.Repeat("x", i)+`."}}`)
		k.Subpath = "sub/" + strings.ReplaceAll(n, "/", "_") + "x"
		add(t, dir, k, `{"type":"user","message":{"content":"sub"}}`)
	}
	out := ok(t, "ls", "-s", dir, "--all")
	require.NotContains(t, out, "\x1b")
	require.Equal(t, len(names)+1, strings.Count(out, "\n"))
	for i, n := range names {
		k := sessionstore.Key{ProjectKey: n, SessionID: n}
		require.Contains(t, out, name(n))
		text := ok(t, "show", "-s", dir, k.String())
		require.Contains(t, text, "text "+strings.Repeat("x", i)+".")
		require.NotContains(t, text, "\x1b")
		k.Subpath = "sub/" + strings.ReplaceAll(n, "/", "_") + "x"
		require.Contains(t, ok(t, "show", "-s", dir, k.String()), "\n  sub\n")
	}
	require.Contains(t, ok(t, "projects", "-s", dir), `"new\nline"`)
}

func TestParseKey(t *testing.T) {
	for _, k := range []sessionstore.Key{
		{SessionID: "s"}, {ProjectKey: "p", SessionID: "s"}, {ProjectKey: "p/#\"q", SessionID: "s/#t", Subpath: "a b/c#d"},
		{ProjectKey: "p", SessionID: "s", Subpath: "subagents/agent-1"},
	} {
		text := k.String()
		if k.ProjectKey == "" {
			text = k.SessionID
		}
		got, err := parseKey(text)
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	_, err := parseKey(`"open`)
	require.Error(t, err)
}

func TestCompletion(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	complete := func(args ...string) string {
		r := cli(t, append([]string{"__complete"}, args...)...)
		require.Equal(t, exitOK, r.code)
		return r.stdout
	}
	require.Contains(t, complete("show", "-s", dir, ""), recordedID+"\t")
	require.Contains(t, complete("-s", "file:"+dir, "rm", ""), recordedID+"\t")
	require.Contains(t, complete("ls", "-s", dir, "-home"), recordedKey)
	require.Contains(t, complete("export", "-s", dir, "--project", "-home"), recordedKey)
	require.Contains(t, complete("copy", dir, "mem:", "--session", ""), recordedID)
	require.Contains(t, complete("import", "--from", dir, ""), recordedID)
	for _, cmd := range []string{"info", "subagents", "fork", "rename", "tag"} {
		require.Contains(t, complete(cmd, "-s", dir, ""), recordedID+"\t", cmd)
		require.NotContains(t, complete(cmd, "-s", dir, recordedID, ""), "\t", cmd)
		require.Contains(t, complete(cmd, "-s", dir, "--project", "-home"), recordedKey, cmd)
	}
	require.Contains(t, complete("ls", "-s", ""), "file:\tfile:DIR")
	require.NotContains(t, complete("show", "-s", "file:none", ""), "\t")
	require.Contains(t, complete("sh"), "show")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, ok(t, "completion", shell), "sessionstore")
	}
}

func TestProjectFlagThatContradictsTheArgument(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	for _, project := range []string{"p", "q"} {
		add(t, dir, key(project, uuid(1)), hello)
	}
	arg := "p/" + uuid(1)
	for _, args := range [][]string{{"show", arg}, {"info", arg}, {"subagents", arg}, {"export", arg, "-"}, {"rm", "--yes", arg},
		{"fork", arg}, {"rename", arg, "x"}, {"tag", arg, "x"}} {
		text := fails(t, exitUsage, append(args, "-s", dir, "-p", "q")...)
		require.Contains(t, text, arg+" names another project than --project q")
	}
	fails(t, exitUsage, "verify", dir, dir, "--project", "q", "--session", arg)
	require.Contains(t, ok(t, "show", "-s", dir, arg, "-p", "p"), "hello")
	require.Contains(t, ok(t, "info", "-s", dir, "q/"+uuid(1)), uuid(1))
}

func TestSessionsWithoutMainTranscriptAreFoundByTheirID(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), hello)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: uuid(2), Subpath: "subagents/agent-x"}, hello)
	require.Contains(t, ok(t, "show", "-s", dir, uuid(2)), "subagents/agent-x")
	require.Contains(t, ok(t, "show", "-s", dir, uuid(2)+"#agent-x"), "hello")
	require.Contains(t, ok(t, "info", "-s", dir, uuid(2), "--json"), `"projectKey":"p"`)
	require.Contains(t, ok(t, "subagents", "-s", dir, uuid(2), "--json"), `"agentId":"x"`)
	fails(t, exitNotFound, "show", "-s", dir, uuid(3))

	add(t, dir, sessionstore.Key{ProjectKey: "q", SessionID: uuid(2), Subpath: "subagents/agent-x"}, hello)
	add(t, dir, key("q", uuid(1)), hello)
	require.Contains(t, fails(t, exitUsage, "show", "-s", dir, uuid(2)), "is ambiguous")
}

func TestForkThatCannotPrintNamesTheNewSession(t *testing.T) {
	home(t)
	for _, more := range []string{"--quiet", "--json"} {
		dir := filepath.Join(t.TempDir(), "s")
		add(t, dir, key("p", uuid(1)), hello)
		var stderr bytes.Buffer
		a := newApp(strings.NewReader(""), fullDisk{}, &stderr)
		root := newRoot(a)
		root.SetArgs([]string{"fork", "-s", dir, uuid(1), more})
		require.Equal(t, exitFailure, a.finish(t.Context(), root.ExecuteContext(t.Context())))
		sessions, err := openStore(t, dir).ListSessions(t.Context(), "p")
		require.NoError(t, err)
		require.Len(t, sessions, 2)
		newID := sessions[0].SessionID
		if newID == uuid(1) {
			newID = sessions[1].SessionID
		}
		require.Contains(t, stderr.String(), "the new session is "+newID+"; write output: ")
	}
}
