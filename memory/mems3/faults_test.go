package mems3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/s3fake"
	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

// fakeStore opens a store as one of the hosts of a fake server.
func fakeStore(tb testing.TB, server *s3fake.Server, account string) *Store {
	tb.Helper()
	s, err := New(newClient(tb, server.URL, "us-east-1", account, "secret"), "bucket", "scope", nil)
	require.NoError(tb, err)
	return s
}

func fakeBucket(tb testing.TB) bucket {
	return bucket{newClient(tb, newFake(tb, nil).URL, "us-east-1", "host", "secret"), "bucket"}
}

func newFake(tb testing.TB, options *s3fake.Options) *s3fake.Server {
	server := s3fake.New(tb, options)
	server.CreateBucket("bucket")
	return server
}

func TestConformanceOnShortPages(t *testing.T) {
	t.Parallel()
	h := harness(func(tb testing.TB) bucket {
		server := newFake(tb, &s3fake.Options{PageSize: 5})
		return bucket{newClient(tb, server.URL, "us-east-1", "host", "secret"), "bucket"}
	})
	h.Short = true
	memorytest.Run(t, h)
}

func contents(tb testing.TB, s *Store) map[string]string {
	tb.Helper()
	list, err := s.List(tb.Context(), memory.Root)
	require.NoError(tb, err)
	all := map[string]string{}
	for _, f := range list {
		got, err := s.Read(tb.Context(), f.Path, 0)
		require.NoError(tb, err)
		all[strings.TrimPrefix(f.Path, memory.Root+"/")] = string(got.Data)
	}
	return all
}

// A host dies after each of its requests, and another one makes one call after
// that: a rename and a delete of a directory are never half done.
func TestARenameThatDiesIsCompletedOrNotBegun(t *testing.T) {
	t.Parallel()
	for server, newBucket := range map[string]func(testing.TB) bucket{"Fake": fakeBucket, "Real": newBucket} {
		t.Run(server+"/Rename", func(t *testing.T) {
			dieAfterEach(t, newBucket(t), func(s *Store) error { return s.Rename(t.Context(), "/memories/d", "/memories/to/d") },
				files{"to/d/1": "one", "to/d/2": "two", "to/d/e/3": "three", "other": "x"})
		})
		t.Run(server+"/Delete", func(t *testing.T) {
			dieAfterEach(t, newBucket(t), func(s *Store) error { return s.Delete(t.Context(), "/memories/d") }, files{"other": "x"})
		})
	}
}

func dieAfterEach(t *testing.T, b bucket, op func(s *Store) error, after files) {
	before := files{"d/1": "one", "d/2": "two", "d/e/3": "three", "other": "x"}
	finished := false
	for n := 0; !finished; n++ {
		require.Less(t, n, 100)
		scope := fmt.Sprint("scope", n)
		other := b.open(t, scope, immortal)
		for path, text := range before {
			require.NoError(t, other.Write(t.Context(), "/memories/"+path, []byte(text), "", memory.Limits{}))
		}
		finished = op(b.open(t, scope, n)) == nil
		// The first call that others make is a read, of what is moved last.
		_, errOld := other.Read(t.Context(), "/memories/d/e/3", 0)
		_, errNew := other.Read(t.Context(), "/memories/to/d/e/3", 0)
		want := after
		if errOld == nil {
			require.False(t, finished)
			want = before
		} else {
			require.ErrorIs(t, errOld, memory.ErrNotFound)
		}
		require.Equal(t, want["to/d/e/3"] != "", errNew == nil)
		require.Equal(t, want, files(contents(t, other)), "died after %d requests", n)
		all, err := other.list(t.Context())
		require.NoError(t, err)
		require.False(t, all.hasIntent, "died after %d requests", n)
	}
}

