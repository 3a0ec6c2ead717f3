package mirror_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

func TestADamagedFileDoesNotCountAsKept(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(text string) string
		needs  bool
	}{
		"whole":      {func(text string) string { return text }, false},
		"empty":      {func(string) string { return "" }, true},
		"cut header": {func(text string) string { return text[:10] }, true},
		"cut":        {func(text string) string { return text[:len(text)-3] }, true},
		"other key":  {func(text string) string { return strings.Replace(text, session, "s2", 1) }, true},
		"other count": {func(text string) string {
			return strings.Replace(text[:strings.LastIndex(text, "{")], `"entries":3`, `"entries":2`, 1)
		}, true},
	} {
		for _, cut := range []bool{false, true} { // whether Close makes its last try
			t.Run(name, func(t *testing.T) {
				s, dir := newFake(), t.TempDir()
				s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
				m := open(t, s, &mirror.Options{Attempts: 1, Spill: dir, SpillRetry: time.Hour})
				require.NoError(t, m.Frame(mainPath, numbered(0, 3)))
				require.Error(t, m.Flush(t.Context()))
				files := spilled(t, dir)
				require.Len(t, files, 1)
				text, err := os.ReadFile(files[0])
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(files[0], []byte(c.damage(string(text))), 0o600))

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if cut {
					cancel()
				}
				var loss *mirror.LossError
				require.ErrorAs(t, m.Close(ctx), &loss)
				require.Equal(t, !c.needs, loss.AllSpilled())
				require.Equal(t, c.needs, m.NeedsFiles())
			})
		}
	}
}

func TestLossCountsOffWhatWasDelivered(t *testing.T) {
	s, dir := newFake(), t.TempDir()
	s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
		if n == 1 || n > 8 {
			return errDown
		}
		return nil
	}
	m := open(t, s, &mirror.Options{Mode: mirror.Eager, Attempts: 1, Spill: dir, SpillRetry: time.Hour})
	for i := range 10 {
		require.NoError(t, m.Frame(mainPath, numbered(i, i+1)))
	}
	require.Error(t, m.Flush(t.Context()))
	require.Equal(t, 10, m.Losses()[0].Entries)
	var loss *mirror.LossError
	require.ErrorAs(t, m.Close(t.Context()), &loss)
	require.Len(t, load(t, s, mainKey), 7)
	require.Len(t, spilled(t, dir), 3)
	require.Equal(t, 3, loss.Losses[0].Entries)
	require.Equal(t, 3, loss.Losses[0].Spilled)
	require.True(t, loss.AllSpilled())
}

func TestReplayLeavesKeysThatAreNotAccepted(t *testing.T) {
	s, dir := newFake(), t.TempDir()
	s.before = func(context.Context, sessionstore.Key, int) error { return errDown }
	m := open(t, s, &mirror.Options{Attempts: 1, Spill: dir})
	require.NoError(t, m.Frame(mainPath, entries(user("a"))))
	require.NoError(t, m.Frame(subPath, entries(user("b"))))
	require.Error(t, m.Close(t.Context()))
	s.before = nil

	errOther := errors.New("another tenant's")
	accept := func(key sessionstore.Key) error {
		if key == mainKey {
			return errOther
		}
		return nil
	}
	report, err := mirror.Replay(t.Context(), dir, s, &mirror.ReplayOptions{Accept: accept})
	require.ErrorIs(t, err, errOther)
	require.ErrorIs(t, err, mirror.ErrNotAccepted)
	require.Equal(t, mirror.ReplayReport{Keys: 2, Batches: 1, Entries: 1, Left: 1}, report)
	require.Len(t, spilled(t, dir), 1)
	require.Equal(t, texts(entries(user("b"))), load(t, s, subKey))
	list, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Empty(t, list)

	_, err = mirror.Replay(t.Context(), dir, s, nil)
	require.NoError(t, err)
	require.Equal(t, texts(entries(user("a"))), load(t, s, mainKey))
}
