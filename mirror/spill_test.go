package mirror_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

// spilled lists the files of a spill directory.
func spilled(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	}))
	return list
}

func TestStoreThatIsDownForAMinuteLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spill")
		s := newFake()
		start := time.Now()
		s.before = func(context.Context, sessionstore.Key, int) error {
			if d := time.Since(start); d > 10*time.Second && d < 70*time.Second {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Spill: dir})
		var want []string
		var longest time.Duration
		for i := range 120 {
			list := entries(user(fmt.Sprintf("u%d", i)), mode("normal"))
			want = append(want, texts(list)...)
			require.NoError(t, m.Frame(mainPath, list))
			before := time.Now()
			_ = m.Flush(t.Context())
			longest = max(longest, time.Since(before))
			if time.Since(start) == 40*time.Second {
				require.Equal(t, 1, m.Stats().HeldKeys)
				require.True(t, m.Failed())
			}
			time.Sleep(time.Second - time.Since(before))
		}
		require.Equal(t, want, load(t, s, mainKey))
		require.Less(t, longest, 1100*time.Millisecond, "while the key is held the agent does not wait for tries")
		require.False(t, m.Failed())
		require.Zero(t, m.Stats().HeldKeys)
		require.Positive(t, m.Stats().Delivered)
		require.NoError(t, m.Close(t.Context()))
		require.Empty(t, spilled(t, dir))
		require.False(t, s.overlap)
	})
}

func TestGivenUpBatchesAreKeptAndDeliveredByReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spill")
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		var log errorLog
		opts := log.options()
		opts.Spill = dir
		m := open(t, s, &opts)
		odd := sessionstore.Entry("{\n \"type\":\"x\",\"n\":9007199254740993,\"s\":\"\\ud83d\"}")
		require.NoError(t, m.Frame(mainPath, entries(user("a"), odd)))
		require.NoError(t, m.Frame(subPath, entries(metadata("x"), user("s"))))
		require.Error(t, m.Flush(t.Context()))
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		require.Error(t, m.Flush(t.Context()))
		var loss *mirror.LossError
		require.ErrorAs(t, m.Close(t.Context()), &loss)
		require.Len(t, loss.Losses, 2)
		require.Equal(t, 3, loss.Losses[0].Entries)
		require.Equal(t, 3, loss.Losses[0].Spilled)
		require.ErrorContains(t, loss, "3 entries (3 kept in files)")

		files := spilled(t, dir)
		require.Len(t, files, 3)
		for _, e := range log.all() {
			require.Contains(t, files, e.Spilled)
		}
		info, err := os.Stat(files[0])
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(log.errs[0].Spilled)
		require.NoError(t, err)
		require.Contains(t, string(text), `"sessionstoreSpill":1,"key":{"projectKey":"`+project)

		_, err = mirror.Replay(t.Context(), dir, s, nil)
		require.ErrorIs(t, err, errDown)
		require.Len(t, spilled(t, dir), 3)

		s.before = nil
		report, err := mirror.Replay(t.Context(), dir, s, &mirror.ReplayOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, mirror.ReplayReport{Keys: 2, Batches: 3, Entries: 5, Left: 3}, report)
		var keys []mirror.ReplayKey
		report, err = mirror.Replay(t.Context(), dir, s, &mirror.ReplayOptions{OnKey: func(k mirror.ReplayKey) { keys = append(keys, k) }})
		require.NoError(t, err)
		require.Equal(t, mirror.ReplayReport{Keys: 2, Batches: 3, Entries: 5}, report)
		require.Len(t, keys, 2)
		require.Equal(t, texts(entries(user("a"), odd.Line(), user("b"))), load(t, s, mainKey))
		require.Equal(t, texts(entries(metadata("x"), user("s"))), load(t, s, subKey))
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
		report, err = mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.Equal(t, mirror.ReplayReport{}, report)
		_, err = mirror.Replay(t.Context(), filepath.Join(dir, "missing"), s, nil)
		require.NoError(t, err)
	})
}

func TestLaterBatchesDoNotOvertakeAKeptOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		s.before = func(_ context.Context, key sessionstore.Key, n int) error {
			if n <= 3 {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.Error(t, m.Flush(t.Context()))
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		require.NoError(t, m.Frame(subPath, entries(user("s"))))
		require.Error(t, m.Flush(t.Context()), "the store is up again, but it is not tried yet")
		require.Empty(t, load(t, s, mainKey))
		require.Len(t, load(t, s, subKey), 1, "other keys go on")
		require.Len(t, spilled(t, dir), 2)
		require.NoError(t, m.Close(t.Context()), "Close tries once more")
		require.Equal(t, texts(entries(user("a"), user("b"))), load(t, s, mainKey))
		require.Empty(t, spilled(t, dir))
	})
}

