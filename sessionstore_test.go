package sessionstore_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func TestHelpersReportWhatAStoreCannotDo(t *testing.T) {
	ctx, s := t.Context(), plain{inmemory.New()}
	_, err := sessionstore.ListSessions(ctx, s, "p")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "sessionstore: list sessions p: unsupported operation")
	_, err = sessionstore.ListSessionSummaries(ctx, s, "p")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = sessionstore.ListProjects(ctx, s)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = sessionstore.ListSubkeys(ctx, s, "p", "s")
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = sessionstore.Purge(ctx, s, time.Now())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestDeleteOnAStoreThatCannotIsANoOp(t *testing.T) {
	s := inmemory.New()
	k := key("p", "s")
	require.NoError(t, s.Append(t.Context(), k, entries(`{}`)))
	require.NoError(t, sessionstore.Delete(t.Context(), plain{s}, k))
	require.NoError(t, sessionstore.Delete(t.Context(), cannotForward{s}, k))
	got, err := s.Load(t.Context(), k)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, sessionstore.Delete(t.Context(), s, k))
	got, err = s.Load(t.Context(), k)
	require.NoError(t, err)
	require.Nil(t, got)
}

// cannotForward wraps a store and has a Delete that leads nowhere.
type cannotForward struct{ sessionstore.SessionStore }

func (cannotForward) Delete(context.Context, sessionstore.Key) error { return errors.ErrUnsupported }

func TestStreamFallsBackToLoad(t *testing.T) {
	s := inmemory.New()
	k := key("p", "s")
	require.NoError(t, s.Append(t.Context(), k, entries(`{"n":1}`, `{"n":2}`, `{"n":3}`)))
	require.Equal(t, entries(`{"n":1}`, `{"n":2}`, `{"n":3}`), collect(t, sessionstore.Stream(t.Context(), plain{s}, k)))
	for e, err := range sessionstore.Stream(t.Context(), plain{s}, k) {
		require.NoError(t, err)
		require.Equal(t, `{"n":1}`, e.String())
		break
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range sessionstore.Stream(cancelled, plain{s}, k) {
		require.Nil(t, e)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func collect(t *testing.T, entries iter.Seq2[sessionstore.Entry, error]) []sessionstore.Entry {
	t.Helper()
	var got []sessionstore.Entry
	for e, err := range entries {
		require.NoError(t, err)
		got = append(got, e)
	}
	return got
}
