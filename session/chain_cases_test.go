package session

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// The tests below are named for cases that have broken transcript readers: CH
// for chains, LH for lists, SA for subagents.

func TestCH01MissingParentIsReportedAndCanBeBridged(t *testing.T) {
	s := newStore(t, testID, user("u1", ""), assistant("a2", "u1"), user("u3", "ghost"), assistant("a4", "u3"))
	c := messages(t, s, nil)
	require.Equal(t, []string{"u3", "a4"}, uuids(c))
	require.Equal(t, []Gap{{UUID: "u3", ParentUUID: "ghost", Unreachable: 2}}, c.Gaps)

	c = messages(t, s, &MessagesOptions{BridgeGaps: true})
	require.Equal(t, []string{"u1", "a2", "u3", "a4"}, uuids(c))
	require.Equal(t, []Gap{{UUID: "u3", ParentUUID: "ghost", Index: 2, Bridged: true}}, c.Gaps)
}

func TestGapsHaveAPlaceAlsoAtEntriesThatAreNotShown(t *testing.T) {
	s := newStore(t, testID,
		user("u1", ""),
		entry("attachment", "x2", "ghost2", ""), user("u3", "x2"),
		entry("system", "s4", "ghost4", ""), entry("attachment", "x5", "ghost5", ""), user("u6", "x5"),
		entry("user", "m7", "ghost7", `,"isMeta":true`))
	places := func(opts *MessagesOptions) (list []string) {
		c := messages(t, s, opts)
		for _, g := range c.Gaps {
			next := "end"
			if at := g.Index - opts.Offset; at >= 0 && at < len(c.Messages) {
				next = c.Messages[at].UUID
			}
			list = append(list, fmt.Sprint(g.UUID, " ", g.Index, " ", next))
		}
		return list
	}
	require.Equal(t, []string{"m7 3 end", "x5 2 u6", "s4 2 u6", "x2 1 u3"}, places(&MessagesOptions{BridgeGaps: true}))
	require.Equal(t, []string{"m7 4 end", "x5 3 u6", "s4 2 s4", "x2 1 u3"}, places(&MessagesOptions{BridgeGaps: true, IncludeSystem: true}))
	require.Equal(t, []string{"m7 3 end", "x5 2 u6", "s4 2 u6", "x2 1 end"}, places(&MessagesOptions{BridgeGaps: true, Offset: 2}))
	require.Equal(t, []string{"m7 0 end"}, places(&MessagesOptions{}))
}

func TestCH03IslandsAreTheSameForMainAndSubagent(t *testing.T) {
	for _, parent := range []string{"", "ghost"} {
		entries := []string{
			user("u1", ""), assistant("a2", "u1"), user("u3", "a2"),
			user("v1", parent), assistant("b2", "v1"), user("v3", "b2"),
		}
		s := newStore(t, testID, entries...)
		appendTo(t, s, subKey(testID, "subagents/agent-x"), entries...)
		both := func(opts *MessagesOptions) (Conversation, Conversation) {
			sub, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", opts)
			require.NoError(t, err)
			return messages(t, s, opts), sub
		}
		main, sub := both(nil)
		require.Equal(t, main, sub)
		require.Equal(t, []string{"v1", "b2", "v3"}, uuids(main))
		main, sub = both(&MessagesOptions{BridgeGaps: true})
		require.Equal(t, main, sub)
		if parent == "" { // a second root: a conversation that was begun anew
			require.Equal(t, []string{"v1", "b2", "v3"}, uuids(main))
			require.Empty(t, main.Gaps)
		} else {
			require.Equal(t, []string{"u1", "a2", "u3", "v1", "b2", "v3"}, uuids(main))
			require.Equal(t, []Gap{{UUID: "v1", ParentUUID: "ghost", Index: 3, Bridged: true}}, main.Gaps)
		}
		main, _ = both(&MessagesOptions{All: true})
		require.Len(t, main.Messages, 6)
	}
}

