package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

func TestWatchOnceBringsAStoreUpToDate(t *testing.T) {
	home(t)
	from, to := recordedDir(t), "file:"+filepath.Join(t.TempDir(), "to")
	r := cli(t, "watch", from, "--to", to, "--once")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^stored 169 entries \(.* kB\) of 8 transcripts in file:`, r.stdout)
	require.Contains(t, r.stderr, "watching "+from+" for "+to+"\n")
	require.Contains(t, r.stderr, recordedKey+"/"+recordedID+": stored 60 entries (")
	ok(t, "verify", from, to)
	require.Contains(t, ok(t, "watch", from, "--to", to, "--once", "--quiet"), "stored 0 entries")
	require.Equal(t, `{"transcripts":8,"batches":0,"entries":0,"bytes":0,"notMirrored":0,"skipped":0,"failures":0}`+"\n",
		ok(t, "watch", from, "-s", to, "--once", "-q", "--json"))

	add(t, from, sessionstore.Key{ProjectKey: "p", SessionID: "s"}, `{"type":"user","uuid":"a"}`)
	r = cli(t, "watch", from, "--to", to, "--once", "--json", "-q")
	require.Contains(t, r.stdout, `{"projectKey":"p","sessionId":"s","entries":1,"bytes":26,"catchUp":true}`+"\n")
}

func TestWatchFollowsUntilItIsStopped(t *testing.T) {
	home(t)
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan result)
	go func() {
		done <- cliWith(ctx, "", "watch", filepath.Join(dir, "projects"), "--to", "file:"+to, "--interval", "5ms")
	}()
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	add(t, filepath.Join(dir, "projects"), key, `{"type":"user","uuid":"a"}`)
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(to, "p", "s.jsonl"))
		return len(text) > 0
	}, time.Minute, 5*time.Millisecond)
	add(t, filepath.Join(dir, "projects"), key, `{"type":"user","uuid":"b"}`)
	cancel()
	r := <-done
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "stored 2 entries (52 B) of 1 transcript in file:")
	require.Contains(t, r.stderr, "p/s: stored 1 entry (26 B)\n")
}

func TestWatchRefusesWhatCannotWork(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	require.Contains(t, fails(t, exitUsage, "watch", dir), "where to?")
	require.Contains(t, fails(t, exitNotFound, "watch", dir+"/no", "--to", "mem:", "--once"), "no directory")
	require.Contains(t, fails(t, exitUsage, "watch", dir, "--to", "mem:", "--interval", "0s"), "longer than nothing")
	require.Contains(t, fails(t, exitUsage, "watch", dir, "--to", "mem:", "--max-age", "old"), "such as 30d")
	require.Contains(t, fails(t, exitUsage, "watch", dir, "--to", "file:"+dir+"/inside"), "inside the other")
	require.Contains(t, fails(t, exitUsage, "watch", filepath.Join(dir, recordedKey, recordedID+".jsonl"), "--to", "mem:"), "not a directory")
	r := cli(t, "watch", "--to", "mem:", "--once")
	require.Equal(t, exitNotFound, r.code)
	require.Contains(t, r.stderr, ".claude/projects")
}

func TestWatchNamesWhatItPassesOver(t *testing.T) {
	home(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "p"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p", "s.jsonl"), []byte("{}\nnull\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.jsonl"), nil, 0o600))
	r := cli(t, "watch", dir, "--to", "mem:", "--once")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stderr, "warning: passed over p/s.jsonl line 2: not a JSON object")
	require.Contains(t, r.stderr, "warning: passed over s.jsonl: ")
}

type downStore struct{ sessionstore.SessionStore }

func (downStore) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error {
	return errors.New("down")
}

// spillDir holds what a mirror kept while its store was away.
func spillDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spill")
	m, err := mirror.New(downStore{inmemory.New()}, "/config/projects", &mirror.Options{Spill: dir, Attempts: 1})
	require.NoError(t, err)
	for _, name := range []string{"s", "s2"} {
		entries := []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"a"}`), sessionstore.Entry(`{"type":"mode"}`)}
		require.NoError(t, m.Frame("/config/projects/p/"+name+".jsonl", entries))
	}
	require.Error(t, m.Close(t.Context()))
	return dir
}

func TestReplayDeliversWhatAMirrorKept(t *testing.T) {
	home(t)
	dir, to := spillDir(t), filepath.Join(t.TempDir(), "to")
	require.Equal(t, "would store 4 entries of 2 transcripts, 0 were there already\n", ok(t, "replay", dir, "--to", "file:"+to, "--dry-run"))
	require.NoDirExists(t, to)
	add(t, to, sessionstore.Key{ProjectKey: "p", SessionID: "s2"}, `{"type":"user","uuid":"a"}`, `{"type":"mode"}`)
	out := ok(t, "replay", dir, "--to", to, "--json")
	require.Contains(t, out, `{"projectKey":"p","sessionId":"s","batches":1,"entries":2,"already":0,"left":0}`+"\n")
	require.Contains(t, out, `{"projectKey":"p","sessionId":"s2","batches":1,"entries":0,"already":2,"left":0}`+"\n")
	require.Equal(t, "stored 0 entries of 0 transcripts, 0 were there already\n", ok(t, "replay", dir, "--to", to))
}

func TestReplayNamesWhatItCannotDeliver(t *testing.T) {
	home(t)
	dir := spillDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], []byte("{}\n"), 0o600))
	r := cli(t, "replay", dir, "--to", "mem:")
	require.Equal(t, exitFailure, r.code)
	require.Equal(t, "stored 2 entries of 2 transcripts, 0 were there already\n", r.stdout)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	require.Contains(t, r.stderr, "1 file left")
	require.Contains(t, fails(t, exitNotFound, "replay", dir+"x", "--to", "mem:"), "no directory")
	require.Contains(t, fails(t, exitUsage, "replay", dir), "where to?")
}

// The name of the project's directory in a private directory is not the key.
func TestWatchOfAPrivateDirectoryKnowsTheTenant(t *testing.T) {
	home(t)
	to := "file:" + filepath.Join(t.TempDir(), "to")
	id, tenant := "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e", "tenant:42"
	private := func(release bool) *resume.Session {
		store := inmemory.New()
		key := sessionstore.Key{ProjectKey: tenant, SessionID: id}
		require.NoError(t, store.Append(t.Context(), key, []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"a"}`)}))
		s, err := resume.Materialize(t.Context(), store, resume.Options{SessionID: id, ProjectKey: tenant, TempDir: t.TempDir()})
		require.NoError(t, err)
		if release {
			s.Release()
		}
		return s
	}
	left := private(true)
	r := cli(t, "watch", left.ProjectsDir(), "--to", to, "--once", "--json")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `{"projectKey":"tenant:42","sessionId":"`+id+`","entries":1,`)
	require.Contains(t, r.stderr, tenant)
	require.Contains(t, ok(t, "watch", left.ProjectsDir(), "--to", to, "--once", "-q"), "stored 0 entries")

	require.NoError(t, os.Chmod(left.ConfigDir, 0o755))
	require.Contains(t, fails(t, exitFailure, "watch", left.ProjectsDir(), "--to", to, "--once"), "open to other users")
	live := private(false)
	defer live.Close()
	require.Contains(t, fails(t, exitUsage, "watch", live.ProjectsDir(), "--to", to, "--once"), "in use")
}
