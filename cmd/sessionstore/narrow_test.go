package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// countingStore counts the transcripts that are loaded. It can only do what a
// store must.
type countingStore struct {
	sessionstore.SessionStore
	loads atomic.Int64
	fail  error
}

func (s *countingStore) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	s.loads.Add(1)
	if s.fail != nil {
		return nil, s.fail
	}
	return s.SessionStore.Load(ctx, key)
}

func TestNarrowedStoreSaysWhatTheStoreSays(t *testing.T) {
	n := narrowed{SessionStore: &countingStore{SessionStore: openStore(t, t.TempDir())}}
	_, err := n.ListSessions(t.Context(), "p")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = n.ListSessionSummaries(t.Context(), "p")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = n.ListSubkeys(t.Context(), "p", "s")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	n.subpaths = []string{"a"}
	subpaths, err := n.ListSubkeys(t.Context(), "p", "s")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, subpaths)
}

func TestTitlesThatCannotBeReadAreReported(t *testing.T) {
	var stderr errBuffer
	a := newApp(nil, &errBuffer{}, &stderr)
	h := &handle{store: &countingStore{SessionStore: openStore(t, t.TempDir()), fail: errors.New("no\nluck")}}
	rows := []row{{project: "p", SessionInfo: sessionstore.SessionInfo{SessionID: uuid(1), Mtime: 1}}}
	failed, err := a.readTitles(t.Context(), h, rows)
	require.NoError(t, err)
	require.True(t, failed)
	require.Contains(t, stderr.String(), "warning: titles are missing: list p: session 0")
	require.Contains(t, stderr.String(), "no luck\n")
}
