package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/sessionstore/sessionstore"
)

const (
	summariesSentence = "ListSessionSummaries returns one summary for each session that ListSessions would return, in the same order and with the same times."
	foldSentence      = "A summary is the fold of the entries that the main transcript holds, as `FoldSummary` makes it."
)

// summary returns the summary of the case's session.
func (c *env) summary() json.RawMessage {
	c.Helper()
	for _, s := range c.summaries(c.key.ProjectKey) {
		if s.SessionID == c.key.SessionID {
			return s.Data
		}
	}
	c.Fatalf("ListSessionSummaries(%q) has no %q", c.key.ProjectKey, c.key.SessionID)
	return nil
}

// wantFold checks that the summary is the fold of what Load returns.
func (c *env) wantFold() {
	c.Helper()
	want, err := sessionstore.FoldSummary(nil, c.load(c.key))
	if err != nil {
		c.Fatalf("FoldSummary = %v", err)
	}
	if got := c.summary(); !entry(got).Equal(entry(want)) {
		c.Errorf("the summary is %s,\nwant the fold of Load, %s", clip(entry(got), 400), clip(entry(want), 400))
	}
}

func prompt(uuid, text string) entry {
	return entry(fmt.Sprintf(`{"type":"user","uuid":%q,"timestamp":"2026-02-03T04:05:06.789Z","cwd":"/home/user","gitBranch":"main",`+
		`"message":{"role":"user","content":%q}}`, uuid, text))
}

var summaryCases = []testCase{
	{
		name:     "Summaries/SameAsSessions",
		contract: summariesSentence,
		needs:    Summaries | Lister,
		run: func(c *env) {
			for _, id := range []string{"b", "c", "a", "b"} {
				c.append(session(c.key, id), title("of "+id))
				c.append(sub(session(c.key, id), "a"), title("sub"))
				c.tick()
			}
			var got []sessionstore.SessionInfo
			for _, s := range c.summaries(c.key.ProjectKey) {
				got = append(got, sessionstore.SessionInfo{SessionID: s.SessionID, Mtime: s.Mtime})
			}
			if want := c.sessions(c.key.ProjectKey); !slices.Equal(got, want) {
				c.Errorf("ListSessionSummaries has %v, ListSessions %v", got, want)
			}
		},
	},
	{
		name:     "Summaries/Fold",
		contract: foldSentence,
		needs:    Summaries,
		run: func(c *env) {
			c.append(c.key, title("first title"), prompt("1", "first prompt"))
			c.wantFold()
			c.append(c.key, prompt("2", "second prompt"), entry(`{"type":"tag","tag":"t"}`))
			c.append(c.key, title("second title"), entry(`{"type":"summary","summary":"s\ud83d","extra":1e400}`))
			c.wantFold()
		},
	},
	{
		name:     "Summaries/Repeats",
		contract: foldSentence,
		needs:    Summaries,
		run: func(c *env) {
			// A dropped entry leaves no trace.
			c.append(c.key, entry(`{"type":"custom-title","uuid":"t1","customTitle":"first"}`))
			c.append(c.key, entry(`{"type":"custom-title","uuid":"t2","customTitle":"second"}`), prompt("p", "p"))
			c.append(c.key, entry(`{"type":"custom-title","uuid":"t1","customTitle":"third"}`))
			c.append(c.key, entry(`{"type":"custom-title","uuid":"t2","customTitle":"fourth"}`), prompt("p", "q"))
			c.wantFold()
		},
	},
	{
		name:     "Summaries/OnlyMain",
		contract: foldSentence,
		needs:    Summaries,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), prompt("s", "of the subagent"), title("of the subagent"))
			c.append(c.key, prompt("m", "of the main transcript"))
			c.append(c.sub("subagents/agent-1"), title("of the subagent"), entry(`{"type":"tag","tag":"sub"}`))
			c.wantFold()
		},
	},
	{
		name:     "Summaries/OnlySubpaths",
		contract: summariesSentence,
		needs:    Summaries,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), title("t"))
			if got := c.summaries(c.key.ProjectKey); len(got) != 0 {
				c.Errorf("ListSessionSummaries = %v for a session of subpaths", got)
			}
		},
	},
	{
		name:     "Summaries/UnknownProject",
		contract: summariesSentence,
		needs:    Summaries,
		run: func(c *env) {
			c.append(c.key, title("t"))
			if got := c.summaries("unknown"); len(got) != 0 {
				c.Errorf("ListSessionSummaries of an unknown project = %v", got)
			}
		},
	},
	{
		name:     "Summaries/Data",
		contract: "The data of every summary is JSON, also when no entry holds anything for it.",
		needs:    Summaries,
		run: func(c *env) {
			// Also of entries that hold nothing for a summary.
			c.append(c.key, entry(`{"type":"mode"}`))
			if got := c.summary(); len(got) == 0 || !json.Valid(got) {
				c.Errorf("the summary is %s, want JSON", clip(entry(got), 200))
			}
		},
	},
	{
		name:     "Summaries/OwnData",
		contract: ownSentence,
		needs:    Summaries,
		run: func(c *env) {
			c.append(c.key, title("t"))
			overwrite([]entry{entry(c.summary())})
			c.wantFold()
		},
	},
	{
		name:     "Summaries/Deleted",
		contract: "A main key removes the whole session: the main transcript, every subpath, its summary and its place in lists.",
		needs:    Summaries | Delete,
		run: func(c *env) {
			c.append(c.key, title("old"), prompt("1", "old"))
			c.delete(c.key)
			if got := c.summaries(c.key.ProjectKey); len(got) != 0 {
				c.Errorf("ListSessionSummaries after Delete = %v", got)
			}
			c.append(c.key, prompt("2", "new"))
			c.wantFold()
		},
	},
	{
		name:     "Summaries/TwoHandles",
		contract: foldSentence,
		needs:    Summaries | Handover,
		run: func(c *env) {
			other := c.reopen()
			c.append(c.key, prompt("1", "first"), title("one"))
			other.append(c.key, title("two"), prompt("2", "second"))
			c.append(c.key, entry(`{"type":"tag","tag":"three"}`))
			c.wantFold()
			other.wantFold()
			c.reopen().wantFold()
		},
	},
	{
		name:     "Summaries/Writers",
		contract: foldSentence,
		needs:    Summaries,
		run: func(c *env) {
			var wg sync.WaitGroup
			for w := range c.size.writers {
				wg.Go(func() {
					for n := range c.size.turns {
						batch := []entry{prompt(fmt.Sprint(w, "-", n), fmt.Sprint("prompt ", w, " ", n)), title(fmt.Sprint(w, " ", n))}
						if err := c.store.Append(c.Context(), c.key, batch); err != nil {
							c.Errorf("Append by one of %d writers = %v, want nil", c.size.writers, err)
						}
					}
				})
			}
			wg.Wait()
			c.wantFold()
		},
	},
	{
		name:     "Summaries/LostReply",
		contract: retriedSentence,
		needs:    Summaries | LostReply,
		run: func(c *env) {
			c.append(c.key, title("first"))
			c.appendLost(c.key, prompt("1", "p"), title("second"))
			c.append(c.key, prompt("1", "p"), title("second"))
			c.wantFold()
		},
	},
}