// The same when two others come at once, and edits go on.
func TestManyCompleteWhatHasDied(t *testing.T) {
	for n := 6; n < 22; n += 3 {
		server := newFake(t, nil)
		hosts := []*Store{fakeStore(t, server, "a"), fakeStore(t, server, "b"), fakeStore(t, server, "c")}
		for i := range 6 {
			require.NoError(t, hosts[0].Write(t.Context(), fmt.Sprintf("/memories/d/%d", i), []byte("old"), "", memory.Limits{}))
		}
		server.Kill("dying", n)
		_ = fakeStore(t, server, "dying").Rename(t.Context(), "/memories/d", "/memories/e")
		done := make(chan error)
		for _, h := range hosts {
			go func() {
				_, err := h.List(t.Context(), memory.Root)
				done <- err
			}()
		}
		for range hosts {
			require.NoError(t, <-done)
		}
		got := contents(t, hosts[0])
		require.Len(t, got, 6)
		for path := range got {
			require.Equal(t, got["d/0"] != "", strings.HasPrefix(path, "d/"), "died after %d requests: %v", n, got)
		}
	}
}

func TestAWriteWhoseAnswerIsLostCountsOnce(t *testing.T) {
	server := newFake(t, nil)
	s := fakeStore(t, server, "host")
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/warm", nil, "", memory.Limits{}))
	isPut := func(key string) func(s3fake.Request) bool {
		return func(r s3fake.Request) bool { return r.Op == "PutObject" && strings.HasSuffix(r.Key, key) }
	}
	server.Once(isPut("/f"), s3fake.Fault{LoseReply: true})
	require.NoError(t, s.Write(ctx, "/memories/f", []byte("1"), "", memory.Limits{}))
	f, err := s.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	server.Once(isPut("/f"), s3fake.Fault{LoseReply: true})
	require.NoError(t, s.Write(ctx, "/memories/f", []byte("12"), f.Version, memory.Limits{}))
	server.Once(isPut("/!intent"), s3fake.Fault{LoseReply: true})
	require.NoError(t, s.Rename(ctx, "/memories/f", "/memories/g"))
	require.Equal(t, map[string]string{"warm": "", "g": "12"}, contents(t, s))
	server.Heal()

	// Others edit before the writer can look.
	other := fakeStore(t, server, "other")
	f, err = s.Read(ctx, "/memories/g", 0)
	require.NoError(t, err)
	server.Once(func(r s3fake.Request) bool { return r.Account == "host" && isPut("/g")(r) }, s3fake.Fault{LoseReply: true, After: func() {
		f, err := other.Read(ctx, "/memories/g", 0)
		require.NoError(t, err)
		require.NoError(t, other.Write(ctx, "/memories/g", append(f.Data, '4'), f.Version, memory.Limits{}))
	}})
	require.NoError(t, s.Write(ctx, "/memories/g", []byte("123"), f.Version, memory.Limits{}))
	require.Equal(t, "1234", contents(t, s)["g"])
}

func TestAWriteThatIsNotAnsweredAndNotDoneIsRepeated(t *testing.T) {
	server := newFake(t, nil)
	s := fakeStore(t, server, "host")
	require.NoError(t, s.Write(t.Context(), "/memories/warm", nil, "", memory.Limits{}))
	server.Once(func(r s3fake.Request) bool { return r.Op == "PutObject" }, s3fake.Fault{Refuse: true})
	require.NoError(t, s.Write(t.Context(), "/memories/f", []byte("1"), "", memory.Limits{}))
	server.Once(func(r s3fake.Request) bool { return r.Op == "PutObject" }, s3fake.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"})
	require.NoError(t, s.Write(t.Context(), "/memories/g", []byte("1"), "", memory.Limits{}))
	require.Len(t, contents(t, s), 3)
}

func TestAServerThatIgnoresConditionsIsRefused(t *testing.T) {
	server := newFake(t, &s3fake.Options{IgnoreConditions: true})
	s := fakeStore(t, server, "host")
	require.ErrorIs(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}), errors.ErrUnsupported)
	require.ErrorIs(t, s.Delete(t.Context(), "/memories/f"), errors.ErrUnsupported)
	require.ErrorIs(t, s.Rename(t.Context(), "/memories/f", "/memories/g"), errors.ErrUnsupported)
	require.Empty(t, server.Keys("bucket", ""))
}