func TestNextMirrorDeliversWhatAnEarlierOneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		m := open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.Error(t, m.Close(t.Context()))
		m = open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		require.Error(t, m.Close(t.Context()))
		require.Len(t, spilled(t, dir), 2)
		s.before = nil
		m = open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, entries(user("c"))))
		require.NoError(t, m.Flush(t.Context()))
		require.Equal(t, texts(entries(user("a"), user("b"), user("c"))), load(t, s, mainKey))
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestCloseThatIsCutShortKeepsWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		s.before = func(ctx context.Context, _ sessionstore.Key, _ int) error { <-ctx.Done(); return ctx.Err() }
		m := open(t, s, &mirror.Options{Spill: dir, Mode: mirror.Eager})
		for i := range 10 {
			require.NoError(t, m.Frame(mainPath, numbered(i, i+1)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, m.Close(ctx))
		s.before = nil
		_, err := mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.Equal(t, texts(numbered(0, 10)), load(t, s, mainKey))
	})
}

func TestUnusableEntriesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		var log errorLog
		opts := log.options()
		opts.Spill = dir
		m := open(t, s, &opts)
		require.NoError(t, m.Frame(mainPath, entries(user("a"), sessionstore.Entry("{\"a\":\"x\ny\"}"), user("b"))))
		require.Error(t, m.Close(t.Context()))
		require.Len(t, log.all(), 2)
		require.ErrorIs(t, log.errs[0], sessionstore.ErrInvalidEntry)
		s.before = nil
		_, err := mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.Equal(t, texts(entries(user("a"), user("b"))), load(t, s, mainKey))
	})
}

func TestSpillDirectoryThatCannotBeWrittenIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spill")
		s := newFake()
		m := open(t, s, &mirror.Options{Spill: dir})
		require.NoError(t, m.Frame(mainPath, entries(user("a"))))
		require.NoError(t, m.Flush(t.Context()))
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
		require.NoError(t, m.Frame(mainPath, entries(user("b"))))
		err := m.Flush(t.Context())
		require.ErrorIs(t, err, errDown)
		require.ErrorContains(t, err, "could not be kept")
		require.Error(t, m.Close(t.Context()))
		_, err = mirror.New(s, projectsDir, &mirror.Options{Spill: filepath.Join(dir, "below a file")})
		require.Error(t, err)
	})
}

// keep makes a spill directory that holds batches of the main transcript. Some
// of them may have landed all the same.
func keep(t *testing.T, s *fakeStore, landed int, before []sessionstore.Entry, batches ...[]sessionstore.Entry) string {
	t.Helper()
	dir := t.TempDir()
	m := open(t, s, &mirror.Options{Spill: dir, Attempts: 1, SpillRetry: time.Hour})
	if len(before) > 0 {
		require.NoError(t, m.Frame(mainPath, before))
		require.NoError(t, m.Flush(t.Context()))
	}
	s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
	ctx, cancel := context.WithCancel(t.Context())
	for _, b := range batches {
		require.NoError(t, m.Frame(mainPath, b))
		require.Error(t, m.Flush(t.Context()))
	}
	cancel()
	require.Error(t, m.Close(ctx))
	s.before = nil
	for _, b := range batches[:landed] {
		require.NoError(t, s.Append(t.Context(), mainKey, b))
	}
	return dir
}

func TestReplayDoesNotRepeatWhatHadLanded(t *testing.T) {
	b1, b2, b3 := entries(mode("a"), mode("a")), entries(mode("a")), entries(user("x"), mode("a"))
	for name, before := range map[string][]sessionstore.Entry{
		"nothing before":       nil,
		"the same before":      entries(user("u"), mode("a"), mode("a"), mode("a")),
		"without uuid before":  entries(mode("b")),
		"something else after": entries(user("u")),
	} {
		for landed := range 4 {
			t.Run(fmt.Sprint(name, landed), func(t *testing.T) {
				s := newFake()
				dir := keep(t, s, landed, before, b1, b2, b3)
				after := []sessionstore.Entry(nil)
				if name == "something else after" {
					after = entries(user("other writer"), mode("z"))
					require.NoError(t, s.Append(t.Context(), mainKey, after))
				}
				want := slices.Concat(before, b1, b2, b3)
				if after != nil {
					parts := [][]sessionstore.Entry{b1, b2, b3}
					want = slices.Concat(before, slices.Concat(parts[:landed]...), after, slices.Concat(parts[landed:]...))
				}
				if name == "nothing before" && landed < 3 { // these may have been there before
					want = slices.Concat(slices.Concat([][]sessionstore.Entry{b1, b2}[:landed]...), want)
				}
				report, err := mirror.Replay(t.Context(), dir, s, nil)
				require.NoError(t, err)
				require.Equal(t, 3, report.Batches)
				require.Equal(t, texts(want), load(t, s, mainKey))
			})
		}
	}
}

