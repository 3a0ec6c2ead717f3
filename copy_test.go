package sessionstore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func entries(texts ...string) []sessionstore.Entry {
	var es []sessionstore.Entry
	for _, s := range texts {
		es = append(es, sessionstore.Entry(s))
	}
	return es
}

func key(parts ...string) sessionstore.Key {
	parts = append(parts, "", "", "")
	return sessionstore.Key{ProjectKey: parts[0], SessionID: parts[1], Subpath: parts[2]}
}

// fill stores numbered entries, every third one without uuid and equal to the
// ones before.
func fill(t testing.TB, s sessionstore.SessionStore, k sessionstore.Key, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		e := fmt.Sprintf(`{"type":"user","uuid":"%v-%d"}`, k.Subpath, i)
		if i%3 == 0 {
			e = `{"type":"mode","mode":"normal"}`
		}
		require.NoError(t, s.Append(t.Context(), k, entries(e)))
	}
}

func requireEqualStores(t testing.TB, a, b sessionstore.SessionStore, scope sessionstore.Key) {
	t.Helper()
	report, err := sessionstore.Verify(t.Context(), a, b, scope, nil)
	require.NoError(t, err)
	require.Empty(t, report.Differences)
	require.NotZero(t, report.Entries)
}

func source(t testing.TB) *inmemory.Store {
	src := inmemory.New()
	fill(t, src, key("p", "s1"), 0, 10)
	fill(t, src, key("p", "s1", "subagents/agent-1"), 0, 7)
	fill(t, src, key("p", "s2"), 0, 4)
	fill(t, src, key("q", "s1"), 0, 3)
	return src
}

func TestCopyOfEachScope(t *testing.T) {
	for scope, want := range map[sessionstore.Key]sessionstore.CopyReport{
		key():                               {Sessions: 3, Transcripts: 4, Entries: 24},
		key("p"):                            {Sessions: 2, Transcripts: 3, Entries: 21},
		key("p", "s1"):                      {Sessions: 1, Transcripts: 2, Entries: 17},
		key("p", "s1", "subagents/agent-1"): {Sessions: 1, Transcripts: 1, Entries: 7},
	} {
		src, dst := source(t), inmemory.New()
		report, err := sessionstore.Copy(t.Context(), dst, src, scope, &sessionstore.CopyOptions{BatchEntries: 3, Concurrency: 2})
		require.NoError(t, err)
		require.NotZero(t, report.Bytes)
		report.Bytes = 0
		require.Equal(t, want, report, "%v", scope)
		requireEqualStores(t, dst, src, scope)

		again, err := sessionstore.Copy(t.Context(), dst, src, scope, nil)
		require.NoError(t, err)
		require.Equal(t, sessionstore.CopyReport{Sessions: want.Sessions, Transcripts: want.Transcripts, Unchanged: want.Transcripts}, again)
		requireEqualStores(t, dst, src, scope)
	}
}

func TestCopyAddsWhatTheSourceHasGained(t *testing.T) {
	src, dst := source(t), inmemory.New()
	_, err := sessionstore.Copy(t.Context(), dst, src, key(), nil)
	require.NoError(t, err)
	fill(t, src, key("p", "s1"), 10, 15)
	report, err := sessionstore.Copy(t.Context(), dst, src, key(), nil)
	require.NoError(t, err)
	require.Equal(t, 5, report.Entries)
	require.Equal(t, 3, report.Unchanged)
	requireEqualStores(t, dst, src, key())
}

// failing fails its nth append, before or after the batch has landed.
type failing struct {
	*inmemory.Store
	n     int
	lands bool
}

var errInjected = errors.New("injected")

func (f *failing) Append(ctx context.Context, k sessionstore.Key, es []sessionstore.Entry) error {
	f.n--
	if f.n != 0 {
		return f.Store.Append(ctx, k, es)
	}
	if f.lands {
		_ = f.Store.Append(ctx, k, es)
	}
	return errInjected
}

func TestCopyInterruptedAnywhereIsCompletedByTheNext(t *testing.T) {
	opts := &sessionstore.CopyOptions{BatchEntries: 2}
	for _, lands := range []bool{false, true} {
		for n := 1; ; n++ {
			src, dst := source(t), &failing{Store: inmemory.New(), n: n, lands: lands}
			_, err := sessionstore.Copy(t.Context(), dst, src, key(), opts)
			if err == nil {
				require.Greater(t, n, 10, "the injection was never reached")
				break
			}
			require.ErrorIs(t, err, errInjected)
			_, err = sessionstore.Copy(t.Context(), dst, src, key(), opts)
			require.NoError(t, err, "after a failure at append %d", n)
			requireEqualStores(t, dst, src, key())
		}
	}
}

