package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// streamable is a session whose conversation goes against the stored order.
func streamable(t testing.TB, n int) *inmemory.Store {
	var lines []string
	for i := n; i > 0; i-- {
		parent := ""
		if i > 1 {
			parent = fmt.Sprint("u", i-1)
		}
		lines = append(lines, user(fmt.Sprint("u", i), parent))
	}
	return newStore(t, testID, append(lines, user("end", fmt.Sprint("u", n)))...)
}

func TestStreamedMessagesComeInTheOrderOfTheConversation(t *testing.T) {
	s := streamable(t, 50)
	want := messages(t, s, nil)
	require.Equal(t, "u1", want.Messages[0].UUID)
	for _, limit := range []int{0, 1, 700, 1 << 20} {
		require.Equal(t, want, streamed(t, s, nil, limit))
	}
	some := &MessagesOptions{Offset: 7, Limit: 5}
	require.Equal(t, messages(t, s, some), streamed(t, s, some, 300))

	c, seq, err := StreamMessages(t.Context(), s, mainKey(testID), nil)
	require.NoError(t, err)
	require.Equal(t, 51, c.Total)
	for m, err := range seq {
		require.NoError(t, err)
		require.Equal(t, "u1", m.UUID)
		break
	}
}

func TestStreamedMessagesOfASubagent(t *testing.T) {
	s := inmemory.New()
	key := subKey(testID, "subagents/agent-x")
	appendTo(t, s, key, `{"type":"agent_metadata","toolUseId":"t","parentAgentId":"p"}`, user("a", ""), assistant("b", "a"), user("c", "ghost"))
	want, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", &MessagesOptions{BridgeGaps: true})
	require.NoError(t, err)
	c, seq, err := StreamSubagentMessages(t.Context(), s, mainKey(testID), "x", &MessagesOptions{BridgeGaps: true})
	require.NoError(t, err)
	for m, err := range seq {
		require.NoError(t, err)
		c.Messages = append(c.Messages, m)
	}
	require.Equal(t, want, c)
	require.Len(t, c.Gaps, 1)

	for _, id := range []string{"y", "", "a/b"} {
		c, seq, err = StreamSubagentMessages(t.Context(), s, mainKey(testID), id, nil)
		require.NoError(t, err)
		require.Zero(t, c)
		for range seq {
			require.Fail(t, "a message of an unknown agent")
		}
	}
}

func TestStreamOfATranscriptThatGoesAwayIsAnError(t *testing.T) {
	s := streamable(t, 5)
	r := messageReader{source: source{store: s, key: mainKey(testID), limit: 1}}
	_, seq, err := r.stream(t.Context(), nil, (*graph).conversation)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), mainKey(testID)))
	var last error
	for _, err := range seq {
		last = err
	}
	require.ErrorIs(t, last, errChanged)
}

func TestStreamRefusesAndIgnoresBadKeys(t *testing.T) {
	_, _, err := StreamMessages(t.Context(), noStore{t}, subKey(testID, "x"), nil)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	c, seq, err := StreamMessages(t.Context(), noStore{t}, mainKey("no uuid"), nil)
	require.NoError(t, err)
	require.Zero(t, c)
	for range seq {
		require.Fail(t, "a message of no session")
	}
}
