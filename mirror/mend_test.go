package mirror_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

func TestReplayTellsOfFilesThatLackBetweenOthers(t *testing.T) {
	for _, dryRun := range []bool{true, false} {
		s := newFake()
		dir := keep(t, s, 0, entries(user("u")), numbered(0, 2), numbered(2, 4), numbered(4, 6))
		gone := spilled(t, dir)[1]
		require.NoError(t, os.Remove(gone))
		report, err := mirror.Replay(t.Context(), dir, s, &mirror.ReplayOptions{DryRun: dryRun})
		require.ErrorIs(t, err, mirror.ErrBatchMissing)
		require.ErrorContains(t, err, gone)
		require.Equal(t, 1, report.Missing)
		if !dryRun {
			require.Equal(t, texts(append(entries(user("u")), append(numbered(0, 2), numbered(4, 6)...)...)), load(t, s, mainKey))
			require.Empty(t, spilled(t, dir))
		}
	}
}

// A mirror knows which files it wrote, wherever one is missing.
func TestMirrorTellsOfItsFilesThatAreGone(t *testing.T) {
	for name, remove := range map[string]func(files []string) error{
		"first":     func(files []string) error { return os.Remove(files[0]) },
		"middle":    func(files []string) error { return os.Remove(files[1]) },
		"last":      func(files []string) error { return os.Remove(files[2]) },
		"directory": func(files []string) error { return os.RemoveAll(filepath.Dir(files[0])) },
		"all": func(files []string) error {
			return os.RemoveAll(filepath.Dir(filepath.Dir(files[0])))
		},
		"a link": func(files []string) error {
			aside := files[1] + ".aside"
			if err := os.Rename(files[1], aside); err != nil {
				return err
			}
			return os.Symlink(aside, files[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "spill")
				s := newFake()
				s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
				var log errorLog
				opts := log.options()
				opts.Spill, opts.SpillRetry = dir, time.Hour
				m := open(t, s, &opts)
				for _, text := range []string{"a", "b", "c"} {
					require.NoError(t, m.Frame(mainPath, entries(mode(text))))
					require.Error(t, m.Flush(t.Context()))
				}
				require.NoError(t, remove(spilled(t, dir)))
				s.before = nil
				var loss *mirror.LossError
				require.ErrorAs(t, m.Close(t.Context()), &loss)
				lost := 3 - len(load(t, s, mainKey))
				require.Positive(t, lost)
				require.Equal(t, lost, loss.Losses[0].Missing)
				require.Equal(t, lost, loss.Losses[0].Entries)
				require.Zero(t, loss.Losses[0].Spilled)
				require.ErrorIs(t, loss, mirror.ErrBatchMissing)
				require.ErrorContains(t, loss, "missing")
				require.Len(t, log.all(), 3+lost)
				require.True(t, m.Failed())
			})
		})
	}
}

func TestFilesThatReplayDeliversElsewhereAreNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		m := open(t, s, &mirror.Options{Spill: dir, SpillRetry: time.Hour})
		for _, text := range []string{"a", "b", "c"} {
			require.NoError(t, m.Frame(mainPath, entries(mode(text))))
			require.Error(t, m.Flush(t.Context()))
		}
		s.before = nil
		_, err := mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.NoError(t, m.Frame(mainPath, entries(mode("d"))))
		require.NoError(t, m.Close(t.Context()))
		require.Equal(t, texts(entries(mode("a"), mode("b"), mode("c"), mode("d"))), load(t, s, mainKey))
	})
}

func TestOtherFilesInTheDirectoryOfAKeyAreNoBatches(t *testing.T) {
	s := newFake()
	dir := keep(t, s, 0, entries(user("u")), entries(mode("a")))
	text, err := os.ReadFile(spilled(t, dir)[0])
	require.NoError(t, err)
	at := filepath.Dir(spilled(t, dir)[0])
	for _, name := range []string{"000000000002.jsonlx", "zz000000000002.jsonl", "2.jsonl", "000000000000.jsonl", "-00000000001.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), text, 0o600))
	}
	_, err = mirror.Replay(t.Context(), dir, s, nil)
	require.NoError(t, err)
	require.Equal(t, texts(entries(user("u"), mode("a"))), load(t, s, mainKey))
	require.Len(t, spilled(t, dir), 5)
}

func TestFilesThatAKilledProcessWasWritingAreRemoved(t *testing.T) {
	temp := func(t *testing.T, dir string) string {
		at := filepath.Dir(spilled(t, dir)[0])
		name := filepath.Join(at, ".tmp-0123456789abcdef")
		require.NoError(t, os.WriteFile(name, []byte("{"), 0o600))
		return name
	}
	s := newFake()
	dir := keep(t, s, 0, entries(user("u")), entries(mode("a")))
	temp(t, dir)
	_, err := mirror.Replay(t.Context(), dir, s, nil)
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	// A mirror does it too, also where there is nothing else.
	dir = keep(t, s, 0, entries(user("v")), entries(mode("a")))
	batch := spilled(t, dir)[0]
	temp(t, dir)
	require.NoError(t, os.Remove(batch))
	m := open(t, s, &mirror.Options{Spill: dir})
	require.NoError(t, m.Frame(mainPath, entries(user("w"))))
	require.NoError(t, m.Close(t.Context()))
	require.Empty(t, spilled(t, dir))
}