func TestCopyToDivergedDestinationChangesNothing(t *testing.T) {
	for name, diverge := range map[string]func(dst *inmemory.Store){
		"another entry": func(dst *inmemory.Store) {
			require.NoError(t, dst.Append(t.Context(), key("p", "s1"), entries(`{"type":"user","uuid":"other"}`)))
		},
		"more entries": func(dst *inmemory.Store) {
			_, err := sessionstore.Copy(t.Context(), dst, source(t), key("p", "s1"), nil)
			require.NoError(t, err)
			require.NoError(t, dst.Append(t.Context(), key("p", "s1"), entries(`{"type":"user","uuid":"other"}`)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := source(t), inmemory.New()
			diverge(dst)
			before := inmemory.New()
			_, err := sessionstore.Copy(t.Context(), before, dst, key(), nil)
			require.NoError(t, err)

			report, err := sessionstore.Copy(t.Context(), dst, src, key(), nil)
			require.ErrorIs(t, err, sessionstore.ErrDiverged)
			require.ErrorContains(t, err, "p/s1: entry ")
			require.Len(t, report.Diverged, 1)
			requireEqualStores(t, dst, before, key())

			report, err = sessionstore.Copy(t.Context(), dst, src, key(), &sessionstore.CopyOptions{SkipDiverged: true})
			require.ErrorIs(t, err, sessionstore.ErrDiverged)
			require.Len(t, report.Diverged, 1)
			requireEqualStores(t, dst, before, key("p", "s1"))
			requireEqualStores(t, dst, src, key("p", "s2"))
			requireEqualStores(t, dst, src, key("q"))
		})
	}
}

func TestCopyDryRunWritesNothing(t *testing.T) {
	dst := inmemory.New()
	report, err := sessionstore.Copy(t.Context(), dst, source(t), key(), &sessionstore.CopyOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 24, report.Entries)
	projects, err := dst.ListProjects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
}

func TestCopyReportsProgress(t *testing.T) {
	var last sessionstore.CopyProgress
	calls := 0
	_, err := sessionstore.Copy(t.Context(), inmemory.New(), source(t), key(), &sessionstore.CopyOptions{
		BatchEntries: 1, Concurrency: 4,
		Progress: func(p sessionstore.CopyProgress) { calls++; last = p },
	})
	require.NoError(t, err)
	require.Equal(t, 4+24+4, calls)
	require.False(t, last.Checking)
	require.Equal(t, 4, last.Transcripts)
	require.Equal(t, 4, last.TotalTranscripts)
	require.Equal(t, 24, last.Entries)
}

func TestCopyOfUnknownSessionIsNotFound(t *testing.T) {
	for _, scope := range []sessionstore.Key{key("p", "none"), key("p", "s1", "none")} {
		_, err := sessionstore.Copy(t.Context(), inmemory.New(), source(t), scope, nil)
		require.ErrorIs(t, err, sessionstore.ErrNotFound)
		_, err = sessionstore.Verify(t.Context(), inmemory.New(), source(t), scope, nil)
		require.ErrorIs(t, err, sessionstore.ErrNotFound)
	}
	_, err := sessionstore.Copy(t.Context(), inmemory.New(), source(t), key("", "s1"), nil)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
}

func TestCopyStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := sessionstore.Copy(ctx, inmemory.New(), source(t), key(), &sessionstore.CopyOptions{
		BatchEntries: 1,
		Progress: func(p sessionstore.CopyProgress) {
			if p.Entries == 3 {
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
}

// plain hides every optional interface.
type plain struct{ sessionstore.SessionStore }

func TestCopyFromStoreThatCannotList(t *testing.T) {
	src, dst := source(t), inmemory.New()
	_, err := sessionstore.Copy(t.Context(), dst, plain{src}, key(), nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	report, err := sessionstore.Copy(t.Context(), dst, plain{src}, key("p", "s1"), nil)
	require.NoError(t, err)
	require.True(t, report.MainOnly)
	require.Equal(t, 10, report.Entries)
}

// lastMetadata is a store that keeps one metadata entry of a subpath and gives
// it first, as the agent's own files do.
type lastMetadata struct{ *inmemory.Store }

func (s lastMetadata) Stream(ctx context.Context, k sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		var meta sessionstore.Entry
		var others []sessionstore.Entry
		for e, err := range s.Store.Stream(ctx, k) {
			if err != nil {
				yield(nil, err)
				return
			}
			if k.Subpath != "" && e.Type() == sessionstore.MetadataType {
				meta = e
				continue
			}
			others = append(others, e)
		}
		if meta != nil {
			others = append([]sessionstore.Entry{meta}, others...)
		}
		for _, e := range others {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Whatever the stores keep of metadata, and wherever a copy is interrupted,
// the copies end up equal and a further one adds nothing.
func TestCopyAlignsMetadataByTheLast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wrap := func(s *inmemory.Store, name string) sessionstore.SessionStore {
			if rapid.Bool().Draw(rt, name) {
				return lastMetadata{s}
			}
			return s
		}
		k := key("p", "s", "subagents/agent-1")
		srcMem, dstMem := inmemory.New(), inmemory.New()
		src, dst := wrap(srcMem, "src keeps the last"), wrap(dstMem, "dst keeps the last")
		uuid := 0
		for round := range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 5).Draw(rt, "entries") {
				e := fmt.Sprintf(`{"type":"agent_metadata","n":%d}`, rapid.IntRange(0, 3).Draw(rt, "n"))
				if rapid.Bool().Draw(rt, "ordinary") {
					uuid++
					e = fmt.Sprintf(`{"uuid":"%d"}`, uuid)
				}
				require.NoError(rt, srcMem.Append(t.Context(), k, entries(e)))
			}
			_, err := sessionstore.Copy(t.Context(), dst, src, k, &sessionstore.CopyOptions{BatchEntries: 2})
			require.NoError(rt, err, "round %d", round)
			report, err := sessionstore.Verify(t.Context(), dst, src, k, nil)
			require.NoError(rt, err)
			require.Empty(rt, report.Differences)
			again, err := sessionstore.Copy(t.Context(), dst, src, k, nil)
			require.NoError(rt, err)
			require.Zero(rt, again.Entries)
			require.Equal(rt, 1, again.Unchanged)
		}
	})
}

func TestVerifyNamesTheFirstDifference(t *testing.T) {
	a, b := source(t), source(t)
	fill(t, a, key("p", "s1"), 10, 11)
	fill(t, b, key("p", "s2"), 7, 8)
	require.NoError(t, a.Append(t.Context(), key("q", "s1"), entries(`{"n":1}`)))
	require.NoError(t, b.Append(t.Context(), key("q", "s1"), entries(`{"n":2}`)))
	fill(t, b, key("p", "s1", "more"), 0, 1)
	report, err := sessionstore.Verify(t.Context(), a, b, key(), nil)
	require.NoError(t, err)
	require.False(t, report.Equal())
	require.Equal(t, []sessionstore.Difference{
		{Key: key("p", "s1"), Entry: 11, Reason: "only the first store has an entry here"},
		{Key: key("p", "s1", "more"), Entry: 1, Reason: "only the second store has an entry here"},
		{Key: key("p", "s2"), Entry: 5, Reason: "only the second store has an entry here"},
		{Key: key("q", "s1"), Entry: 4, Reason: "the stores hold different entries"},
	}, report.Differences)
}

// generator is a store whose one transcript is made while it is read, and
// whose copy is counted and thrown away.
type generator struct {
	entries int
	size    int
	got     int
	peak    uint64
}

func (g *generator) Append(_ context.Context, _ sessionstore.Key, es []sessionstore.Entry) error {
	g.got += len(es)
	if g.got%(64*len(es)) == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		g.peak = max(g.peak, m.HeapAlloc)
	}
	return nil
}

func (g *generator) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return nil, nil
}

