package s3store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/s3fake"
)

func TestBrokenPagesAreErrors(t *testing.T) {
	for name, fault := range map[string]s3fake.PageFault{"MissingToken": s3fake.MissingToken, "SameToken": s3fake.SameToken} {
		t.Run(name, func(t *testing.T) {
			opts := &s3fake.Options{PageSize: 2, Pages: fault}
			w := newWorld(t, opts)
			s := w.host("a")
			// Written by somebody else: appends may list too.
			for i := range 5 {
				putPart(t, w, fmt.Sprintf("proj/sess%d/part-170000000000%d-00000%d.jsonl", i, i, i), numberedList(i, i+1))
				putPart(t, w, fmt.Sprintf("proj/sess/part-170000000000%d-00000%d.jsonl", i, i), numberedList(i, i+1))
				putPart(t, w, fmt.Sprintf("proj%d/sess/part-170000000000%d-00000%d.jsonl", i, i, i), numberedList(i, i+1))
			}
			for op, f := range map[string]func() error{
				"load":          func() error { _, err := s.Load(t.Context(), fakeKey); return err },
				"stream":        func() error { _, err := drain(t.Context(), s); return err },
				"list sessions": func() error { _, err := s.ListSessions(t.Context(), "proj"); return err },
				"list projects": func() error { _, err := s.ListProjects(t.Context()); return err },
				"list subkeys":  func() error { _, err := s.ListSubkeys(t.Context(), "proj", "sess"); return err },
				"compact":       func() error { return s.Compact(t.Context(), fakeKey) },
			} {
				err := f()
				require.Error(t, err, op)
				require.NotErrorIs(t, err, sessionstore.ErrNotFound, op)
				require.ErrorContains(t, err, "token", op)
			}
			require.Len(t, w.parts(), 5, "nothing was deleted")
		})
	}
}

func putPart(t *testing.T, w world, key string, entries []sessionstore.Entry) {
	t.Helper()
	_, err := w.client("reference").PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(fakeBucket), Key: aws.String(key), Body: strings.NewReader(strings.Join(lines(entries), "\n") + "\n"),
	})
	require.NoError(t, err)
}

func TestRepeatedPrefixesAreListedOnce(t *testing.T) {
	w := newWorld(t, &s3fake.Options{PageSize: 2, Pages: s3fake.RepeatedPrefixes})
	s := w.host("a")
	for _, key := range []sessionstore.Key{{ProjectKey: "p", SessionID: "s1"}, {ProjectKey: "p", SessionID: "s10"}, {ProjectKey: "p-x", SessionID: "s1"}} {
		for n := range 5 {
			require.NoError(t, s.Append(t.Context(), key, numberedList(n, n+1)))
			key := key
			key.Subpath = "subagents/agent-1"
			require.NoError(t, s.Append(t.Context(), key, numberedList(n, n+1)))
		}
	}
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"p", "p-x"}, projects)
	sessions, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, sessions, 2)
	subs, err := s.ListSubkeys(t.Context(), "p", "s1")
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/agent-1"}, subs)
}

func TestCutBodyIsNeverAShorterTranscript(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		w := newWorld(t, nil)
		a := w.host("a")
		appendEach(t, a, 0, 12)
		if compacted {
			require.NoError(t, a.Compact(t.Context(), fakeKey))
		}
		w.Intercept(func(r s3fake.Request) *s3fake.Fault { return &s3fake.Fault{CutBody: r.Op == "GetObject"} })
		_, err := w.host("b").Load(t.Context(), fakeKey)
		require.Error(t, err)
		got, err := drain(t.Context(), w.host("b"))
		require.Error(t, err)
		require.Equal(t, lines(numberedList(0, len(got))), lines(got))
		before := w.parts()
		err = w.host("b").Compact(t.Context(), fakeKey)
		require.True(t, compacted || err != nil, "what was not read is not written")
		require.Equal(t, before, w.parts())
		w.Heal()
		requireHolds(t, w.host("b"), numberedList(0, 12), "healed")

		// One body is cut, and whoever tries again gets the whole.
		w.Once(isOp("GetObject"), s3fake.Fault{CutBody: true})
		if got, err := w.host("b").Load(t.Context(), fakeKey); err == nil {
			require.Equal(t, lines(numberedList(0, 12)), lines(got))
		}
	}
}