func TestCH04CyclesTerminate(t *testing.T) {
	for _, c := range []struct {
		name          string
		entries       []string
		main, bridged []string
		sub           []string
		gaps          []Gap
	}{
		{"repeat with another parent", []string{user("x", "a"), assistant("b", "x"), user("x", "b")},
			[]string{"x", "b"}, []string{"x", "b"}, []string{"x", "b"},
			[]Gap{{UUID: "x", ParentUUID: "a"}}},
		{"own parent", []string{user("u1", "u1")},
			[]string{}, []string{"u1"}, []string{"u1"},
			[]Gap{{Cycle: true, Unreachable: 1}}},
		{"two", []string{user("u1", "u2"), assistant("u2", "u1")},
			[]string{}, []string{"u1", "u2"}, []string{"u1", "u2"},
			[]Gap{{Cycle: true, Unreachable: 2}}},
		{"tail into a cycle", []string{user("u1", "u2"), assistant("u2", "u1"), user("u3", "u2")},
			[]string{"u1", "u2", "u3"}, []string{"u1", "u2", "u3"}, []string{"u1", "u2", "u3"},
			[]Gap{{UUID: "u1", ParentUUID: "u2", Cycle: true}}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			s := newStore(t, testID, c.entries...)
			appendTo(t, s, subKey(testID, "subagents/agent-x"), c.entries...)
			for _, st := range []sessionstore.SessionStore{s, repeating{s, c.entries}} {
				got := messages(t, st, nil)
				require.Equal(t, c.main, uuids(got))
				require.Equal(t, c.gaps, got.Gaps)
				require.Equal(t, c.bridged, uuids(messages(t, st, &MessagesOptions{BridgeGaps: true})))
			}
			sub, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", nil)
			require.NoError(t, err)
			require.Equal(t, c.sub, uuids(sub))
			id, err := Fork(t.Context(), s, mainKey(testID), nil)
			require.NoError(t, err)
			require.NotEmpty(t, load(t, s, mainKey(id)))
		})
	}
}

func TestCH06ParallelToolCallsKeepAllResults(t *testing.T) {
	s := newStore(t, testID, parallelTools...)
	require.Equal(t, []string{"u0", "a1", "a2", "r1", "r2", "a3"}, uuids(messages(t, s, nil)))

	// The last part of the message may be the one beside the path.
	s = newStore(t, testID, parallelTools[0], parallelTools[1], parallelTools[3], parallelTools[2], parallelTools[4],
		assistant("a3", "r1"))
	require.Equal(t, []string{"u0", "a1", "a2", "r2", "r1", "a3"}, uuids(messages(t, s, nil)))
}

var parallelTools = []string{
	user("u0", ""),
	entry("assistant", "a1", "u0", `,"message":{"id":"m1","content":[{"type":"tool_use","id":"t1"}]}`),
	entry("assistant", "a2", "a1", `,"message":{"id":"m1","content":[{"type":"tool_use","id":"t2"}]}`),
	entry("user", "r1", "a1", `,"message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}`),
	entry("user", "r2", "a2", `,"message":{"content":[{"type":"tool_result","tool_use_id":"t2"}]}`),
	assistant("a3", "r2"),
}

func TestCH07InterruptedToolCallStaysAsItIs(t *testing.T) {
	entries := []string{
		user("u0", ""),
		entry("assistant", "a1", "u0", `,"message":{"id":"m1","content":[{"type":"tool_use","id":"t1"},{"type":"tool_use","id":"t2"}]}`),
		entry("user", "r1", "a1", `,"message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}`),
	}
	c := messages(t, newStore(t, testID, entries...), nil)
	require.Len(t, c.Messages, 3)
	for i, m := range c.Messages {
		require.Equal(t, entries[i], string(m.Entry), "nothing is invented")
	}
}

var compacted = []string{
	user("u1", ""), assistant("a2", "u1"),
	entry("system", "b", "", `,"subtype":"compact_boundary","logicalParentUuid":"a2","compactMetadata":{"trigger":"auto","preTokens":9}`),
	entry("user", "s", "b", `,"isCompactSummary":true,"message":{"content":"summary"}`),
	assistant("a5", "s"),
}

func TestCH09ConversationBeginsAtTheCompaction(t *testing.T) {
	s := newStore(t, testID, compacted...)
	c := messages(t, s, nil)
	require.Equal(t, []string{"s", "a5"}, uuids(c))
	require.True(t, c.Messages[0].IsCompactSummary)
	require.True(t, c.Messages[0].IsMeta)
	require.Empty(t, c.Gaps)
	c = messages(t, s, &MessagesOptions{IncludeSystem: true})
	require.Equal(t, []string{"b", "s", "a5"}, uuids(c))
	require.JSONEq(t, `{"trigger":"auto","preTokens":9}`, string(get(c.Messages[0].Entry, "compactMetadata")))
	require.Len(t, messages(t, s, &MessagesOptions{All: true}).Messages, 4)
}