func (g *generator) Stream(context.Context, sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		padding := strings.Repeat("x", g.size)
		for i := range g.entries {
			if !yield(sessionstore.Entry(fmt.Sprintf(`{"uuid":"%d","x":"%s"}`, i, padding)), nil) {
				return
			}
		}
	}
}

func TestCopyOfGigabyteStaysInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("copies a gigabyte")
	}
	src, dst := &generator{entries: 1 << 14, size: 64 << 10}, &generator{}
	report, err := sessionstore.Copy(t.Context(), dst, src, key("p", "s", "sub"), nil)
	require.NoError(t, err)
	require.Equal(t, src.entries, dst.got)
	require.GreaterOrEqual(t, report.Bytes, int64(1<<30))
	require.NotZero(t, dst.peak)
	require.LessOrEqual(t, dst.peak, uint64(64<<20))
}

func TestCopyAndVerifyFindSessionsWithoutMainTranscript(t *testing.T) {
	src, dst := source(t), inmemory.New()
	fill(t, src, key("p", "orphan", "subagents/agent-1"), 0, 5)
	fill(t, src, key("r", "orphan", "subagents/agent-1"), 0, 2)
	report, err := sessionstore.Verify(t.Context(), src, dst, key(), nil)
	require.NoError(t, err)
	require.Len(t, report.Differences, 6)
	copied, err := sessionstore.Copy(t.Context(), dst, src, key(), nil)
	require.NoError(t, err)
	require.Equal(t, 6, copied.Transcripts)
	require.Equal(t, 24+7, copied.Entries)
	requireEqualStores(t, dst, src, key())
	requireEqualStores(t, dst, src, key("r"))
	again, err := sessionstore.Copy(t.Context(), dst, src, key("p", "orphan"), nil)
	require.NoError(t, err)
	require.Equal(t, 1, again.Transcripts)
	require.Equal(t, 1, again.Unchanged)
}

func TestPanicOfProgressReachesTheCaller(t *testing.T) {
	for _, concurrency := range []int{0, 4} {
		require.PanicsWithValue(t, "progress", func() {
			_, _ = sessionstore.Copy(t.Context(), inmemory.New(), source(t), key(), &sessionstore.CopyOptions{
				Concurrency: concurrency,
				Progress:    func(sessionstore.CopyProgress) { panic("progress") },
			})
		})
	}
}
