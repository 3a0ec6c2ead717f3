package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCopyVerifyRoundTrip(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	add(t, dir, key("other", "session-2"), hello)
	to := filepath.Join(t.TempDir(), "new", "dir")

	require.Equal(t, "would add 170 entries (806 kB) to file:"+to+": 2 sessions, 9 transcripts\n",
		ok(t, "copy", dir, "file:"+to, "--dry-run"))
	require.NoDirExists(t, to)
	require.Equal(t, "added 170 entries (806 kB) to file:"+to+": 2 sessions, 9 transcripts\n", ok(t, "copy", dir, "file:"+to))
	require.Equal(t, "equal: 9 transcripts, 170 entries\n", ok(t, "verify", dir, to))
	require.Equal(t, "added 0 entries (0 B) to file:"+to+": 2 sessions, 9 transcripts, 9 unchanged\n", ok(t, "copy", dir, to))
	require.Equal(t, `{"sessions":2,"transcripts":9,"unchanged":9,"entries":0,"bytes":0,"dryRun":true,"mainOnly":false,"diverged":[],"skippedLines":0}`+"\n",
		ok(t, "copy", dir, to, "--dry-run", "--json"))
	require.Equal(t, `{"equal":true,"transcripts":9,"entries":170,"differences":0,"mainOnly":false,"skippedLines":0}`+"\n",
		ok(t, "verify", dir, to, "--json"))
	require.Equal(t, files(t, dir), files(t, to), "byte for byte")

	require.Equal(t, "nothing to copy\n", ok(t, "copy", "mem:", "mem:"))
	for _, nested := range []string{"file:" + dir + "/p/new", dir + "/p/../p", filepath.Dir(dir), "file:" + dir + "/new?fsync=true"} {
		require.Contains(t, fails(t, exitUsage, "copy", dir, nested), "lies inside the other", nested)
	}
	require.NoDirExists(t, filepath.Join(dir, "p", "new"))
	require.Contains(t, fails(t, exitUsage, "copy", dir, dir+"/."), "are the same directory")
	fails(t, exitNotFound, "copy", dir, "mem:", "--session", "nobody")
}

func TestCopyScopes(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	add(t, dir, key("other", "session-2"), hello)
	to := filepath.Join(t.TempDir(), "to")
	require.Contains(t, ok(t, "copy", dir, "file:"+to, "--project", "other"), "added 1 entry (71 B)")
	require.NoDirExists(t, filepath.Join(to, recordedKey))
	require.Contains(t, ok(t, "verify", dir, to, "--session", "session-2"), "equal: 1 transcript, 1 entry")
	require.Contains(t, ok(t, "copy", dir, "file:"+to, "--session", recordedID+"#subagents/agent-a54a7a95de8336d08"), "added 16 entries")
	require.Contains(t, ok(t, "copy", dir, "file:"+to, "--session", recordedID[:6]), "8 transcripts, 1 unchanged")
	require.Contains(t, ok(t, "verify", dir, to), "equal")
}

func TestVerifyListsDifferences(t *testing.T) {
	home(t)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, dir := range []string{a, b} {
		add(t, dir, key("p", "same"), hello)
		add(t, dir, key("p", "diff"), hello)
	}
	add(t, a, key("p", "diff"), `{"type":"x","n":1}`)
	add(t, b, key("p", "diff"), `{"type":"x","n":2}`)
	add(t, b, key("p", "extra"), hello)

	r := cli(t, "verify", a, b)
	require.Equal(t, exitFailure, r.code)
	require.Empty(t, r.stderr)
	require.Equal(t, "p/diff: entry 2: the stores hold different entries\n"+
		"p/extra: missing in the first store\n2 of 3 transcripts differ\n", r.stdout)
	require.Contains(t, cli(t, "verify", b, a).stdout, "p/extra: missing in the second store\n")

	r = cli(t, "verify", a, b, "--json")
	require.Equal(t, exitFailure, r.code)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, `{"projectKey":"p","sessionId":"diff","entry":2,"reason":"the stores hold different entries"}`, lines[0])
	for _, l := range lines {
		require.True(t, json.Valid([]byte(l)))
	}
	require.Equal(t, `{"projectKey":"p","sessionId":"extra","entry":1,"reason":"missing in the first store"}`, lines[1])
	require.Contains(t, lines[2], `"equal":false`)
	require.Equal(t, exitFailure, cli(t, "verify", a, b, "--session", "extra").code)
	require.Equal(t, exitOK, cli(t, "verify", a, b, "--session", "same").code)
	fails(t, exitNotFound, "verify", a, b, "--session", "nobody")
}

