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

func TestATombstoneThatIsLeftIsNoFile(t *testing.T) {
	for name, first := range map[string]func(s *Store) error{
		"List": func(s *Store) error {
			list, err := s.List(t.Context(), memory.Root)
			assert.Empty(t, list)
			return err
		},
		"Read": func(s *Store) error {
			_, err := s.Read(t.Context(), "/memories/d/f", 0)
			assert.ErrorIs(t, err, memory.ErrNotFound)
			return nil
		},
		"Write": func(s *Store) error {
			return s.Write(t.Context(), "/memories/d/f", []byte("new"), "", memory.Limits{Files: 1})
		},
		"Write without limits": func(s *Store) error {
			return s.Write(t.Context(), "/memories/d/f", []byte("new"), "", memory.Limits{})
		},
		"Write above": func(s *Store) error { return s.Write(t.Context(), "/memories/d", nil, "", memory.Limits{}) },
		"Write below": func(s *Store) error { return s.Write(t.Context(), "/memories/d/f/g", nil, "", memory.Limits{}) },
		"Delete": func(s *Store) error {
			assert.ErrorIs(t, s.Delete(t.Context(), "/memories/d/f"), memory.ErrNotFound)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeStore(t, newFake(t, nil), "host")
			in := intent{ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
			_, err := s.put(t.Context(), s.name("/memories/d/f"), []byte(tombstone+in.ID+"\n"), condition{}, []string{"x"}, in.ID)
			require.NoError(t, err)
			require.NoError(t, first(s))
			for _, text := range contents(t, s) {
				require.NotContains(t, text, tombstone)
			}
		})
	}
}