// Whatever was stored before, a batch is not taken for stored when it may not
// have landed.
func TestReplayAppendsWhereTheTranscriptLeavesADoubt(t *testing.T) {
	for name, stored := range map[string][]sessionstore.Entry{
		"nothing else":      entries(mode("m")),
		"something else":    entries(user("u"), mode("m")),
		"more of the same":  entries(mode("m"), mode("m"), mode("m")),
		"before the anchor": entries(mode("m"), mode("n")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake()
			require.NoError(t, s.Append(t.Context(), mainKey, stored))
			var before []sessionstore.Entry
			batch := entries(mode("m"))
			if name == "before the anchor" { // which makes m n m n
				before, batch = entries(mode("m"), mode("n")), entries(mode("m"), mode("n"))
			}
			dir := keep(t, s, 0, before, batch)
			_, err := mirror.Replay(t.Context(), dir, s.Reopen(), nil)
			require.NoError(t, err)
			require.Len(t, load(t, s, mainKey), len(stored)+len(before)+len(batch))
		})
	}
}

// The call is out when Close returns; what came behind it must not overtake it.
func TestFilesStayLockedWhileACallIsOutThatCloseGaveUp(t *testing.T) {
	for _, redelivery := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			s.late = true
			dir := t.TempDir()
			release := make(chan struct{})
			hangAt := 1
			if redelivery {
				hangAt = 4
			}
			s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
				switch {
				case n < hangAt:
					return errDown
				case n == hangAt:
					<-release
				}
				return nil
			}
			m := open(t, s, &mirror.Options{Spill: dir})
			require.NoError(t, m.Frame(mainPath, entries(user("a"), mode("m"))))
			if redelivery {
				require.Error(t, m.Flush(t.Context()))
			}
			require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.Error(t, m.Close(ctx))

			_, err := mirror.Replay(t.Context(), dir, s, nil)
			require.ErrorIs(t, err, mirror.ErrBusy)
			next := open(t, s, &mirror.Options{Spill: dir})
			require.NoError(t, next.Frame(mainPath, entries(mode("n"))))
			require.ErrorIs(t, next.Close(t.Context()), mirror.ErrBusy)
			require.Empty(t, load(t, s, mainKey))

			close(release)
			synctest.Wait()
			_, err = mirror.Replay(t.Context(), dir, s, nil)
			require.NoError(t, err)
			require.Equal(t, texts(entries(user("a"), mode("m"), mode("m"), mode("n"))), load(t, s, mainKey))
			s.mu.Lock()
			require.False(t, s.overlap)
			s.mu.Unlock()
		})
	}
}

func TestCloseDoesNotWaitForACallbackLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		release := make(chan struct{})
		dir := t.TempDir()
		m := open(t, s, &mirror.Options{Spill: dir, Mode: mirror.Eager, Attempts: 1, OnError: func(*mirror.Error) { <-release }})
		for i := range 50 {
			require.NoError(t, m.Frame(mainPath, numbered(i, i+1)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		var loss *mirror.LossError
		require.ErrorAs(t, m.Close(ctx), &loss)
		require.LessOrEqual(t, time.Since(start), time.Minute+3*time.Second)
		require.Equal(t, 50, loss.Losses[0].Spilled, "the rest is kept all the same")
		require.Len(t, spilled(t, dir), 50)
		close(release)
	})
}

func TestWatchKnowsWhatTheStoreHasMoreOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		all := lines(mode("a"), mode("b"), mode("b"))
		name := write(t, all, dir, mainFile)
		s := newFake()
		w := watch(t, dir, s, nil)
		time.Sleep(time.Minute)
		want := load(t, s, mainKey)
		require.Len(t, want, 3)
		first := int64(len(lines(mode("a"))))
		for _, cut := range []int64{first, 0} {
			require.NoError(t, os.Truncate(name, cut))
			time.Sleep(time.Minute)
			write(t, all[cut:], dir, mainFile)
			time.Sleep(time.Minute)
			require.Equal(t, want, load(t, s, mainKey))
		}
		require.NoError(t, os.Remove(name))
		time.Sleep(time.Minute)
		write(t, all[:first], dir, mainFile)
		time.Sleep(time.Minute)
		write(t, all[first:], dir, mainFile)
		time.Sleep(time.Minute)
		require.Equal(t, want, load(t, s, mainKey))
		write(t, lines(mode("b")), dir, mainFile)
		require.NoError(t, w.end())
		require.Equal(t, append(want, string(mode("b"))), load(t, s, mainKey), "what is new is stored")
	})
}

func TestWatchSeesWhatIsRewrittenInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		long := numbered(0, 1000)
		name := write(t, lines(append(long[:500:500], append(entries(mode("a")), long[500:]...)...)...), dir, project, "long.jsonl")
		longKey := sessionstore.Key{ProjectKey: project, SessionID: "long"}
		s := newFake()
		w := watch(t, dir, s, nil)
		time.Sleep(time.Minute)
		text := lines(append(long[:500:500], append(entries(mode("b")), long[500:]...)...)...)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(name, time.Now(), time.Now()))
		require.NoError(t, w.end())
		require.Len(t, load(t, s, longKey), 1002)
	})
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		name := write(t, lines(mode("a"), mode("b")), dir, mainFile)
		s := newFake()
		w := watch(t, dir, s, nil)
		rewrite := func(list ...sessionstore.Entry) {
			time.Sleep(time.Minute)
			require.NoError(t, os.WriteFile(name, []byte(lines(list...)), 0o600))
			require.NoError(t, os.Chtimes(name, time.Now(), time.Now()))
			time.Sleep(time.Minute)
		}
		rewrite(mode("a"), mode("c"))
		require.Equal(t, texts(entries(mode("a"), mode("b"), mode("c"))), load(t, s, mainKey), "as long as before")
		rewrite(mode("d"), mode("e"), mode("f"))
		require.Equal(t, texts(entries(mode("a"), mode("b"), mode("c"), mode("d"), mode("e"), mode("f"))), load(t, s, mainKey), "longer")
		require.NoError(t, w.end())
	})
}

// A batch that failed and was not found in the store may land yet. The store is
// to know it when it comes again; but not what is new.
func TestWatchSaysWhichBatchIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, lines(mode("m")), dir, mainFile)
		s := &notingStore{fakeStore: newFake()}
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n <= 4 {
				return errDown
			}
			return nil
		}
		w := watch(t, dir, s, &mirror.WatchOptions{Attempts: 2})
		time.Sleep(time.Minute)
		write(t, lines(mode("m")), dir, mainFile)
		require.NoError(t, w.end())
		require.Equal(t, []bool{true, false, false, false, false, true}, s.isNew)
		require.Len(t, load(t, s, mainKey), 2)
	})
}

// notingStore notes which appends are said to be new.
type notingStore struct {
	*fakeStore
	isNew []bool
}

func (s *notingStore) Append(ctx context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	s.isNew = append(s.isNew, sessionstore.IsNewBatch(ctx))
	return s.fakeStore.Append(ctx, key, list)
}

func TestWatchEndsThoughACallOfTheStoreDoesNot(t *testing.T) {
	for _, loads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			write(t, lines(user("a")), dir, mainFile)
			write(t, lines(user("z")), dir, project, "z.jsonl")
			s := newFake()
			release := make(chan struct{})
			hang := func(key sessionstore.Key) {
				if key == mainKey {
					<-release
				}
			}
			s.before = func(_ context.Context, key sessionstore.Key, _ int) error { hang(key); return nil }
			var store sessionstore.SessionStore = s
			if loads {
				store = hangingLoad{s, hang}
			}
			w := watch(t, dir, store, &mirror.WatchOptions{FinalTimeout: 10 * time.Second})
			time.Sleep(10 * time.Minute)
			start := time.Now()
			err := w.end()
			require.ErrorContains(t, err, "has not returned")
			require.LessOrEqual(t, time.Since(start), 13*time.Second)
			close(release)
			synctest.Wait()
			s.mu.Lock()
			require.False(t, s.overlap)
			s.mu.Unlock()
			require.Len(t, load(t, s, sessionstore.Key{ProjectKey: project, SessionID: "z"}), 1)
		})
	}
}

// hangingLoad is a store whose Load may not return.
type hangingLoad struct {
	sessionstore.SessionStore
	hang func(sessionstore.Key)
}

func (s hangingLoad) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	s.hang(key)
	return s.SessionStore.Load(ctx, key)
}

func TestWhatFollowsAFrameOnItsLineIsPassedOn(t *testing.T) {
	frame := strings.TrimSuffix(frameLine(mainPath, user("a")), "\n")
	other := strings.TrimSuffix(frameLine(mainPath, user("b")), "\n")
	for in, want := range map[string]string{
		frame + ` {"type":"assistant"}` + "\n" + resultLine: ` {"type":"assistant"}` + "\n" + resultLine,
		frame + resultLine:                resultLine,
		frame + "x":                       "x",
		frame + other + "x\r\n":           "x\r\n",
		frame + " \r\n" + other + "\t":    "",
		frame + "\n" + other + resultLine: resultLine,
	} {
		s := newFake()
		m := open(t, s, nil)
		out, err := io.ReadAll(m.Reader(strings.NewReader(in)))
		require.NoError(t, err)
		require.Equal(t, want, string(out), in)
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), strings.Count(in, `"uuid"`))
	}
}

func TestPathThatEndsInASlashIsNoTranscript(t *testing.T) {
	m := open(t, newFake(), nil)
	var foreign *mirror.ForeignError
	require.ErrorAs(t, m.Frame(mainPath+"/", entries(user("a"))), &foreign)
	require.Error(t, m.Close(t.Context()))
}
