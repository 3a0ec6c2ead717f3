package mirror_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

// write adds text to a file of a projects directory.
func write(t testing.TB, text string, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return name
}

func lines(list ...sessionstore.Entry) string { return strings.Join(texts(list), "\n") + "\n" }

func once(t testing.TB, dir string, store sessionstore.SessionStore) mirror.WatchReport {
	t.Helper()
	report, err := mirror.Watch(context.Background(), dir, store, &mirror.WatchOptions{Once: true})
	require.NoError(t, err)
	return report
}

const (
	mainFile = project + "/" + session + ".jsonl"
	subFile  = project + "/" + session + "/subagents/agent-1a2b.jsonl"
	subMeta  = project + "/" + session + "/subagents/agent-1a2b.meta.json"
)

// Watching the recorded agents' directories stores what their frames store.
func TestRecordedDirectoriesGiveTheRecordedTranscripts(t *testing.T) {
	for _, name := range recordingNames {
		t.Run(name, func(t *testing.T) {
			s := newFake()
			dir := filepath.Join(recordings, name, "disk")
			report := once(t, dir, s)
			require.Positive(t, report.NotMirrored)
			require.Zero(t, report.Skipped)
			appends := recordedAppends(t, name)
			require.Len(t, appends, report.Transcripts)
			for key, want := range appends {
				got := load(t, s, key)
				if name == "compact-manual" {
					want = want[:len(got)] // the last turn was made elsewhere
				}
				requireSameButMetadata(t, want, got)
			}
			calls := s.count()
			require.Zero(t, once(t, dir, s).Batches, "a second run finds nothing to do")
			require.Equal(t, calls, s.count())

			// Nor does it after the frames were mirrored.
			other := newFake()
			for key, want := range appends {
				var list []sessionstore.Entry
				for _, e := range want {
					list = append(list, sessionstore.Entry(e))
				}
				require.NoError(t, other.Append(t.Context(), key, list))
			}
			require.Zero(t, once(t, dir, other).Batches)
		})
	}
}

// requireSameButMetadata compares metadata entries by the last one, which is
// all that files keep.
func requireSameButMetadata(t *testing.T, want, got []string) {
	t.Helper()
	split := func(list []string) (rest []string, last sessionstore.Entry) {
		for _, text := range list {
			if e := sessionstore.Entry(text); e.Type() == sessionstore.MetadataType {
				last = e
			} else {
				rest = append(rest, text)
			}
		}
		return rest, last
	}
	wantRest, wantLast := split(want)
	gotRest, gotLast := split(got)
	require.True(t, wantLast.Equal(gotLast), "%s %s", wantLast, gotLast)
	require.True(t, slices.EqualFunc(wantRest, gotRest, func(a, b string) bool { return sessionstore.Entry(a).Equal(sessionstore.Entry(b)) }))
}

