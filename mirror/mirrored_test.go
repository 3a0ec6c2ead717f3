package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestNeverMirroredKnowsRequestsAndJournals(t *testing.T) {
	main := sessionstore.Key{ProjectKey: "p", SessionID: "journal"}
	sub := sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "subagents/workflows/w/journal"}
	other := sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "subagents/agent-journal"}
	message := sessionstore.Entry(`{"type":"user","text":"api-request"}`)
	require.True(t, NeverMirrored(main, sessionstore.Entry(`{"type":"api-request-blob"}`)))
	require.True(t, NeverMirrored(sub, message))
	require.True(t, NeverMirrored(sub, nil))
	for _, key := range []sessionstore.Key{main, other} {
		require.False(t, NeverMirrored(key, message))
		require.False(t, NeverMirrored(key, nil))
	}
}