func TestCH10BoundaryWithoutMetadata(t *testing.T) {
	for _, metadata := range []string{``, `,"compactMetadata":null`, `,"compactMetadata":5`, `,"compactMetadata":{"preservedMessages":null}`} {
		s := newStore(t, testID, user("u1", ""),
			entry("system", "b", "", `,"subtype":"compact_boundary"`+metadata), assistant("a", "b"))
		require.Equal(t, []string{"a"}, uuids(messages(t, s, nil)))
		id, err := Fork(t.Context(), s, mainKey(testID), nil)
		require.NoError(t, err)
		got := load(t, s, mainKey(id))[1]
		require.Equal(t, string(get(sessionstore.Entry(`{"x":1`+metadata+`}`), "compactMetadata")), string(get(got, "compactMetadata")))
	}
}

func TestCH12BrokenPreservedReferencesFallBackToTheBoundary(t *testing.T) {
	for _, metadata := range []string{
		`"preservedSegment":{"headUuid":"ghost","anchorUuid":"s","tailUuid":"a2"}`,
		`"preservedSegment":{"headUuid":"u1","anchorUuid":"s","tailUuid":"ghost"}`,
		`"preservedSegment":{"headUuid":"u1","anchorUuid":"ghost","tailUuid":"a2"}`,
		`"preservedSegment":{"headUuid":"a2","anchorUuid":"s","tailUuid":"u1"}`,
		`"preservedSegment":{"headUuid":5,"anchorUuid":[],"tailUuid":null}`,
		`"preservedSegment":"x"`,
		`"preservedMessages":{"anchorUuid":"s","uuids":["u1","ghost"]}`,
		`"preservedMessages":{"anchorUuid":"ghost","uuids":["u1"]}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":["u1","u1"]}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":["s"]}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":[]}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":"u1"}`,
		`"preservedMessages":{"uuids":[["u1"]]}`,
	} {
		s := newStore(t, testID, compacted[0], compacted[1],
			strings.Replace(compacted[2], `"trigger":"auto"`, metadata, 1), compacted[3], compacted[4])
		require.Equal(t, []string{"s", "a5"}, uuids(messages(t, s, nil)), metadata)
	}
	for _, metadata := range []string{
		`"preservedSegment":{"headUuid":"u1","anchorUuid":"s","tailUuid":"a2"}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":["u1","a2"]}`,
		`"preservedMessages":{"anchorUuid":"s","uuids":["u1","a2"]},"preservedSegment":{"headUuid":"ghost"}`,
	} {
		s := newStore(t, testID, compacted[0], compacted[1],
			strings.Replace(compacted[2], `"trigger":"auto"`, metadata, 1), compacted[3], compacted[4])
		require.Equal(t, []string{"s", "u1", "a2", "a5"}, uuids(messages(t, s, nil)), metadata)
	}
}

func TestCH13CopiesOfOldEntriesChangeNothing(t *testing.T) {
	var first, copies []string
	parent := ""
	for i := range 6 {
		id := fmt.Sprintf("e%d", i)
		first = append(first, user(id, parent))
		parent = id
	}
	copies = append(copies, first...)
	boundary := entry("system", "b1", "", `,"subtype":"compact_boundary","compactMetadata":{}`)
	entries := append(append(first, boundary, user("e7", "b1"), assistant("a8", "e7")), copies...)
	for _, s := range []sessionstore.SessionStore{newStore(t, testID, entries...), repeating{inmemory.New(), entries}} {
		require.Equal(t, []string{"e7", "a8"}, uuids(messages(t, s, nil)))
	}
	require.Len(t, load(t, newStore(t, testID, entries...), mainKey(testID)), 9)
}

// repeating is a store that keeps repeats, as one that breaks the contract.
type repeating struct {
	*inmemory.Store
	entries []string
}

func (s repeating) Load(_ context.Context, _ sessionstore.Key) (list []sessionstore.Entry, err error) {
	for _, e := range s.entries {
		list = append(list, sessionstore.Entry(e))
	}
	return list, nil
}

func (s repeating) Stream(_ context.Context, _ sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		for _, e := range s.entries {
			if !yield(sessionstore.Entry(e), nil) {
				return
			}
		}
	}
}

func TestCH15FirstOfTwoCopiesCounts(t *testing.T) {
	one := entry("user", "u1", "", `,"cwd":"/p/sub","message":{"content":"x"}`)
	two := entry("user", "u1", "", `,"cwd":"/p","message":{"content":"x"}`)
	s := newStore(t, testID, one, two)
	appendTo(t, s, mainKey(testID), two)
	for _, st := range []sessionstore.SessionStore{s, repeating{s, []string{one, two}}} {
		c := messages(t, st, nil)
		require.Len(t, c.Messages, 1)
		require.Equal(t, one, string(c.Messages[0].Entry))
	}
}

