package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// plainEntry is an entry of the model.
type plainEntry struct {
	kind, uuid, parent, message string
	meta, sidechain, team       bool
	toolResult                  bool
}

func (e plainEntry) json() string {
	more := ""
	for name, set := range map[string]bool{"isMeta": e.meta, "isSidechain": e.sidechain} {
		if set {
			more += `,"` + name + `":true`
		}
	}
	if e.team {
		more += `,"teamName":"t"`
	}
	content := `"x"`
	if e.toolResult {
		content = `[{"type":"text"},{"type":"tool_result"}]`
	}
	more += `,"message":{"content":` + content
	if e.message != "" {
		more += `,"id":"` + e.message + `"`
	}
	return entry(e.kind, e.uuid, e.parent, more+"}")
}

// model is a second implementation of the rules, by names and with no regard
// for time and memory.
type model struct {
	entries []plainEntry // without repeats
	byUUID  map[string]int
}

func newModel(entries []plainEntry) model {
	m := model{byUUID: map[string]int{}}
	for _, e := range entries {
		if _, ok := m.byUUID[e.uuid]; !ok {
			m.byUUID[e.uuid] = len(m.entries)
			m.entries = append(m.entries, e)
		}
	}
	return m
}

// up returns the uuids from an entry to its root.
func (m model) up(uuid string) (path []string) {
	for {
		i, ok := m.byUUID[uuid]
		if !ok || slices.Contains(path, uuid) {
			return path
		}
		path = append(path, uuid)
		uuid = m.entries[i].parent
	}
}

func (m model) get(uuid string) plainEntry { return m.entries[m.byUUID[uuid]] }

func isMessageKind(kind string) bool { return kind == "user" || kind == "assistant" }

func (m model) conversation() (shown []string) {
	path := m.up(m.leaf())
	slices.Reverse(path)
	for _, u := range m.insertParallel(path) {
		if e := m.get(u); isMessageKind(e.kind) && !e.meta && !e.sidechain && !e.team {
			shown = append(shown, u)
		}
	}
	return shown
}

func (m model) leaf() string {
	for i := len(m.entries) - 1; i >= 0; i-- {
		end := m.entries[i].uuid
		if slices.ContainsFunc(m.entries, func(e plainEntry) bool { return e.parent == end && !e.team }) {
			continue
		}
		for _, u := range m.up(end) {
			if isMessageKind(m.get(u).kind) {
				return u
			}
		}
	}
	return ""
}

func (m model) insertParallel(path []string) (whole []string) {
	for i, u := range path {
		whole = append(whole, u)
		id := m.get(u).message
		later := slices.ContainsFunc(path[i+1:], func(v string) bool { return m.get(v).message == id })
		if id == "" || later {
			continue
		}
		var results []string
		for _, e := range m.entries {
			if slices.Contains(path, e.uuid) {
				continue
			}
			if e.message == id {
				whole = append(whole, e.uuid)
			} else if _, ok := m.byUUID[e.parent]; ok && e.toolResult && m.get(e.parent).message == id {
				results = append(results, e.uuid)
			}
		}
		whole = append(whole, results...)
	}
	return whole
}

func drawEntries(t *rapid.T) (list []plainEntry) {
	n := rapid.IntRange(0, 25).Draw(t, "n")
	for i := range n {
		e := plainEntry{
			kind: rapid.SampledFrom([]string{"user", "user", "assistant", "assistant", "system", "attachment", "progress"}).Draw(t, "kind"),
			uuid: fmt.Sprintf("e%d", i),
			meta: rapid.IntRange(0, 9).Draw(t, "meta") == 0, sidechain: rapid.IntRange(0, 9).Draw(t, "side") == 0,
			team: rapid.IntRange(0, 9).Draw(t, "team") == 0,
		}
		switch rapid.IntRange(0, 9).Draw(t, "parent") {
		case 0:
		case 1:
			e.parent = "ghost"
		case 2, 3:
			e.parent = fmt.Sprintf("e%d", rapid.IntRange(0, n-1).Draw(t, "any"))
		default:
			e.parent = fmt.Sprintf("e%d", max(0, i-rapid.IntRange(1, 3).Draw(t, "before")))
		}
		if rapid.IntRange(0, 9).Draw(t, "repeat") == 0 {
			e.uuid = fmt.Sprintf("e%d", rapid.IntRange(0, n-1).Draw(t, "same"))
		}
		switch e.kind {
		case "assistant":
			e.message = rapid.SampledFrom([]string{"", "m1", "m2", "m3"}).Draw(t, "message")
		case "user":
			e.toolResult = rapid.Bool().Draw(t, "result")
		}
		list = append(list, e)
	}
	return list
}

func TestConversationAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := drawEntries(rt)
		s := inmemory.New()
		var lines []string
		for _, e := range entries {
			lines = append(lines, e.json())
		}
		appendTo(t, s, mainKey(testID), lines...)
		want := append([]string{}, newModel(entries).conversation()...)
		got := messages(t, s, nil)
		require.Equal(rt, want, uuids(got))
		require.Equal(rt, got, readTwice(t, s, nil))
		requireStreamed(t, got, s, nil)

		all := messages(t, s, &MessagesOptions{All: true})
		bridged := messages(t, s, &MessagesOptions{BridgeGaps: true})
		checkConversation(rt, all, got)
		checkConversation(rt, all, bridged)
		require.Subset(rt, uuids(bridged), uuids(got))
		require.Equal(rt, bridged, readTwice(t, s, &MessagesOptions{BridgeGaps: true}))
		requireStreamed(t, bridged, s, &MessagesOptions{BridgeGaps: true})
	})
}

// readTwice reads a conversation without keeping entries on the first reading.
func readTwice(t testing.TB, s sessionstore.SessionStore, opts *MessagesOptions) Conversation {
	r := messageReader{source: source{store: s, key: mainKey(testID), limit: 1}, hidden: flagMeta | flagSidechain | flagTeam}
	c, err := r.run(t.Context(), opts, (*graph).conversation)
	require.NoError(t, err)
	return c
}

func requireStreamed(t testing.TB, want Conversation, s sessionstore.SessionStore, opts *MessagesOptions) {
	for _, limit := range []int{0, 1, 500} {
		require.Equal(t, want, streamed(t, s, opts, limit))
	}
}

// streamed collects a streamed conversation. A low limit lets few messages wait
// for their turn.
func streamed(t testing.TB, s sessionstore.SessionStore, opts *MessagesOptions, limit int) Conversation {
	r := messageReader{source: source{store: s, key: mainKey(testID), limit: limit}, hidden: flagMeta | flagSidechain | flagTeam}
	c, seq, err := r.stream(t.Context(), opts, (*graph).conversation)
	require.NoError(t, err)
	require.Empty(t, c.Messages)
	c.Messages = []Message{}
	for m, err := range seq {
		require.NoError(t, err)
		c.Messages = append(c.Messages, m)
	}
	return c
}

// checkConversation checks what holds for every conversation.
func checkConversation(t require.TestingT, all, c Conversation) {
	ids := uuids(c)
	require.Subset(t, uuids(all), ids)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), len(c.Messages), "each message once")
	require.Equal(t, len(c.Messages), c.Total)
	for _, g := range c.Gaps {
		require.GreaterOrEqual(t, g.Unreachable, 0)
		require.LessOrEqual(t, g.Unreachable, all.Total-c.Total)
	}
}

func TestForkShowsTheSameConversation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := inmemory.New()
		var lines []string
		for _, e := range drawEntries(rt) {
			e.sidechain, e.team = false, false // what belongs to others stays behind
			if lines = append(lines, e.json()); e.kind == "progress" {
				lines = lines[:len(lines)-1]
			}
		}
		appendTo(t, s, mainKey(testID), lines...)
		before := messages(t, s, nil)
		id, err := Fork(t.Context(), s, mainKey(testID), nil)
		if err != nil {
			require.Empty(rt, before.Messages)
			return
		}
		after, err := Messages(t.Context(), s, mainKey(id), nil)
		require.NoError(rt, err)
		var from []string
		for _, m := range after.Messages {
			from = append(from, forkedFrom(t, m.Entry))
		}
		require.Equal(rt, uuids(before), append([]string{}, from...))
	})
}

// FuzzGraphs makes graphs of any shape out of bytes: two for each entry.
func FuzzGraphs(f *testing.F) {
	f.Add([]byte("\x00\x01\x11\x00\x21\x01\x35\x02"))
	f.Add([]byte{0, 0, 1, 0, 0x40, 1, 0x82, 2, 0xF3, 0xFF, 0x24, 1})
	f.Add([]byte(strings.Repeat("\x10\x01\x21\x00", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			return
		}
		var lines []string
		for i := 0; i+1 < len(data); i += 2 {
			lines = append(lines, fuzzedEntry(data[i], data[i+1], i/2))
		}
		s := newStore(t, testID, lines...)
		appendTo(t, s, subKey(testID, "subagents/agent-x"), lines...)
		all := messages(t, s, &MessagesOptions{All: true, IncludeSystem: true})
		for _, opts := range []MessagesOptions{{}, {BridgeGaps: true}, {IncludeSystem: true, Offset: 2, Limit: 3}} {
			c := messages(t, s, &opts)
			require.Subset(t, uuids(all), uuids(c))
			require.Equal(t, c, readTwice(t, s, &opts))
			requireStreamed(t, c, s, &opts)
			_, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", &opts)
			require.NoError(t, err)
		}
		id, err := Fork(t.Context(), s, mainKey(testID), nil)
		if err != nil {
			return
		}
		for _, e := range load(t, s, mainKey(id)) {
			require.NoError(t, e.Validate())
			require.NotContains(t, string(e), `"sessionId":"old"`)
		}
	})
}