func TestBrokenAnswersAreErrors(t *testing.T) {
	server := newFake(t, &s3fake.Options{PageSize: 2})
	s := fakeStore(t, server, "host")
	for i := range 3 {
		require.NoError(t, s.Write(t.Context(), fmt.Sprintf("/memories/%d", i), []byte("some text"), "", memory.Limits{}))
	}
	server.Once(func(r s3fake.Request) bool { return strings.HasSuffix(r.Key, "/1") }, s3fake.Fault{CutBody: true})
	f, err := s.Read(t.Context(), "/memories/1", 0)
	require.NoError(t, err, "a body that breaks off once is fetched again")
	require.Equal(t, "some text", string(f.Data))
	server.Intercept(func(r s3fake.Request) *s3fake.Fault {
		if strings.HasSuffix(r.Key, "/1") {
			return &s3fake.Fault{CutBody: true}
		}
		return nil
	})
	_, err = s.Read(t.Context(), "/memories/1", 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, memory.ErrNotFound)

	for _, fault := range []s3fake.PageFault{s3fake.MissingToken, s3fake.SameToken} {
		server := newFake(t, &s3fake.Options{PageSize: 2, Pages: fault})
		s := fakeStore(t, server, "host")
		for i := range 5 {
			require.NoError(t, s.Write(t.Context(), fmt.Sprintf("/memories/%d", i), nil, "", memory.Limits{}))
		}
		_, err := s.List(t.Context(), memory.Root)
		require.Error(t, err)
	}
}

func TestLaterIntentsAreLeftAlone(t *testing.T) {
	server := newFake(t, nil)
	s := fakeStore(t, server, "host")
	require.NoError(t, s.Write(t.Context(), "/memories/f", nil, "", memory.Limits{}))
	_, err := s.put(t.Context(), s.base+intentName, []byte(`{"version":2,"id":"x","op":"swap"}`), condition{}, metadata{ops: []string{"x"}})
	require.NoError(t, err)
	_, err = s.Read(t.Context(), "/memories/f", 0)
	require.ErrorContains(t, err, "version 2")
}

func TestWhatIsKnownToHaveChangedNothingSaysSo(t *testing.T) {
	server := newFake(t, nil)
	s := fakeStore(t, server, "host")
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/f", nil, "", memory.Limits{}))
	f, err := s.Read(ctx, "/memories/f", 0)
	require.NoError(t, err)
	changes := map[string]func() error{
		"create": func() error { return s.Write(ctx, "/memories/g", []byte("1"), "", memory.Limits{Files: 9}) },
		"edit":   func() error { return s.Write(ctx, "/memories/f", []byte("1"), f.Version, memory.Limits{Bytes: 9}) },
		"rename": func() error { return s.Rename(ctx, "/memories/f", "/memories/g") },
		"delete": func() error { return s.Delete(ctx, "/memories/f") },
	}
	denied := s3fake.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
	for name, change := range changes {
		for _, test := range []struct {
			what    string
			match   func(s3fake.Request) bool
			fault   s3fake.Fault
			nothing bool
		}{
			{"nothing is answered", func(s3fake.Request) bool { return true }, s3fake.Fault{Refuse: true}, true},
			{"puts are denied", func(r s3fake.Request) bool { return r.Op == "PutObject" }, denied, true},
			{"answers are lost", func(r s3fake.Request) bool { return r.Op == "PutObject" || r.Op == "HeadObject" }, s3fake.Fault{Refuse: true}, false},
		} {
			server.Intercept(func(r s3fake.Request) *s3fake.Fault {
				if test.match(r) {
					return &test.fault
				}
				return nil
			})
			err := change()
			require.Error(t, err, name)
			var definite interface{ NothingDone() }
			require.Equal(t, test.nothing, errors.As(err, &definite), "%s, %s: %v", name, test.what, err)
			server.Heal()
			require.Equal(t, map[string]string{"f": ""}, contents(t, s))
		}
	}
}
