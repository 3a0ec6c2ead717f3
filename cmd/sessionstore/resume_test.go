package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/resume"
)

// machine gives the test a home and a directory for temporary files.
func machine(t *testing.T) (temp string) {
	t.Helper()
	home(t)
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp)
	return temp
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// agentCommand is the stand-in as a command line.
func agentCommand(t *testing.T, prompt string) []string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	message := `{"type":"user","message":{"role":"user","content":"` + prompt + `"}}`
	script := `echo '` + message + `' | ` + demoRole + `=` + roleAgent + ` STANDIN_INTERVAL=0s "$0" "$@"`
	return []string{"sh", "-c", script, program, "--resume={}"}
}

func TestResumeRunsACommandAndSavesWhatItWrites(t *testing.T) {
	temp := machine(t)
	dir := filepath.Join(t.TempDir(), "store")
	add(t, dir, key("some-project", uuid(1)), chain("one", "two", "three", "four")...)
	r := cli(t, append([]string{"resume", "-s", "file:" + dir, uuid(1), "--"}, agentCommand(t, "tool or not")...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "added to file:"+dir)
	require.NotContains(t, r.stdout, "transcript_mirror", "it was not asked for")
	text, err := os.ReadFile(filepath.Join(dir, "some-project", uuid(1)+".jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(text), "tool or not")
	require.Contains(t, string(text), `"parentUuid":"`+uuid(3)+`"`, "it goes on where the session ended")
	requireEmpty(t, temp)

	r = cli(t, append([]string{"resume", "-q", "-s", "file:" + dir, "--continue", "--project", "some-project", "--"}, agentCommand(t, "more")...)...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	text, err = os.ReadFile(filepath.Join(dir, "some-project", uuid(1)+".jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(text), `Answer to \"more\"`)
	requireEmpty(t, temp)
}

func TestResumePrintsWhatAnAgentNeeds(t *testing.T) {
	machine(t)
	dir := recordedDir(t)
	r := cli(t, "resume", "-s", dir, recordedID[:8])
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^export CLAUDE_CONFIG_DIR=\S+\nexport CLAUDE_CODE_PROJECT_DIR_NAME=`+recordedKey+`\n# claude --resume=`+recordedID+`\n$`, r.stdout)
	require.Contains(t, r.stderr, "watch --once --to file:"+dir)

	var got resumeJSON
	require.NoError(t, json.Unmarshal([]byte(ok(t, "resume", "-q", "--json", "-s", dir, recordedID)), &got))
	require.Equal(t, recordedID, got.SessionID)
	require.Equal(t, got.ConfigDir, got.Env["CLAUDE_CONFIG_DIR"])
	require.Equal(t, []string{"--resume=" + recordedID}, got.Args)
	require.FileExists(t, filepath.Join(got.ConfigDir, "projects", recordedKey, recordedID+".jsonl"))
	require.Contains(t, ok(t, "verify", filepath.Join(got.ConfigDir, "projects"), dir), "equal: 8 transcripts")
}

func TestResumeTakesTheNewestPlace(t *testing.T) {
	machine(t)
	dir := filepath.Join(t.TempDir(), "store")
	for i, project := range []string{"a", "b", "c"} {
		add(t, dir, key(project, uuid(1)), hello)
		setTime(t, dir, project, uuid(1), time.Unix([]int64{1, 3, 2}[i], 0))
	}
	r := cli(t, "resume", "--json", "-s", dir, uuid(1))
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `"projectKey":"b"`)
	require.Contains(t, r.stderr, "under 3 project keys; taking the newest one, b")
	require.Contains(t, ok(t, "resume", "-q", "--json", "-s", dir, "--project", "c", uuid(1)), `"projectKey":"c"`)
}

func TestResumeOfWhatIsNotThere(t *testing.T) {
	temp := machine(t)
	dir := filepath.Join(t.TempDir(), "store")
	add(t, dir, key("p", "no-uuid"), hello)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: uuid(7), Subpath: "a"}, hello)
	fails(t, exitNotFound, "resume", "-s", dir, uuid(2))
	fails(t, exitNotFound, "resume", "-s", dir, uuid(7))
	fails(t, exitNotFound, "resume", "-s", dir, "--continue", "--project", "p")
	require.Contains(t, fails(t, exitUsage, "resume", "-s", dir, "no-uuid"), "not a UUID")
	fails(t, exitUsage, "resume", "-s", dir)
	fails(t, exitUsage, "resume", "-s", dir, uuid(2), "--")
	fails(t, exitUsage, "resume", "-s", dir, "--continue", uuid(2))
	require.Contains(t, fails(t, exitUsage, "resume", uuid(2), "--", "true"), "--store")
	requireEmpty(t, temp)
}

func TestResumePassesTheExitCodeOn(t *testing.T) {
	temp := machine(t)
	dir := recordedDir(t)
	r := cli(t, append([]string{"resume", "-s", "file:" + dir, recordedID, "--"}, agentCommand(t, "exit")...)...)
	require.Equal(t, 7, r.code)
	r = cli(t, "resume", "-s", "file:"+dir, recordedID, "--", filepath.Join(temp, "missing"))
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "no such file")
	requireEmpty(t, temp)
}

func TestResumeKeepsTheDirectoryWhenTheSessionCannotBeSaved(t *testing.T) {
	temp := machine(t)
	h, _ := os.UserHomeDir()
	require.NoError(t, os.MkdirAll(filepath.Join(h, ".claude"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h, ".claude", ".credentials.json"), []byte(`{"a":1}`), 0o600))
	dir := filepath.Join(t.TempDir(), "store")
	add(t, dir, key("p", uuid(1)), hello)
	// The store goes away meanwhile.
	script := `rm -r ` + dir + `
		test -f "$CLAUDE_CONFIG_DIR/.credentials.json" || exit 9
		echo '{"type":"user","uuid":"ours"}' >> "$CLAUDE_CONFIG_DIR/projects/p/$0.jsonl"`
	r := cli(t, "resume", "-s", "file:"+dir, uuid(1), "--", "sh", "-c", script, "{}")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.stderr, "deleted")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.True(t, strings.HasPrefix(left[0].Name(), resume.DirPrefix))
	kept := filepath.Join(temp, left[0].Name())
	require.Contains(t, r.stderr, kept)
	require.NoFileExists(t, filepath.Join(kept, ".credentials.json"))
	text, err := os.ReadFile(filepath.Join(kept, "projects", "p", uuid(1)+".jsonl"))
	require.NoError(t, err)
	require.True(t, bytes.Contains(text, []byte("ours")))
}

// Nothing is lost when somebody else goes on with the session meanwhile.
func TestResumeAddsBehindWhatOthersHaveAdded(t *testing.T) {
	temp := machine(t)
	dir := filepath.Join(t.TempDir(), "store")
	add(t, dir, key("p", uuid(1)), hello)
	file := filepath.Join(dir, "p", uuid(1)+".jsonl")
	script := `echo '{"type":"user","uuid":"other"}' >> ` + file + `
		echo '{"type":"user","uuid":"ours"}' >> "$CLAUDE_CONFIG_DIR/projects/p/$0.jsonl"`
	r := cli(t, "resume", "-s", "file:"+dir, uuid(1), "--", "sh", "-c", script, "{}")
	require.Equal(t, exitOK, r.code, r.stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, hello+"\n"+`{"type":"user","uuid":"other"}`+"\n"+`{"type":"user","uuid":"ours"}`+"\n", string(text))
	requireEmpty(t, temp)
}

func TestResumeKeep(t *testing.T) {
	temp := machine(t)
	dir := recordedDir(t)
	r := cli(t, "resume", "--keep", "-s", "file:"+dir, recordedID, "--", "true")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "kept "+temp)
}
