package mems3

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/s3fake"
	"github.com/sessionstore/sessionstore/memory"
)

func putOf(account, end string) func(s3fake.Request) bool {
	return func(r s3fake.Request) bool {
		return r.Account == account && r.Op == "PutObject" && strings.HasSuffix(r.Key, end)
	}
}

// two returns two hosts with one file, both of which know the server.
func two(t *testing.T) (server *s3fake.Server, late, other *Store) {
	server = newFake(t, nil)
	late, other = fakeStore(t, server, "late"), fakeStore(t, server, "other")
	require.NoError(t, late.probe(t.Context()))
	require.NoError(t, other.Write(t.Context(), "/memories/old/f", []byte("text"), "", memory.Limits{}))
	return server, late, other
}

// Nobody but the host itself has touched the file: another one has only looked,
// and so completed what it found.
func TestAnIntentWhoseAnswerIsLostAndThatOthersCompleteIsNoMistake(t *testing.T) {
	for _, op := range []string{"rename", "delete"} {
		server, late, other := two(t)
		server.Once(putOf("late", "/!intent"), s3fake.Fault{LoseReply: true, After: func() {
			_, err := other.List(t.Context(), memory.Root)
			assert.NoError(t, err)
		}})
		if op == "rename" {
			require.NoError(t, late.Rename(t.Context(), "/memories/old", "/memories/new"))
			require.Equal(t, map[string]string{"new/f": "text"}, contents(t, other))
		} else {
			err := late.Delete(t.Context(), "/memories/old")
			require.ErrorContains(t, err, "not known")
			require.NotErrorIs(t, err, memory.ErrNotFound)
			require.Empty(t, contents(t, other))
		}
		require.Empty(t, server.Keys("bucket", "!memory/scope/!intent"))
	}
}

// A host stands still before it writes a file of its rename; others complete
// the rename, and then move or delete the file.
func TestAHostThatComesTooLateBringsNothingBack(t *testing.T) {
	for _, then := range []string{"delete", "rename away", "rename back", "nothing"} {
		for _, key := range []string{"/new/f", "/old/f"} {
			t.Run(then+key, func(t *testing.T) {
				server, late, other := two(t)
				ctx := t.Context()
				want := map[string]string{"new/f": "text"}
				server.Once(putOf("late", key), s3fake.Fault{Before: func() {
					_, err := other.List(ctx, memory.Root)
					assert.NoError(t, err)
					switch then {
					case "delete":
						assert.NoError(t, other.Delete(ctx, "/memories/new"))
						want = map[string]string{}
					case "rename away":
						assert.NoError(t, other.Rename(ctx, "/memories/new", "/memories/archive"))
						want = map[string]string{"archive/f": "text"}
					case "rename back":
						assert.NoError(t, other.Rename(ctx, "/memories/new", "/memories/old"))
						want = map[string]string{"old/f": "text"}
					}
				}})
				require.NoError(t, late.Rename(ctx, "/memories/old", "/memories/new"))
				require.Equal(t, want, contents(t, other))
				require.Len(t, server.Keys("bucket", "!memory/scope/"), len(want))
			})
		}
	}
}

// The copy that the late host has made is the one that others have gone on with.
func TestACopyThatOthersHaveGoneOnWithIsNotTakenBack(t *testing.T) {
	server, late, other := two(t)
	server.Once(putOf("late", "/new/f"), s3fake.Fault{After: func() {
		_, err := other.List(t.Context(), memory.Root)
		assert.NoError(t, err)
	}})
	require.NoError(t, late.Rename(t.Context(), "/memories/old", "/memories/new"))
	require.Equal(t, map[string]string{"new/f": "text"}, contents(t, other))
}

