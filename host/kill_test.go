package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/session"
)

// One session on many hosts, each of which loses its agent at some moment. What
// the store has of every transcript is always the beginning of what the agent
// had written, a turn whose result was seen is in it whole, and the next host
// goes on from it.
func TestASessionSurvivesManyKills(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, mode := range []mirror.Mode{mirror.Batched, mirror.Eager} {
		store, id := inmemory.New(), ""
		var done []string
		for round := range 12 {
			opts := newMachine(t).options()
			opts.Mirror.Mode = mode
			opts.Session.SessionID = id
			opts.OnPermission = func(context.Context, host.Permission) host.Decision { return host.Decision{Allow: true} }
			a := start(t, store, opts)
			disk := onDisk(t, a)
			prompt := fmt.Sprintf("round %d: tool and subagent", round)
			require.NoError(t, a.Prompt(prompt))
			messages := 1 + random.IntN(7)
			for m, err := range a.Messages() {
				require.NoError(t, err)
				if m.Type == "result" {
					done = append(done, prompt)
				}
				if messages--; messages == 0 || m.Type == "result" {
					a.Kill()
					break
				}
			}
			if id == "" {
				id = a.SessionID()
			}
			requireBeginning(t, a, store, disk)
		}
		require.NotEmpty(t, done)
		c, err := session.Messages(t.Context(), store, sessionstore.Key{ProjectKey: tenant, SessionID: id}, nil)
		require.NoError(t, err)
		require.Empty(t, c.Gaps)
		var text strings.Builder
		for _, m := range c.Messages {
			text.Write(m.Message)
		}
		for _, prompt := range done {
			require.Contains(t, text.String(), `"`+prompt+`"`)
			require.Contains(t, text.String(), `Answer to \"`+prompt)
		}
	}
}

// requireBeginning closes the agent and compares.
func requireBeginning(t *testing.T, a *host.Agent, store, disk sessionstore.SessionStore) {
	t.Helper()
	key := sessionstore.Key{ProjectKey: tenant, SessionID: a.SessionID()}
	for range a.Messages() { // up to the end, while the files are there
	}
	subpaths, err := sessionstore.ListSubkeys(t.Context(), store, key.ProjectKey, key.SessionID)
	require.NoError(t, err)
	for _, sub := range append(subpaths, "") {
		key.Subpath = sub
		got, want := lines(t, store, key), lines(t, disk, key)
		require.LessOrEqual(t, len(got), len(want))
		require.Equal(t, want[:len(got)], got)
	}
	_ = a.Close(t.Context()) // it was killed
}

// lines are the entries that are lines of a file.
func lines(t *testing.T, s sessionstore.SessionStore, key sessionstore.Key) (list []string) {
	t.Helper()
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Type() != sessionstore.MetadataType {
			list = append(list, string(e))
		}
	}
	return list
}
