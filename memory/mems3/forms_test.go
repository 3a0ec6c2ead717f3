package mems3

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

// literal makes a server compare If-Match with an etag without quotes, letter by
// letter, and, if it sends them so, give etags without quotes.
type literal struct {
	http.RoundTripper
	sends bool
}

func (l literal) RoundTrip(r *http.Request) (*http.Response, error) {
	if want := r.Header.Get("If-Match"); want != "" {
		r = r.Clone(r.Context())
		r.Header.Set("If-Match", `"`+want+`"`)
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil || !l.sends {
		return resp, err
	}
	if etag := resp.Header.Get("Etag"); etag != "" {
		resp.Header.Set("Etag", strings.Trim(etag, `"`))
	}
	if r.URL.Query().Has("list-type") {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.ReplaceAll(body, []byte("&#34;"), nil)
		resp.Body = io.NopCloser(bytes.NewReader(body))
		resp.ContentLength = int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return resp, nil
}

// literalBucket is on a server that wants etags without quotes.
func literalBucket(tb testing.TB, sends bool) bucket {
	b := fakeBucket(tb)
	options := b.client.Options()
	options.HTTPClient = &http.Client{Transport: literal{options.HTTPClient.(*http.Client).Transport, sends}}
	b.client = s3.New(options)
	return b
}

func TestConformanceWhereEtagsHaveNoQuotes(t *testing.T) {
	t.Parallel()
	h := harness(func(tb testing.TB) bucket { return literalBucket(tb, true) })
	h.Short = true
	memorytest.Run(t, h)
}

// Like Ceph, which sends etags with quotes.
func TestEtagsHaveNoQuotesInConditionsAlone(t *testing.T) {
	b := literalBucket(t, false)
	s, err := New(b.client, b.name, "scope", nil)
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, s.Write(ctx, "/memories/d/f", []byte("1"), "", memory.Limits{}))
	require.True(t, s.unquoted.Load())
	f, err := s.Read(ctx, "/memories/d/f", 0)
	require.NoError(t, err)
	require.NoError(t, s.Write(ctx, "/memories/d/f", []byte("2"), f.Version, memory.Limits{Bytes: 9}))
	require.ErrorIs(t, s.Write(ctx, "/memories/d/f", []byte("3"), f.Version, memory.Limits{}), memory.ErrConflict)
	require.NoError(t, s.Rename(ctx, "/memories/d", "/memories/e"))
	require.Equal(t, map[string]string{"e/f": "2"}, contents(t, s))
	require.NoError(t, s.Delete(ctx, "/memories/e"))
	require.Empty(t, contents(t, s))
}

// The probe is made once.
func TestTheProbeFindsTheFormOfEtags(t *testing.T) {
	server := newFake(t, nil)
	s := fakeStore(t, server, "host")
	require.NoError(t, s.probe(t.Context()))
	require.False(t, s.unquoted.Load())
	require.Len(t, server.Log(), 5)
	require.NoError(t, s.probe(t.Context()))
	require.Len(t, server.Log(), 5)
	require.Empty(t, server.Keys("bucket", ""))
	require.Equal(t, `"0"`, *s.ifMatch("0"))
}

// A server over a file system writes a file under a longer name first when there
// is one, so names that can be created could not be edited.
func TestTheLongestNamesCanBeEdited(t *testing.T) {
	b := newBucket(t)
	s, err := New(b.client, b.name, "scope", nil)
	require.NoError(t, err)
	tool, err := memory.New(s, nil)
	require.NoError(t, err)
	run := func(input string) string {
		t.Helper()
		r := tool.Run(t.Context(), []byte(input))
		require.False(t, r.IsError, "%s: %v", r.Text(), r.Err)
		return r.Text()
	}
	for _, n := range []int{200, 201, 227, 228, 240} {
		name := strings.Repeat("x", n)
		for _, path := range []string{"/memories/" + name, "/memories/d" + name[1:] + "/" + name} {
			run(`{"command":"create","path":"` + path + `","file_text":"old"}`)
			run(`{"command":"str_replace","path":"` + path + `","old_str":"old","new_str":"new"}`)
			require.Contains(t, run(`{"command":"view","path":"`+path+`"}`), "new")
			require.Contains(t, run(`{"command":"view","path":"/memories"}`), path)
			run(`{"command":"rename","old_path":"` + path + `","new_path":"/memories/y"}`)
			run(`{"command":"rename","old_path":"/memories/y","new_path":"` + path + `"}`)
		}
		run(`{"command":"delete","path":"/memories/d` + name[1:] + `"}`)
	}
	require.Len(t, contents(t, s), 5)
}

// The halves of a long name are no directory, and nothing else is named so.
func TestLongNamesStayApart(t *testing.T) {
	s := fakeStore(t, newFake(t, nil), "host")
	head, tail := strings.Repeat("é", longName/6)+"ab", strings.Repeat("z", 30)
	want := map[string]string{}
	for _, path := range []string{head + tail, head + "/" + tail, head + tail[1:] + "/f", head + "y" + tail} {
		want[path] = path
		require.NoError(t, s.Write(t.Context(), "/memories/"+path, []byte(path), "", memory.Limits{}))
	}
	require.Equal(t, want, contents(t, s))
	require.ErrorIs(t, s.Write(t.Context(), "/memories/"+head+tail+"/below", nil, "", memory.Limits{}), memory.ErrNotDirectory)
	require.ErrorIs(t, s.Write(t.Context(), "/memories/"+head+tail[1:], nil, "", memory.Limits{}), memory.ErrExists)
	require.NoError(t, s.Delete(t.Context(), "/memories/"+head+tail))
	require.Len(t, contents(t, s), len(want)-1)
}
