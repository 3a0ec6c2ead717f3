package resume_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/recorded"
	"github.com/sessionstore/sessionstore/resume"
)

func TestASessionIsWrittenAsTheAgentHasIt(t *testing.T) {
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.NoError(t, err)
	require.True(t, s.Found)
	require.True(t, s.Private)
	require.Equal(t, mainKey, s.Key)
	require.Equal(t, []string{"--resume=" + id}, s.Args())
	require.Contains(t, s.Env(), "CLAUDE_CONFIG_DIR="+s.ConfigDir)
	require.Contains(t, s.Env(), "CLAUDE_CODE_PROJECT_DIR_NAME="+project)
	require.Equal(t, map[string]string{
		"projects/proj/" + id + ".jsonl":                                  lines(entry(1), entry(2)),
		"projects/proj/" + id + "/subagents/agent-1.jsonl":                lines(entry(3)),
		"projects/proj/" + id + "/subagents/agent-1.meta.json":            `{"agentType":"new","toolUseId":"t1","spawnDepth":1}`,
		"projects/proj/" + id + "/subagents/workflows/wf_1/agent-2.jsonl": lines(entry(4)),
	}, tree(t, s.ConfigDir))
	requireModes(t, s.ConfigDir)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

func requireModes(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		return err
	}))
}

// The recording is what an agent wrote: importing its files and writing them
// again gives the same files.
func TestImportAndMaterializeGiveTheAgentsOwnFiles(t *testing.T) {
	disk := filepath.Join("..", "testdata", "transcripts", "subagents", "disk")
	src, err := filestore.Open(disk, &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	defer src.Close()
	store := inmemory.New()
	_, err = sessionstore.Copy(t.Context(), store, src, recorded.Main(), nil)
	require.NoError(t, err)
	h := newHome(t)
	opts := h.options()
	opts.ProjectKey, opts.SessionID = recorded.ProjectKey, recorded.SessionID
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, onlySession(tree(t, disk)), tree(t, s.ProjectsDir()))
}

func onlySession(files map[string]string) map[string]string {
	for name := range files {
		if !strings.HasPrefix(name, recorded.ProjectKey+"/"+recorded.SessionID) {
			delete(files, name)
		}
	}
	return files
}

func TestWhatIsWrittenIsAFileStore(t *testing.T) {
	h := newHome(t)
	store := filled(t)
	put(t, store, sub("odd name.jsonl/x"), entry(9))
	s, err := resume.Materialize(t.Context(), store, h.options())
	require.NoError(t, err)
	defer s.Close()
	dir, err := filestore.Open(s.ProjectsDir(), &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	defer dir.Close()
	r, err := sessionstore.Verify(t.Context(), dir, store, mainKey, nil)
	require.NoError(t, err)
	require.True(t, r.Equal(), "%v", r.Differences)
	require.Equal(t, 4, r.Transcripts)
}

func TestContinueTakesTheNewestThatIsNoSidechain(t *testing.T) {
	const newer, sidechain = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
	store := filled(t)
	put(t, store, sessionstore.Key{ProjectKey: project, SessionID: newer}, entry(1))
	put(t, store, sessionstore.Key{ProjectKey: project, SessionID: sidechain}, sessionstore.Entry(`{"type":"user","isSidechain":true}`))
	h := newHome(t)
	opts := h.options()
	opts.SessionID, opts.Continue = "", true
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	require.Equal(t, newer, s.Key.SessionID)
	require.NoError(t, s.Close())

	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Found)
	require.Empty(t, s.Args(), "the agent starts a new session")
	require.NoError(t, s.Close())
	opts.ProjectKey = ""
	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Private)
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

// A directory makes its summaries when it is asked for them: to find one session
// it must not be asked for all.
func TestContinueInADirectoryReadsNoOtherSession(t *testing.T) {
	dir := t.TempDir()
	opened := map[string]bool{}
	fs, err := filestore.Open(dir, nil)
	require.NoError(t, err)
	defer fs.Close()
	for i := range 5 {
		put(t, fs, sessionstore.Key{ProjectKey: project, SessionID: "00000000-0000-4000-8000-00000000000" + string(rune('0'+i))}, entry(i))
	}
	store := countingDir{fs, opened}
	h := newHome(t)
	opts := h.options()
	opts.SessionID, opts.Continue = "", true
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	require.True(t, s.Found)
	require.Equal(t, map[string]bool{s.Key.SessionID: true}, opened)
	require.NoError(t, s.Close())
}

// countingDir notes which transcripts are read.
type countingDir struct {
	*filestore.Store
	opened map[string]bool
}

func (c countingDir) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	c.opened[key.SessionID] = true
	return c.Store.Stream(ctx, key)
}

