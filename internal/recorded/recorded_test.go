package recorded_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/recorded"
)

func TestRecordingIsWhole(t *testing.T) {
	batches, entries, bytes := 0, 0, 0
	keys := map[sessionstore.Key]bool{}
	for b, err := range recorded.Batches() {
		require.NoError(t, err)
		require.Equal(t, recorded.Main(), b.Key.Main())
		_, err := sessionstore.Check(b.Key, b.Entries)
		require.NoError(t, err)
		batches++
		keys[b.Key] = true
		for _, e := range b.Entries {
			entries++
			bytes += len(e)
		}
	}
	require.Equal(t, 12, batches)
	require.Len(t, keys, 8, "the main transcript and seven subagents")
	require.Equal(t, 176, entries)
	require.Equal(t, 808_467, bytes)
}

func TestEntriesKeepTheirBytes(t *testing.T) {
	found := false
	for b, err := range recorded.Batches() {
		require.NoError(t, err)
		for _, e := range b.Entries {
			require.NotContains(t, e.String(), "\n")
			// Decoding and encoding again would shorten this number.
			found = found || strings.Contains(e.String(), "0.032951999999999995")
		}
	}
	require.True(t, found)
}

func TestBatchesCanBeLeftEarlyAndReadAgain(t *testing.T) {
	for range 2 {
		for b, err := range recorded.Batches() {
			require.NoError(t, err)
			require.Equal(t, recorded.Main(), b.Key)
			break
		}
	}
}

type appends struct{ entries int }

func (a *appends) Append(_ context.Context, _ sessionstore.Key, entries []sessionstore.Entry) error {
	a.entries += len(entries)
	return nil
}

func (a *appends) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return nil, nil
}

func TestAppendTo(t *testing.T) {
	store := &appends{}
	require.NoError(t, recorded.AppendTo(t.Context(), store))
	require.Equal(t, 176, store.entries)
}
