package s3store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
)

func TestOptionsThatCannotWork(t *testing.T) {
	client := s3.New(s3.Options{Region: "x"})
	for text, o := range map[string]Options{
		`prefix "/a/": it must not begin with a slash`: {Prefix: "/a"},
		`prefix "a//b/": it has the segment ""`:        {Prefix: "a//b"},
		`prefix "a/../": it has the segment ".."`:      {Prefix: "a/.."},
		`it has 130 bytes, the limit is 128`:           {Prefix: strings.Repeat("x", 129)},
		`it holds a control character, a backslash`:    {Prefix: `a\b`},
		`KMSKeyID needs SSE to be aws:kms`:             {KMSKeyID: "k", SSE: types.ServerSideEncryptionAes256},
		`LoadConcurrency is negative`:                  {LoadConcurrency: -1},
		`a tag has no name, or is longer`:              {Tags: map[string]string{"": "x"}},
		`11 tags, the limit is 10`:                     manyTags(11),
	} {
		_, err := New(client, "b", &o)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "s3store: ")
	}
	_, err := New(nil, "b", nil)
	require.EqualError(t, err, "s3store: the client is nil")
	_, err = New(client, "", nil)
	require.EqualError(t, err, "s3store: the bucket has no name")
}

func manyTags(n int) Options {
	o := Options{Tags: map[string]string{}}
	for i := range n {
		o.Tags[fmt.Sprint(i)] = "x"
	}
	return o
}

func TestOptionsReachTheObjects(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, Options{Prefix: "a", Tags: map[string]string{"k": "v w", "l": "+/="}, StorageClass: types.StorageClassStandard})
	mustAppend(t, s, testKey, title("t"))
	for _, name := range []string{"a/p/s/" + partsOf(t, s, testKey)[0].name.String(), s.indexObject(testKey)} {
		out, err := s.client.(*s3.Client).GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: &b.bucket, Key: &name})
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"k=v w", "l=+/="}, []string{
			*out.TagSet[0].Key + "=" + *out.TagSet[0].Value, *out.TagSet[1].Key + "=" + *out.TagSet[1].Value,
		})
	}
	head, err := s.client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b.bucket, Key: aws.String("a/p/s/" + partsOf(t, s, testKey)[0].name.String())})
	require.NoError(t, err)
	require.Equal(t, linesType, *head.ContentType)
}

func TestLongestNamesFit(t *testing.T) {
	s := newBucket(t).store(t, Options{Prefix: strings.Repeat("x", maxPrefixLen-1)})
	seg := strings.Repeat("y", sessionstore.MaxSegmentLen)
	key := sessionstore.Key{ProjectKey: seg, SessionID: seg, Subpath: seg + "/" + strings.Repeat("z", sessionstore.MaxKeyLen-3*len(seg)-3)}
	require.NoError(t, key.Validate())
	mustAppend(t, s, key, title("t"))
	mustAppend(t, s, key.Main(), title("t"))
	require.Len(t, load(t, s, key), 1)
	require.LessOrEqual(t, len(s.dir(key))+len(partName{}.String()), 1024)
	require.LessOrEqual(t, len(s.indexObject(key)+"-0123456789012"), 1024)
}

func TestPartNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := partName{rapid.Int64Range(0, maxPartMS).Draw(t, "ms"), uint32(rapid.IntRange(0, maxSuffix).Draw(t, "suffix"))}
		b := partName{rapid.Int64Range(0, maxPartMS).Draw(t, "ms"), uint32(rapid.IntRange(0, maxSuffix).Draw(t, "suffix"))}
		got, ok := parsePart(a.String())
		require.True(t, ok)
		require.Equal(t, a, got)
		require.Equal(t, strings.Compare(a.String(), b.String()), a.compare(b))
	})
	for _, name := range []string{
		"", "part-0000000000001-abcdef", "part-0000000000001-ABCDEF.jsonl", "part-000000000001-abcdef.jsonl", "part-00000000000001-abcdef.jsonl",
		"part-+000000000001-abcdef.jsonl", "part-0000000000001-0xbcde.jsonl", "part_0000000000001-abcdef.jsonl", "part-0000000000001-abcdef.jsonx",
	} {
		_, ok := parsePart(name)
		require.False(t, ok, name)
	}
}

func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) segment {
			return segment{
				partName{rapid.Int64Range(0, maxPartMS).Draw(t, "ms"), uint32(rapid.IntRange(0, maxSuffix).Draw(t, "suffix"))},
				rapid.IntRange(0, 1<<30).Draw(t, "lines"),
			}
		}), 1, 50, func(s segment) partName { return s.name }).Draw(t, "segs")
		slices.SortFunc(segs, func(a, b segment) int { return a.name.compare(b.name) })
		got, err := decodeTable(encodeTable(segs))
		require.NoError(t, err)
		require.Equal(t, segs, got)
	})
	for _, text := range []string{"", "1", "1!", "1AAAA", "2AAAA", encodeTable([]segment{{partName{1, 2}, 3}})[:8]} {
		_, err := decodeTable(text)
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, text)
	}
}

