package session

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// madeUp is a made-up transcript with the official helpers' answers.
type madeUp struct {
	ID      json.Number
	Entries []sessionstore.Entry

	List        answer `json:"listSessions"`
	NoSummaries answer `json:"listSessions_noSummaries"`
	Info        answer `json:"getSessionInfo"`
	Messages    answer `json:"getSessionMessages"`
	System      answer `json:"getSessionMessages_system"`
	Page        answer `json:"getSessionMessages_limit2_offset1"`
	Subagent    answer `json:"getSubagentMessages"`
	Fork        struct {
		answer
		Appended []struct {
			SessionID string
			Entries   []sessionstore.Entry
		}
	} `json:"forkSession"`
	DefaultTitle string `json:"forkSession_defaultTitle"`
}

const madeUpAgent = "subagents/agent-made-up"

// stores holds the transcript as a session and as a subagent, in a store that
// can do everything and in one that can't.
func (m *madeUp) stores(t *testing.T) (*inmemory.Store, []sessionstore.SessionStore) {
	s := inmemory.New()
	require.NoError(t, s.Append(t.Context(), mainKey(testID), m.Entries))
	require.NoError(t, s.Append(t.Context(), subKey(testID, madeUpAgent), m.Entries))
	return s, []sessionstore.SessionStore{s, bareStore{s}}
}

func madeUps(t testing.TB) []madeUp {
	list := decodeLines[madeUp](t, testdata("synthetic.jsonl"))
	require.Len(t, list, 207)
	return list
}

// The transcripts for which we differ on purpose; docs/session.md says why.
var (
	// When the last branch is "", the official load path shows that of another
	// entry. The summary path, and ours, say that there is none.
	emptyBranch = strings.Fields("16 32 40 56 70 76 100 114 118 142 144 146 154 182 216 218 228 238 260 312 314 320 338 384 386 388 396")
	// The official load path calls a session of images alone "Image".
	imageOnly = strings.Fields("84 90 210 214 340")
	// The official subagent walk drops system entries before it follows
	// parents, and so loses what lies before them.
	systemParents = strings.Fields("44 54 70 74 102 114 168 182 184 190 212 276 288 334 410")
	// A repeated entry counts where it stands first, because that is the only
	// one that a store keeps. The official store of the recording kept both.
	repeatedEnd = []string{"64"}
)

func TestListsAgreeWithMadeUpTranscripts(t *testing.T) {
	ctx := t.Context()
	c := counter{}
	for _, m := range madeUps(t) {
		store, _ := m.stores(t)
		list, err := List(ctx, store, testProject, &ListOptions{Dir: "/tmp/syn"})
		require.NoError(t, err)
		c.same(t, "list", m.List.OK, append([]Session{}, list...), "lastModified")
		if slices.Contains(imageOnly, m.ID.String()) {
			require.Empty(t, list, m.ID)
			continue
		}
		ignore := []string{"lastModified", "fileSize"}
		if slices.Contains(emptyBranch, m.ID.String()) {
			require.Empty(t, list[0].GitBranch, m.ID)
			ignore = append(ignore, "gitBranch")
		}
		folded, err := List(ctx, withoutSummaries(store), testProject, &ListOptions{Dir: "/tmp/syn"})
		require.NoError(t, err)
		c.same(t, "list without summaries", m.NoSummaries.OK, append([]Session{}, folded...), ignore...)
		for _, s := range []sessionstore.SessionStore{store, withoutSummaries(store), bareStore{store}} {
			info, ok, err := Info(ctx, s, mainKey(testID))
			require.NoError(t, err)
			if !ok {
				require.Equal(t, "null", string(m.Info.OK), "transcript %s", m.ID)
				c["info"]++
				continue
			}
			c.same(t, "info", m.Info.OK, info, ignore...)
		}
	}
	require.Equal(t, counter{"list": 207, "list without summaries": 202, "info": 606}, c)
}

func TestMessagesAgreeWithMadeUpTranscripts(t *testing.T) {
	c := counter{}
	for _, m := range madeUps(t) {
		_, stores := m.stores(t)
		for i, a := range []answer{m.Messages, m.System, m.Page} {
			for _, s := range stores {
				got := messages(t, s, &messageVariants[i])
				if slices.Contains(repeatedEnd, m.ID.String()) {
					require.NotEqual(t, plain(t, a.OK), plain(t, append([]Message{}, got.Messages...)))
					continue
				}
				c.same(t, "messages", a.OK, append([]Message{}, got.Messages...))
			}
		}
	}
	require.Equal(t, counter{"messages": 206 * 3 * 2}, c)
}

func TestSubagentMessagesAgreeWithMadeUpTranscripts(t *testing.T) {
	c := counter{}
	for _, m := range madeUps(t) {
		_, stores := m.stores(t)
		for _, s := range stores {
			got, err := SubagentMessages(t.Context(), s, mainKey(testID), "made-up", nil)
			require.NoError(t, err)
			if slices.Contains(systemParents, m.ID.String()) {
				// The official answer is the end of ours.
				var want []json.RawMessage
				require.NoError(t, json.Unmarshal(m.Subagent.OK, &want))
				require.Greater(t, len(got.Messages), len(want), m.ID)
				require.Equal(t, plain(t, m.Subagent.OK), plain(t, got.Messages[len(got.Messages)-len(want):]), m.ID)
				continue
			}
			c.same(t, "subagent messages", m.Subagent.OK, append([]Message{}, got.Messages...))
		}
	}
	require.Equal(t, counter{"subagent messages": 192 * 2}, c)
}

func TestForksAgreeWithMadeUpTranscripts(t *testing.T) {
	ctx := t.Context()
	forks := 0
	for _, m := range madeUps(t) {
		store, _ := m.stores(t)
		if m.Fork.Error != "" {
			_, err := Fork(ctx, store, mainKey(testID), &ForkOptions{Title: "F"})
			require.Error(t, err, m.ID)
			continue
		}
		want := m.Fork.Appended[0]
		mk := forkMaker(t, want.SessionID, want.Entries)
		id, err := mk.fork(ctx, store, mainKey(testID), &ForkOptions{Title: "F"})
		require.NoError(t, err)
		require.Equal(t, want.SessionID, id)
		// Repeats are dropped from what the official helper wrote too, except
		// that the last entry, which has the time, may be one.
		recorded := inmemory.New()
		require.NoError(t, recorded.Append(ctx, mainKey(id), want.Entries))
		wantEntries, got := load(t, recorded, mainKey(id)), load(t, store, mainKey(id))
		require.Len(t, got, len(wantEntries), m.ID)
		for i := range got {
			w, g := plain(t, json.RawMessage(wantEntries[i])), plain(t, json.RawMessage(got[i]))
			if i == len(got)-2 {
				without(w, "timestamp")
				without(g, "timestamp")
			}
			require.Equal(t, w, g, "transcript %s, entry %d", m.ID, i)
		}
		forks++

		id, err = Fork(ctx, store, mainKey(testID), nil)
		require.NoError(t, err)
		got = load(t, store, mainKey(id))
		require.Equal(t, m.DefaultTitle, text(get(got[len(got)-1], "customTitle")), m.ID)
	}
	require.Equal(t, 203, forks)
}
