package sessionstore_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

var errUnreadable = errors.New("unreadable")

// unreadable is a store of which some transcripts and lists can't be read.
type unreadable struct {
	*inmemory.Store
	closed map[sessionstore.Key]bool // transcripts, sessions whose subpaths can't be listed, projects
}

func (s unreadable) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		if s.closed[key] {
			yield(nil, errUnreadable)
			return
		}
		s.Store.Stream(ctx, key)(yield)
	}
}

func (s unreadable) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	if s.closed[key(project)] {
		return nil, errUnreadable
	}
	return s.Store.ListSessions(ctx, project)
}

func (s unreadable) ListSubkeys(ctx context.Context, project, session string) ([]string, error) {
	if s.closed[key(project, session, "*")] {
		return nil, errUnreadable
	}
	return s.Store.ListSubkeys(ctx, project, session)
}

func TestCopyPassesOverWhatCannotBeRead(t *testing.T) {
	agent := key("p", "s1", "subagents/agent-1")
	for name, c := range map[string]struct {
		closed, reported sessionstore.Key
		copied           []sessionstore.Key
	}{
		"Transcript": {agent, agent, []sessionstore.Key{key("p", "s2"), key("q", "s1")}},
		"Subpaths":   {key("p", "s1", "*"), key("p", "s1"), []sessionstore.Key{key("p", "s2"), key("q", "s1")}},
		"Project":    {key("p"), key("p"), []sessionstore.Key{key("q", "s1")}},
	} {
		t.Run(name, func(t *testing.T) {
			src := unreadable{source(t), map[sessionstore.Key]bool{c.closed: true}}
			dst := inmemory.New()
			_, err := sessionstore.Copy(t.Context(), dst, src, sessionstore.Key{}, nil)
			require.ErrorIs(t, err, errUnreadable)

			var reported []sessionstore.Key
			opts := &sessionstore.CopyOptions{Unreadable: func(key sessionstore.Key, err error) error {
				require.ErrorIs(t, err, errUnreadable)
				reported = append(reported, key)
				return nil
			}}
			report, err := sessionstore.Copy(t.Context(), dst, src, sessionstore.Key{}, opts)
			require.NoError(t, err)
			require.Equal(t, []sessionstore.Key{c.reported}, reported)
			require.Equal(t, reported, report.Unreadable)
			for _, k := range c.copied {
				requireEqualStores(t, src, dst, k)
			}
			for _, k := range []sessionstore.Key{key("p", "s1"), agent} {
				list, err := dst.Load(t.Context(), k)
				require.NoError(t, err)
				require.Empty(t, list, "a session is copied whole or not at all")
			}
			_, err = sessionstore.Copy(t.Context(), dst, src, key("p", "s1"), opts)
			require.False(t, errors.Is(err, sessionstore.ErrNotFound), "not unknown")
		})
	}
}

func TestCopyEndsWhenTheDestinationCannotBeReadOrWritten(t *testing.T) {
	opts := &sessionstore.CopyOptions{Unreadable: func(sessionstore.Key, error) error { return nil }}
	dst := unreadable{inmemory.New(), map[sessionstore.Key]bool{key("p", "s2"): true}}
	_, err := sessionstore.Copy(t.Context(), dst, source(t), sessionstore.Key{}, opts)
	require.ErrorIs(t, err, errUnreadable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = sessionstore.Copy(ctx, inmemory.New(), source(t), sessionstore.Key{}, opts)
	require.ErrorIs(t, err, context.Canceled)
}