func TestReplayOfMetadataIntoTheAgentsLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := filestore.Open(t.TempDir(), nil)
		require.NoError(t, err)
		defer s.Close()
		m := open(t, failing{s}, &mirror.Options{Spill: dir})
		for _, b := range [][]sessionstore.Entry{entries(metadata("x")), entries(user("a"), mode("m")), entries(metadata("y"))} {
			require.NoError(t, m.Frame(subPath, b))
			require.Error(t, m.Flush(t.Context()))
		}
		require.Error(t, m.Close(t.Context()))
		require.NoError(t, s.Append(t.Context(), subKey, entries(metadata("x"))))
		require.NoError(t, s.Append(t.Context(), subKey, entries(user("a"), mode("m"))))
		report, err := mirror.Replay(t.Context(), dir, s, nil)
		require.NoError(t, err)
		require.Equal(t, mirror.ReplayReport{Keys: 1, Batches: 3, Entries: 1, Already: 3}, report)
		require.Equal(t, texts(entries(metadata("y"), user("a"), mode("m"))), load(t, s, subKey))
	})
}

type failing struct{ sessionstore.SessionStore }

func (failing) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error { return errDown }

func TestReplayReportsEntriesThatTheStoreRefuses(t *testing.T) {
	s := newFake()
	dir := keep(t, s, 0, nil, numbered(0, 20))
	var log errorLog
	report, err := mirror.Replay(t.Context(), dir, refusing{s.Store}, &mirror.ReplayOptions{OnError: log.options().OnError})
	require.NoError(t, err)
	require.Equal(t, 19, report.Entries)
	require.Len(t, load(t, s, mainKey), 19)
	require.Equal(t, "u7", log.errs[0].Entries[0].UUID())
}

func TestDamagedFilesAreErrorsAndKeepTheirPlace(t *testing.T) {
	for name, damage := range map[string]func(text string) string{
		"cut":           func(text string) string { return text[:len(text)-3] },
		"line missing":  func(text string) string { return text[:strings.LastIndex(text[:len(text)-1], "\n")+1] },
		"line too many": func(text string) string { return text + "{}\n" },
		"empty":         func(string) string { return "" },
		"no header":     func(text string) string { return text[strings.Index(text, "\n")+1:] },
		"other key":     func(text string) string { return strings.Replace(text, session, "s2", 1) },
		"later version": func(text string) string {
			return strings.Replace(text, `"sessionstoreSpill":1`, `"sessionstoreSpill":2`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake()
			dir := keep(t, s, 0, entries(user("before")), numbered(0, 3), numbered(3, 6))
			files := spilled(t, dir)
			text, err := os.ReadFile(files[1])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[1], []byte(damage(string(text))), 0o600))
			_, err = mirror.Replay(t.Context(), dir, s, nil)
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			require.ErrorContains(t, err, files[1])
			require.Equal(t, files[1:], spilled(t, dir))
			require.Len(t, load(t, s, mainKey), 4, "what lies before it is delivered")
		})
	}
}

func TestOnlyOneDeliversTheFilesOfAKey(t *testing.T) {
	s := newFake()
	dir := keep(t, s, 0, nil, numbered(0, 3))
	var inner error
	s.before = func(context.Context, sessionstore.Key, int) error {
		s.before = nil
		_, inner = mirror.Replay(t.Context(), dir, s, nil)
		return nil
	}
	_, err := mirror.Replay(t.Context(), dir, s, nil)
	require.NoError(t, err)
	require.ErrorIs(t, inner, mirror.ErrBusy)
	require.Len(t, load(t, s, mainKey), 3)
}

