package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func info(t testing.TB, entries ...string) (Session, bool) {
	s, ok, err := Info(t.Context(), newStore(t, testID, entries...), mainKey(testID))
	require.NoError(t, err)
	return s, ok
}

func TestLH02CustomTitleWins(t *testing.T) {
	s, ok := info(t, `{"type":"custom-title","customTitle":"old"}`, `{"type":"custom-title","customTitle":"mine"}`, `{"type":"ai-title","aiTitle":"auto"}`)
	require.True(t, ok)
	require.Equal(t, "mine", s.Summary)
	require.Equal(t, "mine", s.CustomTitle)
}

func TestLH03NoiseIsNoTitle(t *testing.T) {
	for _, e := range []string{
		`{"type":"user","message":{"content":"[Request interrupted by user for tool use]"}}`,
		`{"type":"user","isMeta":true,"message":{"content":"x"}}`,
		`{"type":"user","isCompactSummary":true,"message":{"content":"x"}}`,
	} {
		_, ok := info(t, e)
		require.False(t, ok, e)
	}
	s, ok := info(t, `{"type":"user","message":{"content":"<command-name>/init</command-name>"}}`, `{"type":"user","message":{"content":"real"}}`)
	require.True(t, ok)
	require.Equal(t, "real", s.Summary)
}

func TestLH05FirstEntryDecidesAboutSidechains(t *testing.T) {
	side := `{"type":"user","isSidechain":true,"message":{"content":"x"}}`
	s := inmemory.New()
	appendTo(t, s, mainKey(testID), `{"type":"mode"}`, side)
	appendTo(t, s, mainKey(otherID), side, `{"type":"user","message":{"content":"y"}}`)
	for _, st := range []sessionstore.SessionStore{s, withoutSummaries(s)} {
		list, err := List(t.Context(), st, testProject, nil)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, testID, list[0].SessionID)
		latest, ok, err := Latest(t.Context(), st, testProject)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, testID, latest.SessionID)
	}
}

func TestLH06NewestFirstAndStable(t *testing.T) {
	s := &timedStore{Store: inmemory.New(), mtimes: map[string]int64{}}
	var want []string
	for i, mtime := range []int64{50, 40, 40, 30, 20} {
		id := fmt.Sprintf("bbbbbbbb-0000-4000-8000-00000000000%d", i)
		appendTo(t, s, mainKey(id), user("u", ""))
		s.mtimes[id] = mtime
		want = append(want, id)
	}
	for range 20 {
		for _, st := range []sessionstore.SessionStore{s, withoutSummaries(s)} {
			var got []string
			for offset := 0; offset < 6; offset += 2 {
				list, err := List(t.Context(), st, testProject, &ListOptions{Offset: offset, Limit: 2})
				require.NoError(t, err)
				for _, r := range list {
					got = append(got, r.SessionID)
				}
			}
			require.Equal(t, want, got)
		}
	}
}

// requireInStep checks that a session is listed exactly if it can be read.
func requireInStep(t testing.TB, s fullStore, round int) {
	t.Helper()
	entries := load(t, s, mainKey(testID))
	infos, err := s.ListSessions(t.Context(), testProject)
	require.NoError(t, err)
	sums, err := s.ListSessionSummaries(t.Context(), testProject)
	require.NoError(t, err)
	rows, err := List(t.Context(), s, testProject, nil)
	require.NoError(t, err)
	subpaths, err := s.ListSubkeys(t.Context(), testProject, testID)
	require.NoError(t, err)
	orphans, err := s.ListOrphans(t.Context(), testProject)
	require.NoError(t, err)
	want := min(len(entries), 1)
	require.Len(t, infos, want, "round %d", round)
	require.Len(t, sums, want, "round %d", round)
	require.Len(t, rows, want, "round %d", round)
	require.Len(t, orphans, min(len(subpaths), 1)*(1-want), "round %d", round)
	for _, agent := range []string{"a", "b"} {
		sub := "subagents/agent-" + agent
		require.Equal(t, slices.Contains(subpaths, sub), load(t, s, subKey(testID, sub)) != nil, "round %d: %s", round, sub)
	}
}

func TestLH08AppendDuringDeleteIsWholeOrGone(t *testing.T) {
	onEachStore(t, func(t *testing.T, s fullStore, rounds int) {
		for i := range rounds / 2 {
			appendTo(t, s, mainKey(testID), user("u", ""))
			appendTo(t, s, subKey(testID, "subagents/agent-a"), user("u", ""))
			var wg sync.WaitGroup
			wg.Go(func() {
				err := s.Append(t.Context(), subKey(testID, "subagents/agent-b"), []sessionstore.Entry{sessionstore.Entry(user("u", ""))})
				assert.NoError(t, err)
			})
			require.NoError(t, Delete(t.Context(), s, mainKey(testID)))
			wg.Wait()
			requireInStep(t, s, i)
			require.Empty(t, load(t, s, mainKey(testID)), "only what was appended at the time can be there")
			require.Empty(t, load(t, s, subKey(testID, "subagents/agent-a")))
			require.NoError(t, Delete(t.Context(), s, mainKey(testID)))
			require.Empty(t, load(t, s, subKey(testID, "subagents/agent-b")))
		}
	})
}

func TestLH09DeleteAndAppendLeaveListAndDataInStep(t *testing.T) {
	onEachStore(t, func(t *testing.T, s fullStore, rounds int) {
		for i := range rounds {
			var wg sync.WaitGroup
			wg.Go(func() {
				assert.NoError(t, s.Append(t.Context(), mainKey(testID), []sessionstore.Entry{sessionstore.Entry(user("u", ""))}))
			})
			wg.Go(func() { assert.NoError(t, Delete(t.Context(), s, mainKey(testID))) })
			wg.Wait()
			requireInStep(t, s, i)
		}
		require.NoError(t, Delete(t.Context(), s, mainKey(testID)))
		requireInStep(t, s, rounds)
	})
}