func fuzzedEntry(a, b byte, i int) string {
	kind := []string{"user", "assistant", "system", "attachment", "progress", "mode", "user", "assistant"}[a&7]
	uuid, parent := fmt.Sprintf("e%d", i), fmt.Sprintf("e%d", b&0x3F)
	more := `,"sessionId":"old"`
	switch a >> 4 {
	case 1:
		more += `,"isMeta":true`
	case 2:
		more += `,"isSidechain":true`
	case 3:
		more += `,"teamName":"x"`
	case 4:
		more += sprintf(`,"subtype":"compact_boundary","compactMetadata":{"preservedMessages":{"anchorUuid":"e%d","uuids":["e%d","e%d"]}}`, b&7, b>>3, i/2)
	case 5:
		more += sprintf(`,"subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"e%d","anchorUuid":"e%d","tailUuid":"e%d"}}`, b&7, b>>5, i/2)
	case 6, 7:
		more += sprintf(`,"message":{"id":"m%d","content":[{"type":"tool_result"}]}`, b&3)
	case 8:
		uuid = fmt.Sprintf("e%d", b>>2)
	case 9:
		parent = ""
	case 10:
		more += `,"message":{"content":[[],{},"x",{"type":5}],"id":7}`
	case 11:
		more += `,"uuid":5,"parentUuid":{}`
	case 12:
		more += sprintf(`,"logicalParentUuid":"e%d"`, b&7)
	}
	return entry(kind, uuid, parent, more)
}

// numbered makes a graph of n nodes whose names are their numbers, and n more
// names of no node.
func numbered(n int32, nth func(i int32) node) *graph {
	g := newGraph()
	g.nodeOf = slices.Repeat([]int32{none}, int(2*n))
	for i := range n {
		made := nth(i)
		made.name = i
		g.nodeOf[i] = i
		g.nodes = append(g.nodes, made)
	}
	return g
}

// What takes quadratic time here does not end before the test is stopped.
func TestHugeGraphsTakeLinearTime(t *testing.T) {
	n, third := int32(1_500_000), int32(500_000)
	if raceEnabled {
		n, third = 300_000, 100_000
	}
	t.Run("ends-without-messages", func(t *testing.T) {
		g := numbered(n, func(i int32) node { // one long stem and many ends
			return node{kind: kindAttachment, parent: min(i, n/2) - 1, message: none}
		})
		require.Equal(t, none, g.leaf())
	})
	t.Run("gaps", func(t *testing.T) {
		// From each of the last third the way goes on, over the second, with
		// one of the first, which leads to the next of the last.
		g := numbered(n, func(i int32) node {
			switch {
			case i < third:
				return node{kind: kindUser, parent: n - 1 - i + 1, message: none}
			case i < 2*third:
				return node{kind: kindUser, parent: none, message: none, flags: flagSidechain}
			}
			return node{kind: kindUser, parent: n + i, message: none}
		})
		g.nodes[0].parent = none
		c := g.walk(2*third, true, flagSidechain)
		require.Len(t, c.nodes, int(2*third))
		require.Len(t, c.gaps, int(third))
		g.countUnreachable(&c, flagSidechain)
	})
	t.Run("cycle", func(t *testing.T) {
		g := numbered(n, func(i int32) node { return node{kind: kindUser, parent: (i + 1) % n, message: none} })
		require.Len(t, g.conversation(true).nodes, int(n))
	})
	t.Run("parallel", func(t *testing.T) {
		g := numbered(n, func(i int32) node {
			return node{kind: kindAssistant, parent: i - 1 - i%2, message: n}
		})
		require.Len(t, g.conversation(false).nodes, int(n))
	})
	t.Run("fork-over-progress", func(t *testing.T) {
		f := forker{cut: n, source: source{graph: numbered(n, func(i int32) node {
			if i < n/2 {
				return node{kind: kindProgress, parent: i - 1, message: none}
			}
			return node{kind: kindUser, parent: n/2 - 1, message: none}
		})}}
		for i := n / 2; i < n; i++ {
			require.Equal(t, none, f.standIn(f.graph.parentOf(i)))
		}
	})
}