func TestCatchUpAppendsWhatIsMissing(t *testing.T) {
	all := entries(user("a"), mode("m"), mode("m"), user("b"), mode("m"), user("c"), mode("n"))
	title := sessionstore.Entry(`{"type":"custom-title","uuid":"t","customTitle":"set in the store"}`)
	for name, stored := range map[string][]sessionstore.Entry{
		"nothing":        nil,
		"a beginning":    all[:3],
		"all":            all,
		"and a title":    append(entries(), append(all[:5:5], title)...),
		"other spelling": entries(sessionstore.Entry(`{"uuid":"\u0061","type":"user"}`), sessionstore.Entry(`{"mode":"\u006d", "type":"mode"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, lines(all...), dir, mainFile)
			s := newFake()
			require.NoError(t, s.Append(t.Context(), mainKey, stored))
			report := once(t, dir, s)
			got := load(t, s, mainKey)
			missing := len(all) - len(slices.DeleteFunc(slices.Clone(stored), func(e sessionstore.Entry) bool { return e.UUID() == "t" }))
			require.EqualValues(t, missing, report.Entries)
			require.Equal(t, texts(slices.Concat(stored, all[len(all)-missing:])), got)
		})
	}
	t.Run("a gap", func(t *testing.T) {
		dir := t.TempDir()
		write(t, lines(all...), dir, mainFile)
		s := newFake()
		require.NoError(t, s.Append(t.Context(), mainKey, slices.Concat(all[:2], all[5:])))
		once(t, dir, s)
		require.ElementsMatch(t, texts(all), load(t, s, mainKey), "nothing is lost or repeated")
	})
}

func TestWatchSkipsWhatIsNeverMirroredAndWhatIsNoEntry(t *testing.T) {
	dir := t.TempDir()
	write(t, lines(user("a"), sessionstore.Entry(`{"type":"api-request","x":1}`), sessionstore.Entry(`{"type":"api-request-blob"}`))+
		`{"type":"pr-link","prNu{"type":"user"}`+"\n"+strings.Repeat("\x00", 300)+"\n\nnull\n"+lines(user("b"))+string(user("c"))+strings.Repeat("\x00", 9000), dir, mainFile)
	write(t, lines(user("j")), dir, project, session, "subagents/workflows/wf_1/journal.jsonl")
	write(t, lines(user("w")), dir, project, session, "subagents/workflows/wf_1/agent-1.jsonl")
	write(t, lines(user("x")), dir, project, session, "three.jsonl")
	write(t, lines(user("x")), dir, "one.jsonl")
	write(t, "text", dir, project, "notes.txt")
	write(t, lines(user("x")), dir, ".private", "s.jsonl")
	deep := project + "/" + session + strings.Repeat("/d", 15) // deeper than agents go
	write(t, lines(user("x")), dir, deep, "s.jsonl")
	write(t, "", dir, project, session, "subagents/agent-1.meta.json")
	outside := write(t, lines(user("x")), t.TempDir(), "secret.jsonl")
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, project, "link.jsonl")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, project, session, "round")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, project, "dir.jsonl"), 0o700))
	s := newFake()
	var skips []string
	report, err := mirror.Watch(t.Context(), dir, s, &mirror.WatchOptions{Once: true, OnSkip: func(sk mirror.WatchSkip) {
		require.Error(t, sk.Err)
		skips = append(skips, fmt.Sprintf("%s:%d", sk.Path, sk.Line))
	}})
	require.NoError(t, err)
	require.Equal(t, texts(entries(user("a"), user("b"), user("c"))), load(t, s, mainKey))
	slices.Sort(skips)
	require.Equal(t, []string{
		mainFile + ":4", mainFile + ":5", mainFile + ":7",
		deep + ":0", project + "/" + session + "/three.jsonl:0", project + "/link.jsonl:0", ".private/s.jsonl:0", "one.jsonl:0", "out:0",
	}, skips)
	require.Equal(t, 2, report.Transcripts)
	require.EqualValues(t, 2, report.NotMirrored)
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{project}, projects)
	subkeys, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/workflows/wf_1/agent-1"}, subkeys)
}

func TestSidecarsBecomeMetadataEntries(t *testing.T) {
	for text, want := range map[string]string{
		`{"agentType":"x","n":1.0}`:   `{"type":"agent_metadata","agentType":"x","n":1.0}`,
		"{ }\n":                       `{"type":"agent_metadata"}`,
		"{\n \"agentType\": \"x\"\n}": `{"type":"agent_metadata", "agentType": "x"}`,
		`{"type":"y","a":"}"}`:        `{"type":"y","a":"}","type":"agent_metadata"}`,
		`{"a":1`:                      "",
		``:                            "",
	} {
		dir := t.TempDir()
		write(t, lines(user("a")), dir, subFile)
		write(t, text, dir, subMeta)
		s := newFake()
		once(t, dir, s)
		list := texts(entries(user("a")))
		if want != "" {
			list = append([]string{want}, list...)
			files, err := filestore.Open(dir, &filestore.Options{ReadOnly: true})
			require.NoError(t, err)
			theirs, err := files.Load(t.Context(), subKey)
			require.NoError(t, err)
			require.True(t, theirs[0].Equal(sessionstore.Entry(want)), "%s", theirs[0])
			require.NoError(t, files.Close())
		}
		require.Equal(t, list, load(t, s, subKey))
	}
	dir := t.TempDir()
	write(t, `{"agentType":"x"}`, dir, subMeta) // no line yet
	s := newFake()
	once(t, dir, s)
	require.Equal(t, []string{string(metadata("x"))}, load(t, s, subKey))
	require.NoError(t, os.WriteFile(filepath.Join(dir, subMeta), []byte(`{"agentType":"y"}`), 0o600))
	once(t, dir, s)
	require.Equal(t, texts(entries(metadata("x"), metadata("y"))), load(t, s, subKey))
}

// watching runs Watch in the background of a bubble.
type watching struct {
	stop   func()
	done   chan struct{}
	report mirror.WatchReport
	err    error
}

func watch(t *testing.T, dir string, store sessionstore.SessionStore, opts *mirror.WatchOptions) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.report, w.err = mirror.Watch(ctx, dir, store, opts)
	}()
	return w
}

func (w *watching) end() error {
	w.stop()
	<-w.done
	return w.err
}

func TestWatchFollowsFilesAsTheyGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "later")
		s := newFake()
		w := watch(t, dir, s, nil)
		time.Sleep(5 * time.Second) // no directory yet
		step := func() { time.Sleep(1100 * time.Millisecond); synctest.Wait() }
		write(t, lines(user("a"), user("b")), dir, mainFile)
		step()
		require.Equal(t, texts(numberless("a", "b")), load(t, s, mainKey))
		write(t, `{"type":"user",`, dir, mainFile)
		step()
		require.Len(t, load(t, s, mainKey), 2, "half a line waits")
		write(t, `"uuid":"c"}`, dir, mainFile)
		step()
		require.Len(t, load(t, s, mainKey), 2, "so does a line without its end")
		write(t, "\n"+lines(mode("m"))+string(user("d")), dir, mainFile)
		write(t, `{"agentType":"x"}`, dir, subMeta)
		write(t, lines(user("s")), dir, subFile)
		step()
		require.Equal(t, texts(append(numberless("a", "b", "c"), mode("m"))), load(t, s, mainKey))
		require.Equal(t, texts(entries(metadata("x"), user("s"))), load(t, s, subKey))
		require.NoError(t, os.WriteFile(filepath.Join(dir, subMeta), []byte(`{"agentType":"x","finished":true}`), 0o600))
		step()
		require.Len(t, load(t, s, subKey), 3)
		calls := s.count()
		time.Sleep(time.Hour)
		require.Equal(t, calls, s.count(), "nothing new, nothing appended")
		write(t, lines(user("z")), dir, project, "zzz.jsonl")
		require.NoError(t, w.end())
		require.Equal(t, string(user("d")), load(t, s, mainKey)[4], "the last look takes a whole last line")
		require.Len(t, load(t, s, sessionstore.Key{ProjectKey: project, SessionID: "zzz"}), 1, "and what came last")
		require.Equal(t, 3, w.report.Transcripts)
	})
}

func numberless(ids ...string) (list []sessionstore.Entry) {
	for _, id := range ids {
		list = append(list, user(id))
	}
	return list
}

func TestLastLineWithoutItsEndCountsWhenTheFileIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		name := write(t, lines(user("a"))+string(user("b")), dir, mainFile)
		require.NoError(t, os.Chtimes(name, time.Now(), time.Now()))
		s := newFake()
		w := watch(t, dir, s, nil)
		time.Sleep(3 * time.Second)
		require.Len(t, load(t, s, mainKey), 1)
		time.Sleep(5 * time.Second)
		require.Len(t, load(t, s, mainKey), 2)
		write(t, "\n"+lines(user("c")), dir, mainFile) // its end comes after all
		require.NoError(t, w.end())
		require.Equal(t, texts(numberless("a", "b", "c")), load(t, s, mainKey))
		require.Zero(t, w.report.Skipped)
	})
}

func TestFileThatBecameShorterOrWasReplacedIsComparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		name := write(t, lines(user("a"), mode("m"), user("b"), mode("m")), dir, mainFile)
		s := newFake()
		w := watch(t, dir, s, nil)
		time.Sleep(2 * time.Second)
		require.Len(t, load(t, s, mainKey), 4)
		require.NoError(t, os.WriteFile(name, []byte(lines(user("a"), mode("q"))), 0o600))
		time.Sleep(2 * time.Second)
		require.Equal(t, texts(entries(user("a"), mode("m"), user("b"), mode("m"), mode("q"))), load(t, s, mainKey))
		other := write(t, lines(user("a"), mode("m"), user("c"), mode("m"), mode("m"), mode("m")), t.TempDir(), "new")
		require.NoError(t, os.Rename(other, name))
		time.Sleep(2 * time.Second)
		require.Equal(t, texts(entries(user("a"), mode("m"), user("b"), mode("m"), mode("q"), user("c"), mode("m"), mode("m"))), load(t, s, mainKey))
		require.NoError(t, os.Remove(name))
		time.Sleep(2 * time.Second)
		require.NoError(t, w.end())
		require.Zero(t, w.report.Failures)
	})
}

func TestWatchGoesOnAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		var mu sync.Mutex
		down, lost := true, false
		s.before = func(context.Context, sessionstore.Key, int) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errDown
			}
			return nil
		}
		s.AfterAppend = func(context.Context, sessionstore.Key) error {
			mu.Lock()
			defer mu.Unlock()
			if lost {
				return errDown
			}
			return nil
		}
		set := func(isDown, isLost bool) { mu.Lock(); defer mu.Unlock(); down, lost = isDown, isLost }
		var log errorLog
		w := watch(t, dir, s, &mirror.WatchOptions{OnError: log.options().OnError})
		write(t, lines(user("a"), mode("m"), mode("m")), dir, mainFile)
		time.Sleep(time.Minute)
		require.NotEmpty(t, log.all())
		require.Less(t, s.count(), 60, "it does not try all the time")
		set(false, true) // now batches land, and the reply is lost
		time.Sleep(time.Minute)
		write(t, lines(user("b"), mode("m")), dir, mainFile)
		time.Sleep(time.Minute)
		set(false, false)
		time.Sleep(2 * time.Minute)
		require.Equal(t, texts(entries(user("a"), mode("m"), mode("m"), user("b"), mode("m"))), load(t, s, mainKey))
		set(true, false)
		write(t, lines(user("c")), dir, mainFile)
		err := w.end()
		require.ErrorIs(t, err, errDown, "what could not be stored at the end is an error")
		require.ErrorContains(t, err, session)
		set(false, false)
		once(t, dir, s)
		require.Len(t, load(t, s, mainKey), 6)
	})
}

func TestPanicOfTheStoreDoesNotEndTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, lines(user("a")), dir, mainFile)
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n <= mirror.DefaultAttempts {
				panic("oops")
			}
			return nil
		}
		w := watch(t, dir, s, nil)
		time.Sleep(time.Minute)
		require.NoError(t, w.end())
		require.Len(t, load(t, s, mainKey), 1)
		require.EqualValues(t, 1, w.report.Failures)
	})
}

func TestLongTranscriptsAreReadInTurns(t *testing.T) {
	dir := t.TempDir()
	var all []sessionstore.Entry
	for i := range 600 {
		all = append(all, sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"u%d","x":"%s"}`, i, strings.Repeat("x", 100_000))), mode("m"))
	}
	write(t, lines(all...), dir, mainFile)
	write(t, lines(user("z")), dir, "z", "z.jsonl")
	s := newFake()
	require.NoError(t, s.Append(t.Context(), mainKey, all[:101]))
	report, err := mirror.Watch(t.Context(), dir, s, &mirror.WatchOptions{Once: true, Concurrency: 1})
	require.NoError(t, err)
	require.EqualValues(t, len(all)-101+1, report.Entries)
	require.NotEqual(t, "z", s.calls[len(s.calls)-1].key.SessionID, "the short one does not wait for the long one's end")
	require.True(t, slices.Equal(texts(all), load(t, s, mainKey)))
	for _, b := range s.batches(mainKey)[1:] {
		require.LessOrEqual(t, len(strings.Join(b, "")), mirror.DefaultMaxBytes)
	}
	require.Zero(t, once(t, dir, s).Entries)
}

func TestOldTranscriptsAreLeftAloneUntilTheyAreWrittenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		name := write(t, lines(user("a")), dir, mainFile)
		require.NoError(t, os.Chtimes(name, time.Now(), time.Now().Add(-48*time.Hour)))
		s := newFake()
		w := watch(t, dir, s, &mirror.WatchOptions{MaxAge: 24 * time.Hour})
		time.Sleep(time.Minute)
		require.Zero(t, s.count())
		write(t, lines(user("b")), dir, mainFile)
		require.NoError(t, os.Chtimes(name, time.Now(), time.Now()))
		time.Sleep(time.Minute)
		require.Len(t, load(t, s, mainKey), 2)
		require.NoError(t, w.end())
	})
}

func TestWatchOfAMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	_, err := mirror.Watch(t.Context(), dir, inmemory.New(), &mirror.WatchOptions{Once: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dir, inmemory.New(), nil)
		time.Sleep(time.Minute)
		require.NoError(t, w.end())
	})
}

func TestEntriesThatTheStoreRefusesDoNotStopTheWatch(t *testing.T) {
	dir := t.TempDir()
	write(t, lines(numbered(0, 20)...), dir, mainFile)
	s := refusing{inmemory.New()}
	var log errorLog
	report, err := mirror.Watch(t.Context(), dir, s, &mirror.WatchOptions{Once: true, OnError: log.options().OnError})
	require.NoError(t, err)
	require.Len(t, load(t, s, mainKey), 19)
	require.EqualValues(t, 1, report.Skipped)
	require.ErrorIs(t, log.all()[0], sessionstore.ErrInvalidEntry)
}

func TestInterruptedOnceSaysSo(t *testing.T) {
	dir := t.TempDir()
	write(t, lines(user("a")), dir, mainFile)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := mirror.Watch(ctx, dir, inmemory.New(), &mirror.WatchOptions{Once: true})
	require.ErrorIs(t, err, context.Canceled)
}
