package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

var testKey = sessionstore.Key{ProjectKey: "p", SessionID: "s"}

func entryOf(format string, args ...any) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(format, args...))
}

// manual leaves compaction to the test.
var manual = Options{CompactAfter: -1}

// fillParts appends batches with and without uuids, some of them repeats.
func fillParts(tb testing.TB, s *Store, key sessionstore.Key, from, to int) {
	tb.Helper()
	for n := from; n < to; n++ {
		require.NoError(tb, s.Append(context.Background(), key, []sessionstore.Entry{
			entryOf(`{"type":"user","uuid":"%d"}`, n),
			entryOf(`{"type":"custom-title","customTitle":"same"}`),
			entryOf(`{"type":"user","uuid":"%d","again":true}`, n/2),
		}))
	}
}

func load(tb testing.TB, s *Store, key sessionstore.Key) []string {
	tb.Helper()
	entries, err := s.Load(context.Background(), key)
	require.NoError(tb, err)
	return texts(entries)
}

func texts(entries []sessionstore.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = string(e)
	}
	return list
}

func partsOf(tb testing.TB, s *Store, key sessionstore.Key) []object {
	tb.Helper()
	parts, err := s.parts(context.Background(), s.dir(key))
	require.NoError(tb, err)
	return parts
}

// concatenated is what software reads that knows nothing of segments.
func concatenated(tb testing.TB, s *Store, key sessionstore.Key) (lines []string) {
	tb.Helper()
	for _, o := range partsOf(tb, s, key) {
		body, _, err := s.get(context.Background(), s.dir(key)+o.name.String(), o.size)
		require.NoError(tb, err)
		lines = append(lines, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}
	return lines
}

func TestCompactedTranscriptReadsTheSame(t *testing.T) {
	b := newBucket(t)
	for _, key := range []sessionstore.Key{testKey, {ProjectKey: "p", SessionID: "s", Subpath: "subagents/agent-1"}} {
		s := b.store(t, manual)
		fillParts(t, s, key, 0, 20)
		want := load(t, s, key)
		require.Len(t, want, 40)
		require.NoError(t, s.Compact(t.Context(), key))
		require.Len(t, partsOf(t, s, key), 2) // the newest part stays
		require.Equal(t, want, load(t, s, key))
		require.Equal(t, want, load(t, b.store(t, manual), key))

		// The compacted one holds no repeats any more.
		lines := concatenated(t, s, key)
		require.Equal(t, want, lines[:len(lines)-1])

		fillParts(t, s, key, 20, 30)
		want = load(t, s, key)
		require.NoError(t, s.Compact(t.Context(), key))
		require.Len(t, partsOf(t, s, key), 2)
		require.Equal(t, want, load(t, s, key))
		require.NoError(t, s.Compact(t.Context(), key))
		require.Equal(t, want, load(t, b.store(t, manual), key))
	}
}

func TestCompactionOfNothing(t *testing.T) {
	s := newBucket(t).store(t, manual)
	require.NoError(t, s.Compact(t.Context(), testKey))
	fillParts(t, s, testKey, 0, 2)
	want := partsOf(t, s, testKey)
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.Equal(t, want, partsOf(t, s, testKey))
}

// A host is killed after each single request of a compaction. Whatever is
// there then reads the same, and the next compaction tidies up.
func TestCompactionOfAHostThatDies(t *testing.T) {
	b := newBucket(t)
	for died := true; died; {
		for k := 0; died; k++ {
			key := testKey
			key.SessionID = fmt.Sprint("s", k)
			s := b.store(t, manual)
			fillParts(t, s, key, 0, 6)
			require.NoError(t, s.Compact(t.Context(), key))
			fillParts(t, s, key, 6, 12)
			want := load(t, s, key)

			host := b.store(t, manual)
			wireOf(host).dieAfter(k)
			died = host.Compact(t.Context(), key) != nil
			wireOf(host).down.Store(true)

			require.Equal(t, want, load(t, s, key), "died after %d requests", k)
			other := b.store(t, manual)
			require.Equal(t, want, load(t, other, key), "died after %d requests", k)
			require.NoError(t, other.Compact(t.Context(), key))
			require.Len(t, partsOf(t, s, key), 2, "died after %d requests", k)
			require.Equal(t, want, load(t, other, key), "died after %d requests", k)
			require.Equal(t, want, load(t, s, key), "died after %d requests", k)
		}
	}
}

// Deleting one by one leaves every mixture of sources behind.
func TestLeftoversOfAnyKind(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	const n = 5
	for left := range 1 << n {
		key := testKey
		key.SessionID = fmt.Sprint("s", left)
		fillParts(t, s, key, 0, n+1)
		want := load(t, s, key)
		before := partsOf(t, s, key)
		bodies := make(map[partName][]byte)
		for _, o := range before {
			body, _, err := s.get(t.Context(), s.dir(key)+o.name.String(), o.size)
			require.NoError(t, err)
			bodies[o.name] = body
		}
		require.NoError(t, s.Compact(t.Context(), key))
		for i, o := range before[:n] {
			if left&(1<<i) != 0 {
				require.NoError(t, s.putPart(t.Context(), s.dir(key)+o.name.String(), bodies[o.name], ""))
			}
		}
		other := b.store(t, manual)
		require.Equal(t, want, load(t, other, key))
		require.NoError(t, other.Compact(t.Context(), key))
		require.Equal(t, want, load(t, other, key))
		require.Len(t, partsOf(t, s, key), 2, "%b", left)
	}
}

// Two hosts that compact at once may leave two full objects that share parts.
func TestFullObjectsThatSharePartsBecomeOne(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	filler := strings.Repeat("x", 3<<20)
	for n := range 5 {
		require.NoError(t, s.Append(t.Context(), testKey, []sessionstore.Entry{entryOf(`{"n":%d,"f":%q}`, n, filler)}))
	}
	want := load(t, s, testKey)
	parts := partsOf(t, s, testKey)
	for i, from := range []int{0, 1} {
		var body []byte
		var segs []segment
		for n := from; n < from+3; n++ {
			body = append(append(body, want[n]...), '\n')
			segs = append(segs, segment{parts[n].name, 1})
		}
		name := partName{parts[from].name.ms, uint32(0xaaaaa0 + i)}
		require.NoError(t, s.putPart(t.Context(), s.dir(testKey)+name.String(), body, encodeTable(segs)))
	}
	for _, p := range parts[:4] {
		require.NoError(t, s.deleteAll(t.Context(), []string{s.dir(testKey) + p.name.String()}))
	}
	require.Equal(t, want, load(t, b.store(t, manual), testKey))

	other := b.store(t, manual)
	require.NoError(t, other.Compact(t.Context(), testKey))
	require.Equal(t, want, load(t, other, testKey))
	require.Equal(t, want, concatenated(t, s, testKey), "as the reference adapters read it")
}

func TestPartThatLandsBetweenCompactedOnes(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	now := time.Now().Add(-time.Hour)
	s.timing.now = func() time.Time { now = now.Add(time.Second); return now }
	for n := range 6 {
		require.NoError(t, s.Append(t.Context(), testKey, []sessionstore.Entry{entryOf(`{"n":%d}`, n)}))
	}
	late := partName{now.Add(-3*time.Second).UnixMilli() + 500, 0xabcdef}
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.NoError(t, s.putPart(t.Context(), s.dir(testKey)+late.String(), []byte(`{"n":2.5}`), "")) // no line feed either
	want := []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":2.5}`, `{"n":3}`, `{"n":4}`, `{"n":5}`}
	require.Equal(t, want, load(t, s, testKey))
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.Len(t, partsOf(t, s, testKey), 2)
	require.Equal(t, want, load(t, b.store(t, manual), testKey))
}

func TestRetryAfterTheFirstAttemptWasCompacted(t *testing.T) {
	b := newBucket(t)
	s, other := b.store(t, manual), b.store(t, manual)
	fillParts(t, s, testKey, 0, 2)
	batch := []sessionstore.Entry{entryOf(`{"title":"a"}`), entryOf(`{"title":"a"}`)}
	wireOf(s).lose.Store(1)
	require.Error(t, s.Append(t.Context(), testKey, batch))
	load(t, other, testKey)
	fillParts(t, other, testKey, 2, 4)
	want := load(t, other, testKey)
	require.NoError(t, other.Compact(t.Context(), testKey))
	require.Len(t, partsOf(t, s, testKey), 2)
	require.NoError(t, s.Append(t.Context(), testKey, batch))
	require.Len(t, partsOf(t, s, testKey), 3)
	require.Equal(t, want, load(t, other, testKey))
	require.NoError(t, other.Compact(t.Context(), testKey))
	require.Equal(t, want, load(t, s, testKey))
	require.Len(t, partsOf(t, s, testKey), 2)
}

// Another tool has copied the objects, but not their metadata.
func TestCompactedPartWithoutItsTable(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	fillParts(t, s, testKey, 0, 6)
	want := load(t, s, testKey)
	require.NoError(t, s.Compact(t.Context(), testKey))
	o := partsOf(t, s, testKey)[0]
	name := s.dir(testKey) + o.name.String()
	body, table, err := s.get(t.Context(), name, o.size)
	require.NoError(t, err)
	require.NotEmpty(t, table)
	require.NoError(t, s.putPart(t.Context(), name, body, ""))
	require.Equal(t, want, load(t, b.store(t, manual), testKey))
}

func TestTableOfALaterVersion(t *testing.T) {
	s := newBucket(t).store(t, manual)
	fillParts(t, s, testKey, 0, 3)
	o := partsOf(t, s, testKey)[0]
	require.NoError(t, s.putPart(t.Context(), s.dir(testKey)+o.name.String(), []byte("{}\n"), "2abc"))
	_, err := s.Load(t.Context(), testKey)
	require.ErrorIs(t, err, sessionstore.ErrCorrupt)
	require.ErrorContains(t, err, `has the format "2"`)
}

// Writers, compactors and readers on several hosts at once.
func TestCompactionWhileOthersWriteAndRead(t *testing.T) {
	b := newBucket(t)
	rounds := 25
	if testing.Short() {
		rounds = 6
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	const writers = 3
	for w := range writers {
		s := b.store(t, Options{CompactAfter: 3})
		s.timing.compactEvery = 0
		wg.Go(func() {
			defer s.Close() // ends its compaction, too
			for n := range rounds {
				err := s.Append(context.Background(), testKey, []sessionstore.Entry{
					entryOf(`{"w":%d,"n":%d}`, w, n), entryOf(`{"w":%d,"n":%d,"uuid":"%d-%d"}`, w, n, w, n),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var others sync.WaitGroup
	for range 2 {
		s := b.store(t, manual)
		others.Go(func() {
			for last := 0; ; {
				entries, err := s.Load(context.Background(), testKey)
				if err != nil || len(entries) < last {
					t.Errorf("Load = %d entries, %v, after %d", len(entries), err, last)
					return
				}
				last = len(entries)
				if err := s.Compact(context.Background(), testKey); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
	close(done)
	others.Wait()
	s := b.store(t, manual)
	got := load(t, s, testKey)
	require.Len(t, got, writers*rounds*2)
	for w := range writers {
		own := slices.DeleteFunc(slices.Clone(got), func(e string) bool { return !strings.HasPrefix(e, fmt.Sprintf(`{"w":%d,`, w)) })
		for n := range rounds {
			require.Equal(t, fmt.Sprintf(`{"w":%d,"n":%d}`, w, n), own[2*n])
		}
	}
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.Len(t, partsOf(t, s, testKey), 2)
	require.Equal(t, got, load(t, s, testKey))
}

// pauseBefore runs f once, before the first request that matches.
func (w *wire) pauseBefore(matches func(*http.Request) bool, f func()) {
	var once sync.Once
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = func(r *http.Request) {
		if matches(r) {
			once.Do(f)
		}
	}
}

func isDelete(r *http.Request) bool {
	return r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")
}

func isPut(r *http.Request) bool { return r.Method == http.MethodPut }

// What was deleted while it was being compacted stays deleted.
func TestDeleteDuringACompaction(t *testing.T) {
	for name, matches := range map[string]func(*http.Request) bool{"BeforeItsPut": isPut, "BeforeItsDelete": isDelete} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			s, other := b.store(t, manual), b.store(t, manual)
			fillParts(t, s, testKey, 0, 6)
			wireOf(s).pauseBefore(matches, func() {
				if err := other.Delete(context.Background(), testKey); err != nil {
					t.Error(err)
				}
			})
			require.NoError(t, s.Compact(t.Context(), testKey))
			require.Empty(t, load(t, other, testKey))
			require.Empty(t, partsOf(t, s, testKey))
		})
	}
}

// Before each single request of a compaction another host does all it can do.
func TestCompactionsOfTwoHosts(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	for name, other := range map[string]func(key sessionstore.Key, o *Store) error{
		"Compact": func(key sessionstore.Key, o *Store) error { return o.Compact(context.Background(), key) },
		"AppendAndCompact": func(key sessionstore.Key, o *Store) error {
			return errors.Join(o.Append(context.Background(), key, []sessionstore.Entry{entryOf(`{"late":1}`)}),
				o.Append(context.Background(), key, []sessionstore.Entry{entryOf(`{"late":2}`)}),
				o.Compact(context.Background(), key))
		},
	} {
		for k, reached := 0, true; reached; k++ {
			key := sessionstore.Key{ProjectKey: name, SessionID: fmt.Sprint("s", k)}
			fillParts(t, s, key, 0, 6)
			require.NoError(t, s.Compact(t.Context(), key))
			fillParts(t, s, key, 6, 12)
			want := load(t, s, key)

			host, o := b.store(t, manual), b.store(t, manual)
			reached = false
			wireOf(host).pauseAfter(k, func() {
				reached = true
				if err := other(key, o); err != nil {
					t.Error(err)
				}
			})
			require.NoError(t, host.Compact(t.Context(), key))
			got := load(t, s, key)
			require.Equal(t, want, got[:min(len(want), len(got))], "%s before request %d", name, k)
			require.NoError(t, b.store(t, manual).Compact(t.Context(), key))
			require.Equal(t, got, load(t, o, key), "%s before request %d", name, k)
			require.Len(t, partsOf(t, s, key), 2, "%s before request %d", name, k)
		}
	}
}

// pauseAfter runs f once, after n requests and before the next one.
func (w *wire) pauseAfter(n int, f func()) {
	count := 0
	var mu sync.Mutex
	w.pauseBefore(func(*http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		count++
		return count > n
	}, f)
}

// A part disappears between the list and the fetch.
func TestReadWhileObjectsArePutTogether(t *testing.T) {
	b := newBucket(t)
	for name, read := range map[string]func(s *Store) ([]string, error){
		"Load": func(s *Store) ([]string, error) {
			entries, err := s.Load(context.Background(), testKey)
			return texts(entries), err
		},
		"Stream": func(s *Store) (all []string, err error) {
			for e, err := range s.Stream(context.Background(), testKey) {
				if err != nil {
					return all, err
				}
				all = append(all, string(e))
			}
			return all, nil
		},
	} {
		s, other := b.store(t, manual), b.store(t, manual)
		require.NoError(t, s.Delete(t.Context(), testKey))
		fillParts(t, s, testKey, 0, 12)
		want := load(t, s, testKey)
		gets := 0
		var mu sync.Mutex
		wireOf(s).pauseBefore(func(r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodGet && !r.URL.Query().Has("list-type") {
				gets++
			}
			return gets == 4
		}, func() {
			if err := other.Compact(context.Background(), testKey); err != nil {
				t.Error(err)
			}
		})
		got, err := read(s)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Len(t, partsOf(t, s, testKey), 2)
	}
}

// After 10,000 appends a load takes few requests.
func TestManyAppendsThenLoad(t *testing.T) {
	appends := 10_000
	if testing.Short() {
		appends = 1_000
	}
	b := newBucket(t)
	s := b.store(t, Options{})
	for n := range appends {
		require.NoError(t, s.Append(t.Context(), testKey, []sessionstore.Entry{entryOf(`{"n":%d}`, n)}))
	}
	s.jobs.Wait() // for what the appends have begun in the background
	reader := b.store(t, manual)
	got := load(t, reader, testKey)
	require.Len(t, got, appends)
	for n := range got {
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), got[n])
	}
	c := wireOf(reader).reset()
	t.Logf("%d appends: %+v", appends, wireOf(s).reset())
	t.Logf("load: %+v", c)
	require.LessOrEqual(t, c.total(), 64)
}

func TestCompactionOfPartsByOtherSoftware(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, manual)
	var want []string
	for n := range 450 {
		name := partName{1_700_000_000_000 + int64(n)*37, randomSuffix()}.String()
		body := fmt.Sprintf(`{"type":"user","uuid":"%d"}`, n)
		want = append(want, body)
		key := s.dir(testKey) + name
		_, err := s.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: strings.NewReader(body + "\n")})
		require.NoError(t, err)
	}
	require.Equal(t, want, load(t, s, testKey))
	require.NoError(t, s.Compact(t.Context(), testKey))
	require.LessOrEqual(t, len(partsOf(t, s, testKey)), 6)
	require.Equal(t, want, load(t, s, testKey))
	require.Equal(t, want, concatenated(t, s, testKey))
}
