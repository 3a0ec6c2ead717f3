package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testProject = "p"
	testID      = "bbbbbbbb-0000-4000-8000-000000000001"
	otherID     = "bbbbbbbb-0000-4000-8000-000000000002"
	unknownID   = "99999999-9999-4999-8999-999999999999"
)

func mainKey(id string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: testProject, SessionID: id}
}

func subKey(id, sub string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: testProject, SessionID: id, Subpath: sub}
}

// timedStore has the modification times that a recording says.
type timedStore struct {
	*inmemory.Store
	mtimes map[string]int64
}

func (s *timedStore) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	list, err := s.Store.ListSessions(ctx, project)
	for i := range list {
		list[i].Mtime = s.mtimes[list[i].SessionID]
	}
	sessionstore.SortSessions(list)
	return list, err
}

func (s *timedStore) ListSessionSummaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	list, err := s.Store.ListSessionSummaries(ctx, project)
	for i := range list {
		list[i].Mtime = s.mtimes[list[i].SessionID]
	}
	slices.SortFunc(list, func(a, b sessionstore.SessionSummary) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), cmp.Compare(a.SessionID, b.SessionID))
	})
	return list, err
}

// bareStore has the two methods that every store has and nothing else.
type bareStore struct{ sessionstore.SessionStore }

// noSummaries can do everything but keep summaries and stream.
type noSummaries struct {
	sessionstore.SessionStore
	sessionstore.SessionLister
	sessionstore.SubkeyLister
	sessionstore.Deleter
}

func withoutSummaries(s interface {
	sessionstore.SessionStore
	sessionstore.SessionLister
	sessionstore.SubkeyLister
	sessionstore.Deleter
}) noSummaries {
	return noSummaries{s, s, s, s}
}

// noStore fails the test when it is called.
type noStore struct{ t *testing.T }

func (s noStore) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error {
	s.t.Error("the store was called")
	return nil
}

func (s noStore) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	s.t.Error("the store was called")
	return nil, nil
}

func (s noStore) Delete(context.Context, sessionstore.Key) error {
	s.t.Error("the store was called")
	return nil
}

func (s noStore) ListSubkeys(context.Context, string, string) ([]string, error) {
	s.t.Error("the store was called")
	return nil, nil
}

// newStore returns a store that holds a session.
func newStore(t testing.TB, id string, entries ...string) *inmemory.Store {
	s := inmemory.New()
	appendTo(t, s, mainKey(id), entries...)
	return s
}

func appendTo(t testing.TB, s sessionstore.SessionStore, key sessionstore.Key, entries ...string) {
	t.Helper()
	var batch []sessionstore.Entry
	for _, e := range entries {
		batch = append(batch, sessionstore.Entry(e))
	}
	require.NoError(t, s.Append(t.Context(), key, batch))
}

func load(t testing.TB, s sessionstore.SessionStore, key sessionstore.Key) []sessionstore.Entry {
	t.Helper()
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	return entries
}

// user, assistant and the like make entries; parent "" is a root.
func entry(typ, uuid, parent, more string) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	return `{"type":"` + typ + `","uuid":"` + uuid + `","parentUuid":` + p + more + `}`
}

func user(uuid, parent string) string {
	return entry("user", uuid, parent, `,"message":{"role":"user","content":"`+uuid+`"}`)
}

func assistant(uuid, parent string) string {
	return entry("assistant", uuid, parent, `,"message":{"role":"assistant","content":[{"type":"text","text":"`+uuid+`"}]}`)
}

func uuids(c Conversation) []string {
	list := []string{}
	for _, m := range c.Messages {
		list = append(list, m.UUID)
	}
	return list
}

func messages(t testing.TB, s sessionstore.SessionStore, opts *MessagesOptions) Conversation {
	t.Helper()
	c, err := Messages(t.Context(), s, mainKey(testID), opts)
	require.NoError(t, err)
	return c
}

// scripted makes the uuids of a list, in its order, and has a clock that stands.
func scripted(t testing.TB, now string, ids ...string) maker {
	at, err := time.Parse(time.RFC3339Nano, cmp.Or(now, "2030-01-01T00:00:00Z"))
	require.NoError(t, err)
	return maker{
		now: func() time.Time { return at },
		newUUID: func() uuid {
			if ids == nil {
				return randomUUID()
			}
			require.NotEmpty(t, ids, "more uuids than expected")
			u := parseUUID(t, ids[0])
			ids = ids[1:]
			return u
		},
	}
}

func parseUUID(t testing.TB, s string) (u uuid) {
	digits, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	require.NoError(t, err)
	require.Len(t, digits, 16)
	copy(u[:], digits)
	return u
}

// plain returns a value as encoding/json decodes its JSON form.
func plain(t testing.TB, v any) any {
	t.Helper()
	data, ok := v.(json.RawMessage)
	if !ok {
		var err error
		data, err = json.Marshal(v)
		require.NoError(t, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out any
	require.NoError(t, dec.Decode(&out))
	return out
}

// without drops members of an object or of each object of an array.
func without(v any, names ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, n := range names {
			delete(v, n)
		}
	case []any:
		for _, e := range v {
			without(e, names...)
		}
	}
	return v
}

func testdata(parts ...string) string {
	return filepath.Join(append([]string{"..", "testdata", "transcripts"}, parts...)...)
}

func decodeLines[T any](t testing.TB, file string) (list []T) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var v T
		err := dec.Decode(&v)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err, file)
		list = append(list, v)
	}
}