func TestDivergedCopiesChangeNothing(t *testing.T) {
	home(t)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	add(t, a, key("p", "diff"), `{"type":"x","n":1}`)
	add(t, b, key("p", "diff"), `{"type":"x","n":2}`)
	add(t, a, key("p", "good"), hello)
	before := files(t, b)
	text := fails(t, exitFailure, "copy", a, b)
	require.Contains(t, text, "p/diff: entry 1")
	require.Contains(t, text, "--skip-diverged leaves such sessions out")
	require.Equal(t, before, files(t, b))

	out := ok(t, "copy", a, b, "--skip-diverged")
	require.Equal(t, 1, strings.Count(out, "diverged, left out: p/diff: entry 1"), "said once")
	require.Contains(t, out, "added 1 entry")
	require.FileExists(t, filepath.Join(b, "p", "good.jsonl"))
	require.Contains(t, ok(t, "copy", a, b, "--skip-diverged", "--json"), `"diverged":[{"projectKey":"p","sessionId":"diff",`)

	r := cli(t, "copy", a, b, "--json")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stdout, `"diverged":[{"projectKey":"p","sessionId":"diff","entry":1,"reason":"`)
}

func TestImport(t *testing.T) {
	h := home(t)
	own := filepath.Join(h, ".claude", "projects")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.CopyFS(own, os.DirFS(recordedDir(t))))
	work := filepath.Join(h, "work")
	require.NoError(t, os.Mkdir(work, 0o700))
	add(t, own, key(strings.NewReplacer("/", "-", "_", "-").Replace(work), "work-session"), hello)
	before := files(t, own)
	to := func(name string) string { return "file:" + filepath.Join(h, name) }

	require.Contains(t, ok(t, "import", "--to", to("all")), "2 sessions, 9 transcripts")
	require.Contains(t, ok(t, "import", own, "--to", to("dir")), "2 sessions")
	require.Contains(t, ok(t, "import", "file:~/.claude/projects", "--to", to("url")), "2 sessions")
	require.Contains(t, ok(t, "import", recordedKey, "--to", to("project")), "1 session, 8 transcripts")
	require.Contains(t, ok(t, "import", "work-ses", "--to", to("session")), "1 session, 1 transcript")
	require.Contains(t, ok(t, "import", own, recordedID, "--to", to("both")), "1 session, 8 transcripts")
	require.Contains(t, ok(t, "import", "--from", own, work, "--to", to("of-work")), "1 session, 1 transcript")
	t.Setenv("SESSIONSTORE_URL", to("env"))
	require.Contains(t, ok(t, "import"), "2 sessions")
	require.Contains(t, ok(t, "verify", "~/.claude/projects", to("env")), "equal: 9 transcripts")
	require.Equal(t, before, files(t, own), "the source is only read")

	require.Contains(t, fails(t, exitNotFound, "import", work, "--to", to("none")), "a source holds a directory per project")
	require.Contains(t, fails(t, exitNotFound, "import", "--from", own, "/gone", "--to", to("none")), "(project -gone)")
	require.Contains(t, fails(t, exitNotFound, "import", "nobody", "--to", to("none")), "no session nobody")
	require.Contains(t, fails(t, exitNotFound, "import", "./nodir", "--to", to("none")), "no directory ./nodir; if ./nodir is the directory of a project, name the source with --from")
	require.NoDirExists(t, filepath.Join(h, "none"))
}

func TestExportThenImportGivesTheSame(t *testing.T) {
	home(t)
	dir, out, back := recordedDir(t), filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "back")
	require.Contains(t, ok(t, "export", "-s", dir, recordedID[:8], out), "added 169 entries (806 kB)")
	require.Equal(t, files(t, filepath.Join(dir, recordedKey)), files(t, filepath.Join(out, recordedKey)))
	require.Contains(t, ok(t, "import", out, "--to", "file:"+back), "added 169 entries")
	require.Equal(t, "equal: 8 transcripts, 169 entries\n", ok(t, "verify", dir, back))
	require.Contains(t, ok(t, "export", "-s", dir, recordedID, out), "8 unchanged")

	one := filepath.Join(t.TempDir(), "one")
	require.Contains(t, ok(t, "export", "-s", dir, recordedID, one, "--subpath", "agent-a54a"), "1 transcript")
	lines := ok(t, "export", "-s", dir, recordedID, "-", "--subpath", "agent-a54a")
	require.Equal(t, 16, strings.Count(lines, "\n"))
	require.Contains(t, fails(t, exitUsage, "export", "-s", dir, recordedID, "s3://bucket"), "use copy --session")
}