func (c countingDir) ListSessionSummaries(ctx context.Context, p string) ([]sessionstore.SessionSummary, error) {
	c.opened["all"] = true
	return nil, errors.ErrUnsupported
}

func TestNothingToMaterialize(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.ProjectKey = "" // that of the directory
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Found)
	require.False(t, s.Private)
	require.Equal(t, []string{"--resume=" + id}, s.Args(), "the id is passed on")
	require.Equal(t, filepath.Join(h.dir, ".claude", "projects"), s.ProjectsDir())
	require.Equal(t, h.env, s.Env())
	h.requireNothingLeft()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
}

func TestFreshHasADirectoryOfItsOwn(t *testing.T) {
	h := newHome(t)
	h.write(".claude/settings.json", `{"model":"x"}`)
	opts := h.options()
	opts.SessionID, opts.Fresh = "", true
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Found)
	require.True(t, s.Private)
	require.Equal(t, map[string]string{"settings.json": `{"model":"x"}`}, tree(t, s.ConfigDir))
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

// An agent is told of another project key together with a config directory.
func TestAProjectKeyOfItsOwnNeedsAPrivateDirectory(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.SessionID = ""
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.True(t, s.Private)
	require.False(t, s.Found)
	require.Contains(t, s.Env(), "CLAUDE_CODE_PROJECT_DIR_NAME="+project)
	require.Empty(t, s.Args())
	require.NoError(t, s.Close())

	opts.ProjectKey = ""
	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Private)
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

func TestTheVariableOfTheProjectDirectory(t *testing.T) {
	named := func(s *resume.Session) (names []string) {
		for _, e := range s.Env() {
			if v, ok := strings.CutPrefix(e, "CLAUDE_CODE_PROJECT_DIR_NAME="); ok {
				names = append(names, v)
			}
		}
		return names
	}
	h := newHome(t)
	opts := h.options()
	opts.ProjectKey, opts.SessionID, opts.Fresh = "", "", true
	opts.Env = append(opts.Env, "CLAUDE_CODE_PROJECT_DIR_NAME=mine")
	s, err := resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.Empty(t, named(s), "it did not count, and must not count now")
	require.NotEqual(t, "mine", s.Key.ProjectKey)
	require.NoError(t, s.Close())

	opts.Env = append(opts.Env, "CLAUDE_CONFIG_DIR="+h.dir)
	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.Equal(t, "mine", s.Key.ProjectKey)
	require.Equal(t, []string{"mine"}, named(s))
	require.NoError(t, s.Close())

	opts.ProjectKey = "tenant"
	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.Equal(t, []string{"tenant"}, named(s))
	require.NoError(t, s.Close())

	opts.ProjectKey, opts.Fresh = "", false
	s, err = resume.Materialize(t.Context(), inmemory.New(), opts)
	require.NoError(t, err)
	require.False(t, s.Private)
	require.Equal(t, "mine", s.Key.ProjectKey)
	require.Equal(t, opts.Env, s.Env())
}

func TestHalvesOfASession(t *testing.T) {
	h := newHome(t)
	store := inmemory.New()
	put(t, store, sub("subagents/agent-1"), entry(1))
	s, err := resume.Materialize(t.Context(), store, h.options())
	require.NoError(t, err)
	require.False(t, s.Found, "without a main transcript there is nothing to resume")
	require.Empty(t, tree(t, s.ConfigDir))
	require.NoError(t, s.Close())
	h.requireNothingLeft()

	// The subagent came first; the main transcript follows.
	put(t, store, mainKey, entry(2))
	s, err = resume.Materialize(t.Context(), store, h.options())
	require.NoError(t, err)
	require.True(t, s.Found)
	require.Len(t, tree(t, s.ConfigDir), 2)
	require.NoError(t, s.Close())

	store = inmemory.New()
	put(t, store, mainKey, entry(2))
	s, err = resume.Materialize(t.Context(), store, h.options())
	require.NoError(t, err)
	require.Len(t, tree(t, s.ConfigDir), 1)
	require.NoError(t, s.Close())
}

func TestAStoreThatCannotListSubpathsRestoresTheMainTranscript(t *testing.T) {
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), onlyMain{filled(t)}, h.options())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"projects/proj/" + id + ".jsonl": lines(entry(1), entry(2))}, tree(t, s.ConfigDir))
	require.NoError(t, s.Close())
}

func TestASubpathThatIsListedAndGone(t *testing.T) {
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), &hooked{Store: filled(t), subpaths: []string{"gone", "subagents/agent-1", "subagents/agent-1"}}, h.options())
	require.NoError(t, err)
	require.Len(t, tree(t, s.ConfigDir), 3)
	require.NoError(t, s.Close())
}