// A host died when it had put a mark after the intent had ended.
func TestWhatIsMarkedTooLateDoesNotCount(t *testing.T) {
	for name, first := range map[string]func(s *Store) error{
		"List": func(s *Store) error {
			list, err := s.List(t.Context(), memory.Root)
			assert.Len(t, list, 1)
			return err
		},
		"Read": func(s *Store) error {
			_, err := s.Read(t.Context(), "/memories/d/draft", 0)
			assert.ErrorIs(t, err, memory.ErrNotFound)
			f, err := s.Read(t.Context(), "/memories/d/held", 4)
			assert.Equal(t, "text", string(f.Data))
			return err
		},
		"Write": func(s *Store) error {
			assert.ErrorIs(t, s.Write(t.Context(), "/memories/d/held", nil, "", memory.Limits{}), memory.ErrExists)
			assert.NoError(t, s.Write(t.Context(), "/memories/d/draft", nil, "", memory.Limits{Files: 2, Bytes: 4}))
			return s.Delete(t.Context(), "/memories/d/draft")
		},
		"Write without limits": func(s *Store) error {
			assert.NoError(t, s.Write(t.Context(), "/memories/d/draft/below", nil, "", memory.Limits{}))
			return s.Delete(t.Context(), "/memories/d/draft")
		},
		"Delete": func(s *Store) error {
			assert.ErrorIs(t, s.Delete(t.Context(), "/memories/d/draft"), memory.ErrNotFound)
			return nil
		},
		"Rename": func(s *Store) error {
			assert.NoError(t, s.Rename(t.Context(), "/memories/d", "/memories/e"))
			return s.Rename(t.Context(), "/memories/e", "/memories/d")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeStore(t, newFake(t, nil), "host")
			for _, kind := range []string{held, draft} {
				d := metadata{ops: []string{"y"}, mark: mark{kind, "SOME", "y"}}
				_, err := s.put(t.Context(), s.name("/memories/d/"+kind), []byte("text"), condition{}, d)
				require.NoError(t, err)
			}
			require.NoError(t, first(s))
			require.Equal(t, map[string]string{"d/held": "text"}, contents(t, s))
			all, err := s.list(t.Context())
			require.NoError(t, err)
			require.Equal(t, int64(4), all.bytes())
		})
	}
}

// A file was made while a rename ran, and one of two hosts that carried it out
// has seen it, and died when it had marked it.
func TestAClosedIntentCleansUp(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"rename, held":          {"old/f": "text"},
		"rename, held, draft":   {"old/f": "text"},
		"rename, held, moved":   {"new/f": "text"},
		"rename, draft":         {},
		"rename, held, other":   {"old/f": "text", "new/f": "other"},
		"rename, held, another": {"old/f": "text", "new/f": "another"},
		"delete, held":          {},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFake(t, nil)
			s := fakeStore(t, server, "host")
			put := func(path, text string, d metadata) {
				d.ops = []string{"hold"}
				_, err := s.put(t.Context(), path, []byte(text), condition{}, d)
				require.NoError(t, err)
			}
			op, rest, _ := strings.Cut(name, ", ")
			put(s.base+intentName, `{"version":1,"id":"ID","op":"`+op+`","from":"/memories/old","to":"/memories/new","closed":true}`, metadata{})
			for part := range strings.SplitSeq(rest, ", ") {
				switch part {
				case "held":
					put(s.name("/memories/old/f"), "text", metadata{mark: mark{held, "ID", "hold"}})
				case "draft":
					put(s.name("/memories/new/f"), "text", metadata{mark: mark{draft, "ID", "hold"}, intent: "ID hold"})
				case "moved":
					put(s.name("/memories/new/f"), "text", metadata{intent: "ID hold"})
				case "other":
					put(s.name("/memories/new/f"), part, metadata{})
				case "another":
					put(s.name("/memories/new/f"), part, metadata{intent: "ID another"})
				}
			}
			require.Equal(t, want, contents(t, s))
			require.Len(t, server.Keys("bucket", "!memory/scope/"), len(want))
		})
	}
}

// What two writes have marked has two etags, and a size by which a list knows it.
func TestMarksAreUniqueAndKnownBySize(t *testing.T) {
	m := mark{draft, "ID", "hold"}
	for size := range 2 * markUnit {
		data := m.wrap("one", make([]byte, size))
		require.True(t, mayBeMarked(int64(len(data))))
		require.LessOrEqual(t, len(data)-size, maxMarkBytes)
		require.NotEqual(t, data, m.wrap("two", make([]byte, size)))
	}
}