func TestReplayGoesOnWhereItWasInterrupted(t *testing.T) {
	for stop := range 4 {
		s := newFake()
		dir := keep(t, s, 0, entries(user("u")), entries(mode("a")), entries(mode("a")), entries(mode("a")))
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		s.AfterAppend = func(context.Context, sessionstore.Key) error {
			if n++; n > stop {
				cancel() // it landed, but nobody hears of it
				return ctx.Err()
			}
			return nil
		}
		_, err := mirror.Replay(ctx, dir, s, nil)
		if stop < 3 {
			require.Error(t, err)
		}
		cancel()
		s.AfterAppend = nil
		other := &fakeStore{Store: s.Reopen(), inFlight: map[sessionstore.Key]int{}}
		_, err = mirror.Replay(t.Context(), dir, other, nil)
		require.NoError(t, err)
		require.Equal(t, texts(entries(user("u"), mode("a"), mode("a"), mode("a"))), load(t, other, mainKey))
	}
}

// A store that knows a failed batch again must not take the next one of the
// same content for it.
func TestEqualBatchBehindOneThatHadLandedIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		lost := true
		s.AfterAppend = func(context.Context, sessionstore.Key) error {
			if lost {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{Spill: t.TempDir()})
		require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		require.Error(t, m.Flush(t.Context()))
		lost = false
		time.Sleep(time.Minute)
		require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 2)
	})
}

// Whatever fails and however, in the end the store holds exactly what came in.
func TestPropertyEveryEntryArrivesOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "spill")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		mem := inmemory.New()
		var want []string
		id := 0
		fresh := func() sessionstore.Entry { id++; return user(fmt.Sprint("u", id)) }
		for range rapid.IntRange(1, 3).Draw(t, "processes") {
			store := mem.Reopen()
			m := openRapid(t, flaky(t, store), dir)
			first := true
			for range rapid.IntRange(1, 8).Draw(t, "frames") {
				var list []sessionstore.Entry
				if first { // otherwise it can't be told from what was there before
					list, first = entries(fresh()), false
				}
				for range rapid.IntRange(1, 3).Draw(t, "entries") {
					if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
						list = append(list, fresh())
					} else {
						list = append(list, mode("m"))
					}
				}
				want = append(want, texts(list)...)
				require.NoError(t, m.Frame(mainPath, list))
				if rapid.Bool().Draw(t, "flush") {
					_ = m.Flush(context.Background())
				}
			}
			_ = m.Close(context.Background())
		}
		_, err = mirror.Replay(context.Background(), dir, mem.Reopen(), nil)
		require.NoError(t, err)
		got, err := mem.Load(context.Background(), mainKey)
		require.NoError(t, err)
		require.Equal(t, want, texts(got))
	})
}

func openRapid(t *rapid.T, store sessionstore.SessionStore, dir string) *mirror.Mirror {
	m, err := mirror.New(store, projectsDir, &mirror.Options{
		Spill: dir, Attempts: rapid.IntRange(1, 2).Draw(t, "attempts"),
		Pauses: []time.Duration{1}, SpillRetry: time.Duration(rapid.SampledFrom([]int{1, int(time.Hour)}).Draw(t, "retry")),
		Mode: mirror.Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
	})
	require.NoError(t, err)
	return m
}

// flaky makes a store fail, before or after the batch has landed, by a plan.
func flaky(t *rapid.T, store *inmemory.Store) sessionstore.SessionStore {
	plan := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 12).Draw(t, "plan")
	var n atomic.Int64
	step := func() int { return plan[int(n.Add(1))%len(plan)] }
	store.AfterAppend = func(context.Context, sessionstore.Key) error {
		if step() == 1 {
			return errDown
		}
		return nil
	}
	return flakyStore{store, step}
}

type flakyStore struct {
	*inmemory.Store
	step func() int
}

func (s flakyStore) Append(ctx context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	if s.step() == 2 {
		return errDown
	}
	return s.Store.Append(ctx, key, list)
}

func TestCallThatLandsAfterItWasGivenUpIsNotRepeated(t *testing.T) {
	for _, lands := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			s.late = true
			release := make(chan struct{})
			s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
				if n > 1 {
					return nil
				}
				<-release
				if !lands {
					return errDown
				}
				return nil
			}
			m := open(t, s, &mirror.Options{Spill: t.TempDir()})
			require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
			require.Error(t, m.Flush(t.Context()))
			require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
			require.Error(t, m.Flush(t.Context()))
			close(release)
			time.Sleep(time.Minute)
			require.NoError(t, m.Frame(mainPath, entries(mode("m"))))
			require.NoError(t, m.Close(t.Context()))
			require.Len(t, load(t, s, mainKey), 3)
			require.False(t, s.overlap)
		})
	}
}