func FuzzDecodeTable(f *testing.F) {
	f.Add(encodeTable([]segment{{partName{1, 2}, 3}, {partName{4, 5}, 6}}))
	f.Fuzz(func(t *testing.T, text string) {
		segs, err := decodeTable(text)
		if err != nil {
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			return
		}
		again, err := decodeTable(encodeTable(segs))
		require.NoError(t, err)
		require.Equal(t, segs, again)
	})
}

// A thousand appends every 100 ms or so fit into one object.
func TestTableIsSmall(t *testing.T) {
	var segs []segment
	ms := int64(1_750_000_000_000)
	for n := range 1000 {
		ms += 80 + int64(n*7919%41)
		segs = append(segs, segment{partName{ms, 0xabcdef}, 1 + n*31%5})
	}
	require.LessOrEqual(t, len(encodeTable(segs)), maxTableLen)
}

// Two hosts with skewed clocks append in turn; each loads before it takes over.
func TestSkewedClocks(t *testing.T) {
	b := newBucket(t)
	ahead, behind := b.store(t, manual), b.store(t, manual)
	ahead.timing.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	var want []string
	for n := range 5 {
		for i, s := range []*Store{ahead, behind} {
			load(t, s, testKey)
			for k := range 3 {
				e := entryOf(`{"n":"%d %d %d"}`, n, i, k)
				mustAppend(t, s, testKey, e)
				want = append(want, string(e))
			}
		}
	}
	require.Equal(t, want, load(t, ahead, testKey))
	require.NoError(t, behind.Compact(t.Context(), testKey))
	require.Equal(t, want, load(t, ahead, testKey))
	// A new handle whose clock is right comes behind what is ahead of it, also
	// when it has not loaded anything.
	mustAppend(t, b.store(t, manual), testKey, entryOf(`{"last":1}`))
	require.Equal(t, append(want, `{"last":1}`), load(t, ahead, testKey))
}

func TestClockThatJumpsBack(t *testing.T) {
	s := newBucket(t).store(t, manual)
	now := time.Now()
	s.timing.now = func() time.Time { now = now.Add(-time.Minute); return now }
	for n := range 10 {
		mustAppend(t, s, testKey, entryOf(`{"n":%d}`, n))
	}
	for n, e := range load(t, s, testKey) {
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), e)
	}
}

func TestClockAtItsEnd(t *testing.T) {
	s := newBucket(t).store(t, manual)
	last := partName{maxPartMS, 1}
	require.NoError(t, s.putPart(t.Context(), s.dir(testKey)+last.String(), []byte("{}\n"), ""))
	err := s.Append(t.Context(), testKey, []sessionstore.Entry{title("t")})
	require.ErrorContains(t, err, "no number is left")
	require.Equal(t, []string{"{}"}, load(t, s, testKey))
}

func TestErrorsNameOperationAndKey(t *testing.T) {
	s := newBucket(t).store(t, manual)
	die(s)
	ctx := t.Context()
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "a"}
	_, loadErr := s.Load(ctx, key)
	_, listErr := s.ListSessions(ctx, "p")
	_, purgeErr := s.Purge(ctx, time.Now())
	for text, err := range map[string]error{
		"s3store: append p/s#a: ":    s.Append(ctx, key, []sessionstore.Entry{title("t")}),
		"s3store: load p/s#a: ":      loadErr,
		"s3store: delete p/s#a: ":    s.Delete(ctx, key),
		"s3store: compact p/s#a: ":   s.Compact(ctx, key),
		"s3store: list sessions p: ": listErr,
		"s3store: purge: ":           purgeErr,
	} {
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, errDown)
		var op *sessionstore.OpError
		require.True(t, errors.As(err, &op))
	}
}

// A bucket that is not there is not an empty one.
func TestMissingBucket(t *testing.T) {
	b := newBucket(t)
	b.bucket += "-not"
	s := b.store(t, manual)
	_, err := s.Load(t.Context(), testKey)
	require.ErrorContains(t, err, "NoSuchBucket")
	_, err = s.ListSessions(t.Context(), "p")
	require.ErrorContains(t, err, "NoSuchBucket")
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	b := newBucket(t)
	s := b.store(t, Options{Prefix: "mine"})
	mustAppend(t, s, testKey, title("t"))
	for _, name := range []string{"mine/p/s/notes.txt", "mine/p/s/part-1.jsonl", "mine/p/README", "mine/top", "mine/A B/s/part-0000000000001-abcdef.jsonl", "yours/p/s/part-0000000000001-abcdef.jsonl"} {
		_, err := s.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b.bucket, Key: &name, Body: strings.NewReader("x")})
		require.NoError(t, err)
	}
	require.Len(t, load(t, s, testKey), 1)
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"p"}, projects)
	require.NotZero(t, mtimeOf(t, s, testKey))
	require.NoError(t, s.Delete(t.Context(), testKey))
	objects, _, err := s.listAll(t.Context(), "", false)
	require.NoError(t, err)
	require.Len(t, objects, 4) // what lies in the session goes with it
}

// Appends of one handle to one key at the same time keep entries and summary.
func TestRepeatsInAppendsAtTheSameTime(t *testing.T) {
	b := newBucket(t)
	s := b.lazy(t)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := s.Append(t.Context(), testKey, []sessionstore.Entry{titleOf(fmt.Sprint(n%5), fmt.Sprint(n)), titleOf(fmt.Sprint(n), "x")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, load(t, s, testKey), 20)
	wantFold(t, s, testKey)
}
