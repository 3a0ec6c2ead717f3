package logstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/examples/logstore"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Open: func(tb testing.TB) sessionstore.SessionStore {
			s, err := logstore.Open(filepath.Join(tb.TempDir(), "sessions.log"))
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { s.Close() })
			return s
		},
		LoseReply: func(_ testing.TB, s sessionstore.SessionStore) { s.(*logstore.Store).LoseReply() },
	})
}

func TestWhatAFailedAppendLeavesIsNotGluedToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.log")
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	long := sessionstore.Entry(`{"n":"` + strings.Repeat("x", 1000) + `"}`)
	s, err := logstore.Open(path)
	require.NoError(t, err)
	s.LoseReply()
	require.Error(t, s.Append(t.Context(), key, []sessionstore.Entry{long, long}))
	require.NoError(t, s.Append(t.Context(), key, []sessionstore.Entry{sessionstore.Entry(`{"n":1}`)}))
	require.NoError(t, s.Close())

	s, err = logstore.Open(path)
	require.NoError(t, err)
	defer s.Close()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, []sessionstore.Entry{sessionstore.Entry(`{"n":1}`)}, got)
}

func TestWhatACrashLeavesOfABatchIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.log")
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	whole := []sessionstore.Entry{sessionstore.Entry(`{"n":1}`)}
	s, err := logstore.Open(path)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), key, whole))
	require.NoError(t, s.Append(t.Context(), key, []sessionstore.Entry{sessionstore.Entry(`{"n":2}`), sessionstore.Entry(`{"n":3}`)}))
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-3))

	s, err = logstore.Open(path)
	require.NoError(t, err)
	defer s.Close()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, whole, got)
	require.NoError(t, s.Append(t.Context(), key, whole))
}
