package filestore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/filestore"
)

func TestConformance(t *testing.T) {
	for name, opts := range map[string]filestore.Options{
		"Plain": {},
		"Fsync": {Fsync: true},
	} {
		t.Run(name, func(t *testing.T) { conformance.Run(t, harness(opts)) })
	}
}

func harness(opts filestore.Options) conformance.Harness {
	dirs := make(map[sessionstore.SessionStore]string)
	open := func(tb testing.TB, dir string) sessionstore.SessionStore {
		s, err := filestore.Open(dir, &opts)
		require.NoError(tb, err)
		tb.Cleanup(func() { s.Close() })
		dirs[s] = dir
		return s
	}
	reopen := func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore {
		return open(tb, dirs[s])
	}
	return conformance.Harness{
		Open:   func(tb testing.TB) sessionstore.SessionStore { return open(tb, tb.TempDir()) },
		Reopen: reopen,
		// The order is that of the file; the clock of a host has no say.
		ReopenBehind: func(tb testing.TB, s sessionstore.SessionStore, _ time.Duration) sessionstore.SessionStore {
			return reopen(tb, s)
		},
		LoseReply: func(tb testing.TB, s sessionstore.SessionStore) { s.(*filestore.Store).LoseReply() },
		Outage:    func(tb testing.TB, s sessionstore.SessionStore) { s.(*filestore.Store).Close() },
		// There is no Damage: a file does not say how long it should be.
		Require: conformance.All | conformance.Handover |
			conformance.HandoverBehind | conformance.LostReply | conformance.CommitOrder,
		CommitOrder:      true,
		LastMetadataOnly: true,
		Short:            opts.Fsync, // the heavy cases once
	}
}