func TestUnsafeSubpathsAreLeftOutAndReported(t *testing.T) {
	unsafe := []string{
		"", "../x", "/abs", `\\unc\share`, "C:foo", "c:/x", "a/./b", "a/../../../x", "a//b", "a/", "nul\x00byte", `a\..\b`, "..", ".",
		"bad\xff", strings.Repeat("x", 300),
	}
	h := newHome(t)
	store := filled(t)
	opts := h.options()
	var skipped []string
	opts.OnSkip = func(s resume.Skip) {
		require.ErrorIs(t, s.Err, sessionstore.ErrInvalidKey)
		require.NotEmpty(t, s.String())
		skipped = append(skipped, s.Subpath)
	}
	s, err := resume.Materialize(t.Context(), &hooked{Store: store, subpaths: append(slices.Clone(unsafe), "subagents/agent-1")}, opts)
	require.NoError(t, err)
	slices.Sort(unsafe)
	require.Equal(t, unsafe, skipped)
	require.Len(t, tree(t, s.ConfigDir), 3)
	all := tree(t, h.temp)
	require.Len(t, all, 3, "nothing lies anywhere else")
	require.NoError(t, s.Close())
	h.requireNothingLeft()
}

// A store of somebody else's gives out names while links to elsewhere appear in
// the directory: nothing is written through them.
func TestNothingIsWrittenThroughLinks(t *testing.T) {
	outside := t.TempDir()
	for name, link := range map[string]string{
		"directory": "subagents", "file": "subagents/agent-1.jsonl", "sidecar": "subagents/agent-1.meta.json", "inside": "x",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			store := &hooked{Store: filled(t), subpaths: []string{"subagents/agent-1"}}
			planted := false
			store.before = func(_ context.Context, what string) error {
				if what != "stream subagents/agent-1" {
					return nil
				}
				dirs, err := filepath.Glob(filepath.Join(h.temp, "*", "projects", project, id))
				require.NoError(t, err)
				require.Len(t, dirs, 1)
				path := filepath.Join(dirs[0], filepath.FromSlash(link))
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				target := outside
				if strings.Contains(link, ".") {
					target = filepath.Join(outside, "victim")
				}
				require.NoError(t, os.Symlink(target, path))
				planted = true
				return nil
			}
			s, err := resume.Materialize(t.Context(), store, h.options())
			require.True(t, planted)
			if err == nil {
				require.NoError(t, s.Close())
			}
			require.Empty(t, tree(t, outside))
			h.requireNothingLeft()
		})
	}
}

// What is there already stays as it is, and what would have replaced it is
// reported.
func TestNothingIsOverwritten(t *testing.T) {
	h := newHome(t)
	store := &hooked{Store: filled(t)}
	store.before = func(_ context.Context, what string) error {
		if what == "stream subagents/agent-1" {
			dirs, err := filepath.Glob(filepath.Join(h.temp, "*", "projects", project, id))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Join(dirs[0], "subagents"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dirs[0], "victim"), []byte("precious"), 0o600))
			require.NoError(t, os.Symlink("../victim", filepath.Join(dirs[0], "subagents", "agent-1.jsonl")))
		}
		return nil
	}
	opts := h.options()
	var skipped []resume.Skip
	opts.OnSkip = func(s resume.Skip) { skipped = append(skipped, s) }
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	require.Len(t, skipped, 1)
	require.Equal(t, "subagents/agent-1", skipped[0].Subpath)
	require.ErrorIs(t, skipped[0].Err, os.ErrExist)
	require.Equal(t, "precious", tree(t, s.ConfigDir)["projects/proj/"+id+"/victim"])
	require.NoError(t, s.Close())
}

func TestAnOutageIsAnErrorAndLeavesNothing(t *testing.T) {
	broken := errors.New("connection refused")
	for _, what := range []string{"stream ", "entry ", "list subkeys", "stream subagents/agent-1", "entry subagents/agent-1", "list sessions"} {
		t.Run(strings.TrimSpace(what), func(t *testing.T) {
			h := newHome(t)
			opts := h.options()
			if what == "list sessions" {
				opts.SessionID, opts.Continue = "", true
			}
			s, err := resume.Materialize(t.Context(), &hooked{Store: filled(t), before: func(_ context.Context, w string) error {
				if w == what {
					return broken
				}
				return nil
			}}, opts)
			require.ErrorIs(t, err, broken)
			op := (*sessionstore.OpError)(nil)
			require.ErrorAs(t, err, &op)
			require.Equal(t, "resume", op.Package)
			require.NotErrorIs(t, err, sessionstore.ErrNotFound)
			require.Nil(t, s)
			h.requireNothingLeft()
		})
	}
}