func TestEachFailedRequestFailsTheRead(t *testing.T) {
	w := newWorld(t, &s3fake.Options{PageSize: 5})
	a := w.host("a")
	appendEach(t, a, 0, 12)
	require.NoError(t, a.Compact(t.Context(), fakeKey))
	appendEach(t, a, 12, 18)
	require.NoError(t, a.Close()) // what it does in the background is not counted
	for step, more := 1, true; more; step++ {
		for op, f := range map[string]func(*Store) ([]sessionstore.Entry, error){
			"load":   func(s *Store) ([]sessionstore.Entry, error) { return s.Load(t.Context(), fakeKey) },
			"stream": func(s *Store) ([]sessionstore.Entry, error) { return drain(t.Context(), s) },
		} {
			seen := &counter{}
			w.Intercept(func(r s3fake.Request) *s3fake.Fault {
				if seen.next() == step {
					return &s3fake.Fault{Status: 500, Code: "InternalError"}
				}
				return nil
			})
			got, err := f(w.host("b"))
			w.Heal()
			more = seen.value() >= step
			if more {
				require.ErrorContains(t, err, "InternalError", "%s, request %d", op, step)
			} else {
				require.NoError(t, err)
				require.Equal(t, lines(numberedList(0, 18)), lines(got))
			}
		}
	}
}

func TestSlowDownIsRetriedByTheClient(t *testing.T) {
	w := newWorld(t, nil)
	w.Intercept(func(r s3fake.Request) *s3fake.Fault {
		if firstTry(r) {
			return &slowDown
		}
		return nil
	})
	s := w.hostWith("a", w.client("a", retries), Options{CompactAfter: -1})
	appendEach(t, s, 0, 12)
	require.NoError(t, s.Compact(t.Context(), fakeKey))
	requireHolds(t, s, numberedList(0, 12), "throttled")
	sessions, err := s.ListSessions(t.Context(), fakeKey.ProjectKey)
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.NoError(t, s.Delete(t.Context(), fakeKey))
	w.Heal()
	requireGone(t, w)
}

func firstTry(r s3fake.Request) bool {
	return strings.HasPrefix(r.Header.Get("Amz-Sdk-Request"), "attempt=1;")
}

func TestEveryReplyIsLostOnceAndTheClientRetries(t *testing.T) {
	w := newWorld(t, nil)
	w.Intercept(func(r s3fake.Request) *s3fake.Fault { return &s3fake.Fault{LoseReply: firstTry(r)} })
	s := w.hostWith("a", w.client("a", retries), Options{CompactAfter: -1})
	appendEach(t, s, 0, 12)
	require.NoError(t, s.Compact(t.Context(), fakeKey))
	w.Heal()
	requireHolds(t, w.host("b"), numberedList(0, 12), "retried")
	requireSettled(t, w, numberedList(0, 12), "retried")
}