func TestCH16EchoedPromptIsOneMessage(t *testing.T) {
	entries := []string{user("a", ""), `{"type":"system","subtype":"init"}`, `{"type":"system","subtype":"status"}`, user("a", ""), assistant("b", "a")}
	for _, s := range []sessionstore.SessionStore{newStore(t, testID, entries...), repeating{inmemory.New(), entries}} {
		require.Equal(t, []string{"a", "b"}, uuids(messages(t, s, nil)))
	}
}

func TestCH18HistoryWrittenAgainEachTurn(t *testing.T) {
	var history, file []string
	parent := ""
	for i := range 20 {
		id := fmt.Sprintf("e%d", i)
		file = append(file, history...)
		history = append(history, user(id, parent))
		file = append(file, history[i])
		parent = id
	}
	for _, s := range []sessionstore.SessionStore{newStore(t, testID, file...), repeating{inmemory.New(), file}} {
		require.Equal(t, 20, messages(t, s, nil).Total)
	}
}

func TestCH19SnapshotWithTheNextMessagesID(t *testing.T) {
	s := newStore(t, testID, `{"type":"file-history-snapshot","messageId":"m1","snapshot":{}}`, user("m1", ""))
	require.Equal(t, []string{"m1"}, uuids(messages(t, s, nil)))
	require.Len(t, load(t, s, mainKey(testID)), 2)
}

func TestCH21TurnOnAStaleLeaf(t *testing.T) {
	s := newStore(t, testID, user("e1", ""), assistant("a2", "e1"), user("e3", "a2"), assistant("a4", "e3"),
		entry("user", "m5", "a2", `,"isMeta":true,"message":{}`), assistant("a6", "m5"))
	require.Equal(t, []string{"e1", "a2", "a6"}, uuids(messages(t, s, nil)))
	require.Equal(t, []string{"e1", "a2", "e3", "a4", "a6"}, uuids(messages(t, s, &MessagesOptions{All: true})))
}

func TestCH22ChildBeforeItsParent(t *testing.T) {
	s := newStore(t, testID, entry("attachment", "x1", "u2", ``), user("u2", ""), assistant("a3", "x1"))
	require.Equal(t, []string{"u2", "a3"}, uuids(messages(t, s, nil)))
	id, err := Fork(t.Context(), s, mainKey(testID), nil)
	require.NoError(t, err)
	got := load(t, s, mainKey(id))
	require.Equal(t, got[1].UUID(), text(get(got[0], "parentUuid")))
	require.Equal(t, got[0].UUID(), text(get(got[2], "parentUuid")))
	require.Equal(t, "null", string(get(got[1], "parentUuid")))
}

func TestCH24ForkHasAllEntries(t *testing.T) {
	var entries []string
	parent := ""
	for i := range 10 {
		id := fmt.Sprintf("e%d", i)
		entries = append(entries, entry("user", id, parent, `,"sessionId":"`+testID+`","n":1.0,"message":{"content":"<&> \ud83d"}`))
		parent = id
	}
	s := newStore(t, testID, entries...)
	before := load(t, s, mainKey(testID))
	id, err := Fork(t.Context(), s, mainKey(testID), nil)
	require.NoError(t, err)
	require.Equal(t, before, load(t, s, mainKey(testID)), "the source is unchanged")
	got := load(t, s, mainKey(id))
	require.Len(t, got, 11)
	for i, e := range got[:10] {
		require.Equal(t, id, text(get(e, "sessionId")))
		require.Equal(t, fmt.Sprintf("e%d", i), forkedFrom(t, e))
		require.Contains(t, string(e), `,"n":1.0,"message":{"content":"<&> \ud83d"}`)
		if i > 0 {
			require.Equal(t, got[i-1].UUID(), text(get(e, "parentUuid")))
		}
	}
}

func TestCH25SessionsThatShareUUIDsAreBothWhole(t *testing.T) {
	one := []string{user("u1", ""), assistant("a2", "u1")}
	s := newStore(t, testID, one...)
	appendTo(t, s, mainKey(otherID), append(one, user("u3", "a2"))...)
	require.Equal(t, 2, messages(t, s, nil).Total)
	c, err := Messages(t.Context(), s, mainKey(otherID), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"u1", "a2", "u3"}, uuids(c))
}