func TestLH11DeleteTakesEverythingAlong(t *testing.T) {
	onEachStore(t, func(t *testing.T, s fullStore, _ int) {
		appendTo(t, s, mainKey(testID), user("u", ""))
		appendTo(t, s, subKey(testID, "subagents/agent-a"), user("u", ""), `{"type":"agent_metadata","agentType":"x"}`)
		for range 2 {
			require.NoError(t, Delete(t.Context(), s, mainKey(testID)))
			require.Zero(t, messages(t, s, nil).Total)
			ids, err := Subagents(t.Context(), s, mainKey(testID))
			require.NoError(t, err)
			require.Empty(t, ids)
			c, err := SubagentMessages(t.Context(), s, mainKey(testID), "a", nil)
			require.NoError(t, err)
			require.Zero(t, c.Total)
			requireInStep(t, s, 0)
		}
	})
}

func TestLH12ChangesNeedASession(t *testing.T) {
	tag := "x"
	onEachStore(t, func(t *testing.T, s fullStore, _ int) {
		for _, st := range []sessionstore.SessionStore{s, withoutSummaries(s), bareStore{s}} {
			require.ErrorIs(t, Rename(t.Context(), st, mainKey(testID), "x"), sessionstore.ErrNotFound)
			require.ErrorIs(t, Tag(t.Context(), st, mainKey(testID), &tag), sessionstore.ErrNotFound)
			_, err := Fork(t.Context(), st, mainKey(testID), nil)
			require.ErrorIs(t, err, sessionstore.ErrNotFound)
		}
		list, err := s.ListSessions(t.Context(), testProject)
		require.NoError(t, err)
		require.Empty(t, list)
	})
}

func TestLH14ConcurrentFirstAppendsMakeOneSession(t *testing.T) {
	onEachStore(t, func(t *testing.T, s fullStore, _ int) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				e := sessionstore.Entry(user(fmt.Sprintf("u%d", i), ""))
				assert.NoError(t, s.Append(t.Context(), mainKey(testID), []sessionstore.Entry{e}))
			})
		}
		wg.Wait()
		requireInStep(t, s, 0)
		require.Len(t, load(t, s, mainKey(testID)), 50)
		latest, ok, err := Latest(t.Context(), s, testProject)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, testID, latest.SessionID)
	})
}

func TestSA02JournalIsNoAgent(t *testing.T) {
	s := newStore(t, testID, user("u", ""))
	for _, sub := range []string{
		"subagents/agent-a1", "subagents/workflows/w1/agent-b2", "subagents/workflows/w1/journal", "subagents/journal",
		"subagents/workflows/w2/agent-a1", "subagents/agent-", "subagents", "other/agent-c3", "agent-d4", "subagents/agent-x/y",
	} {
		appendTo(t, s, subKey(testID, sub), user("u", ""))
	}
	ids, err := Subagents(t.Context(), s, mainKey(testID))
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "b2"}, ids)
}

func TestSA03AgentWithoutPromptAndWithTwoChains(t *testing.T) {
	s := inmemory.New()
	key := subKey(testID, "subagents/workflows/w1/agent-x")
	appendTo(t, s, key, assistant("a1", ""), user("u2", "a1"))
	c, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "u2"}, uuids(c))
	appendTo(t, s, key, assistant("b1", ""), user("v2", "b1"))
	c, err = SubagentMessages(t.Context(), s, mainKey(testID), "x", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"b1", "v2"}, uuids(c))
	c, err = SubagentMessages(t.Context(), s, mainKey(testID), "x", &MessagesOptions{All: true})
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "u2", "b1", "v2"}, uuids(c))
}

func TestSA06SubagentBeforeItsMain(t *testing.T) {
	s := inmemory.New()
	appendTo(t, s, subKey(testID, "subagents/agent-x"), user("u1", ""), `{"type":"agent_metadata","toolUseId":"t1","parentAgentId":"y"}`)
	appendTo(t, s, mainKey(testID), user("m1", ""))
	list, err := List(t.Context(), s, testProject, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 1, messages(t, s, nil).Total)
	c, err := SubagentMessages(t.Context(), s, mainKey(testID), "x", nil)
	require.NoError(t, err)
	require.Equal(t, "t1", *c.Messages[0].ParentToolUseID)
	require.Equal(t, "y", *c.Messages[0].ParentAgentID)
}

func TestSA05OneUnreadableFileHidesNoOther(t *testing.T) {
	dir := t.TempDir()
	s, err := filestore.Open(dir, nil)
	require.NoError(t, err)
	appendTo(t, s, mainKey(testID), user("u", ""))
	appendTo(t, s, subKey(testID, "subagents/agent-a"), user("u", ""))
	agents := filepath.Join(dir, testProject, testID, "subagents")
	for target, name := range map[string]string{"nothing": "agent-dangling.jsonl", "../../../../etc/passwd": "agent-outside.jsonl"} {
		if err := os.Symlink(target, filepath.Join(agents, name)); err != nil {
			t.Skip("symbolic links can't be made here:", err)
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(agents, "agent-dir.jsonl"), 0o700))
	ids, err := Subagents(t.Context(), s, mainKey(testID))
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, ids)
	c, err := SubagentMessages(t.Context(), s, mainKey(testID), "outside", nil)
	require.NoError(t, err)
	require.Zero(t, c.Total)
}