// The first attempt lands, others see it, put it together with other parts,
// and only then the caller tries again.
func TestRetriedAppendIsStoredOnce(t *testing.T) {
	twice := sessionstore.Entry(`{"type":"mode","same":true}`)
	batch := []sessionstore.Entry{twice, numbered(100), twice}
	for name, between := range map[string]func(t *testing.T, w world){
		"AtOnce": func(*testing.T, world) {},
		"AfterOthersAppended": func(t *testing.T, w world) {
			b := w.host("b")
			_, err := b.Load(t.Context(), fakeKey)
			require.NoError(t, err)
			appendEach(t, b, 12, 14)
		},
		"AfterItWasCompacted": func(t *testing.T, w world) {
			b := w.host("b")
			_, err := b.Load(t.Context(), fakeKey)
			require.NoError(t, err)
			appendEach(t, b, 12, 14)
			require.NoError(t, b.Compact(t.Context(), fakeKey))
		},
		"AfterTwoCompactions": func(t *testing.T, w world) {
			b := w.host("b")
			_, err := b.Load(t.Context(), fakeKey)
			require.NoError(t, err)
			appendEach(t, b, 12, 13)
			require.NoError(t, b.Compact(t.Context(), fakeKey))
			appendEach(t, b, 13, 14)
			require.NoError(t, b.Compact(t.Context(), fakeKey))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.host("a")
			appendEach(t, a, 0, 12)
			w.Once(isOp("PutObject"), s3fake.Fault{LoseReply: true})
			require.Error(t, a.Append(t.Context(), fakeKey, batch))
			between(t, w)
			require.NoError(t, a.Append(t.Context(), fakeKey, batch))
			require.NoError(t, a.Append(t.Context(), fakeKey, []sessionstore.Entry{numbered(200)}))
			want := append(numberedList(0, 12), batch...)
			if name != "AtOnce" {
				want = append(want, numberedList(12, 14)...)
			}
			got, err := w.host("c").Load(t.Context(), fakeKey)
			require.NoError(t, err)
			requireOrder(t, got, want)
			require.Len(t, got, len(want)+1)
			requireSettled(t, w, got, "after the retry")
		})
	}
}

func TestCancelledAppendIsRetried(t *testing.T) {
	w := newWorld(t, nil)
	a := w.host("a")
	appendEach(t, a, 0, 3)
	ctx, cancel := context.WithCancel(t.Context())
	w.Once(isOp("PutObject"), s3fake.Fault{After: cancel})
	require.ErrorIs(t, a.Append(ctx, fakeKey, numberedList(3, 4)), context.Canceled)
	require.NoError(t, a.Append(t.Context(), fakeKey, numberedList(3, 4)))
	requireHolds(t, w.host("b"), numberedList(0, 4), "after the retry")
}

// Where the server refuses trailers, or wants a checksum, the client's own
// setting decides.
func TestClientSettingsForChecksums(t *testing.T) {
	whenRequired := func(o *s3.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	work := func(t *testing.T, w world, s *Store) {
		appendEach(t, s, 0, 12)
		require.NoError(t, s.Compact(t.Context(), fakeKey))
		requireHolds(t, s, numberedList(0, 12), "compacted")
		require.NoError(t, s.Delete(t.Context(), fakeKey))
		requireGone(t, w)
	}
	t.Run("ServerWithoutTrailers", func(t *testing.T) {
		w := newWorld(t, &s3fake.Options{TLS: true, RefuseTrailers: true})
		work(t, w, w.hostWith("a", w.client("a", whenRequired), Options{CompactAfter: -1}))
	})
	t.Run("BucketThatWantsChecksums", func(t *testing.T) {
		w := newWorld(t, nil)
		w.Intercept(func(r s3fake.Request) *s3fake.Fault {
			if r.Op == "PutObject" && r.Header.Get("X-Amz-Checksum-Crc32") == "" && r.Header.Get("Content-Md5") == "" {
				return &s3fake.Fault{Status: 400, Code: "InvalidRequest"}
			}
			return nil
		})
		s := w.host("a")
		appendEach(t, s, 0, 12)
		require.NoError(t, s.Compact(t.Context(), fakeKey))
		requireHolds(t, s, numberedList(0, 12), "compacted")
	})
	t.Run("DefaultOverTLS", func(t *testing.T) {
		w := newWorld(t, &s3fake.Options{TLS: true})
		work(t, w, w.host("a"))
	})
}

func TestIgnoredConditionsChangeNothing(t *testing.T) {
	w := newWorld(t, nil)
	s := w.host("a")
	appendEach(t, s, 0, 12)
	require.NoError(t, s.Compact(t.Context(), fakeKey))
	for _, r := range w.Log() {
		require.Empty(t, r.Header.Get("If-None-Match"), r.Op)
		require.Empty(t, r.Header.Get("If-Match"), r.Op)
	}
}