func TestGarbageFromTheStoreIsCorruption(t *testing.T) {
	for _, garbage := range []string{`[1]`, `{"a":`, "", "\xff"} {
		h := newHome(t)
		_, err := resume.Materialize(t.Context(), garbageStore{garbage}, h.options())
		require.ErrorIs(t, err, sessionstore.ErrCorrupt)
		h.requireNothingLeft()
	}
}

type garbageStore struct{ text string }

func (garbageStore) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error { return nil }
func (g garbageStore) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return entries(`{"type":"user"}`, g.text), nil
}

func TestAnEntryWithLineBreaksBecomesOneLine(t *testing.T) {
	h := newHome(t)
	s, err := resume.Materialize(t.Context(), garbageStore{"{\n\"a\":\r\n1}"}, h.options())
	require.NoError(t, err)
	require.Equal(t, "{\"type\":\"user\"}\n{\"a\":1}\n", tree(t, s.ProjectsDir())[project+"/"+id+".jsonl"])
	require.NoError(t, s.Close())
}

func TestAPanicInTheStoreIsAnError(t *testing.T) {
	for _, what := range []string{"stream ", "list subkeys", "entry subagents/agent-1"} {
		h := newHome(t)
		_, err := resume.Materialize(t.Context(), &hooked{Store: filled(t), before: func(_ context.Context, w string) error {
			if w == what {
				panic("ouch")
			}
			return nil
		}}, h.options())
		require.ErrorContains(t, err, "ouch")
		h.requireNothingLeft()
	}
}

func TestAPanicOfTheCallerLeavesNothing(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.OnSkip = func(resume.Skip) { panic("caller") }
	require.PanicsWithValue(t, "caller", func() {
		_, _ = resume.Materialize(t.Context(), &hooked{Store: filled(t), subpaths: []string{".."}}, opts)
	})
	h.requireNothingLeft()
}

func TestKeepOnMirrorLoss(t *testing.T) {
	h := newHome(t)
	h.write(".claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"a"}}`)
	opts := h.options()
	lost := false
	opts.KeepOnMirrorLoss = func() bool { return lost }
	s, err := resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	lost = true
	kept := (*resume.KeptError)(nil)
	require.ErrorAs(t, s.Close(), &kept)
	require.Equal(t, s.ConfigDir, kept.Dir)
	require.ErrorContains(t, kept, s.ConfigDir)
	require.Len(t, tree(t, kept.Dir), 4, "the transcripts are there, the credentials are not")
	lost = false
	require.ErrorAs(t, s.Close(), &kept, "what was kept stays kept")

	s, err = resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.ConfigDir)
}

func TestTheStoreOfAnOddProjectKey(t *testing.T) {
	h := newHome(t)
	store := inmemory.New()
	opts := h.options()
	opts.ProjectKey = "tenant:42/é"
	key := sessionstore.Key{ProjectKey: opts.ProjectKey, SessionID: id}
	put(t, store, key, entry(1))
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	defer s.Close()
	var name string
	for _, e := range s.Env() {
		if v, ok := strings.CutPrefix(e, "CLAUDE_CODE_PROJECT_DIR_NAME="); ok {
			name = v
		}
	}
	require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, name)
	require.FileExists(t, filepath.Join(s.ProjectsDir(), name, id+".jsonl"))

	mirrored := s.Store(store)
	put(t, mirrored, sessionstore.Key{ProjectKey: name, SessionID: id}, entry(2))
	put(t, mirrored, sessionstore.Key{ProjectKey: "other", SessionID: id}, entry(3))
	got, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, []sessionstore.Entry{entry(1), entry(2)}, got)
	got, err = mirrored.Load(t.Context(), sessionstore.Key{ProjectKey: name, SessionID: id})
	require.NoError(t, err)
	require.Len(t, got, 2)
}

func TestTheKeyOfTheDirectoryNeedsNoVariable(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.Dir = filepath.Join(h.dir, strings.Repeat("long", 40))
	require.NoError(t, os.Mkdir(opts.Dir, 0o700))
	own, err := sessionstore.ProjectKey(opts.Dir)
	require.NoError(t, err)
	opts.ProjectKey = ""
	store := inmemory.New()
	put(t, store, sessionstore.Key{ProjectKey: own, SessionID: id}, entry(1))
	s, err := resume.Materialize(t.Context(), store, opts)
	require.NoError(t, err)
	defer s.Close()
	require.FileExists(t, filepath.Join(s.ProjectsDir(), own, id+".jsonl"))
	require.False(t, slices.ContainsFunc(s.Env(), func(e string) bool { return strings.HasPrefix(e, "CLAUDE_CODE_PROJECT_DIR_NAME=") }))
	require.Equal(t, sessionstore.SessionStore(store), s.Store(store))
}
