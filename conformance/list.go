package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
)

const (
	newestSentence = "ListSessions returns each session that has a main transcript, newest first and by id where times are equal."
	mtimeSentence  = "Mtime is when the main transcript was last written, by the clock of the storage, in whole milliseconds since 1970."
	steadySentence = "Reading never changes it, nor does an append to a subpath."
)

func newestFirst(a, b sessionstore.SessionInfo) int {
	return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), cmp.Compare(a.SessionID, b.SessionID))
}

// wantSteadyTime checks that do does not change the time of the session.
func (c *env) wantSteadyTime(what string, do func()) {
	c.Helper()
	c.append(c.key, user("1"))
	before := c.mtime()
	c.tick()
	do()
	if after := c.mtime(); after != before {
		c.Errorf("%s moved the time of the session from %d to %d", what, before, after)
	}
}

var sessionsCases = []testCase{
	{
		name:     "ListSessions/Each",
		contract: newestSentence,
		needs:    Lister,
		run: func(c *env) {
			want := []string{"a", "b", "c"}
			for _, id := range want {
				c.append(session(c.key, id), user("1"))
				c.append(session(c.key, id), user("2"))
			}
			c.append(in("other", "d", ""), user("1"))
			c.wantStrings("ListSessions, sorted", sortedIDs(c.sessions(c.key.ProjectKey)), want)
			c.wantStrings("ListSessions of another project", sortedIDs(c.sessions("other")), []string{"d"})
		},
	},
	{
		name:     "ListSessions/NewestFirst",
		contract: newestSentence,
		needs:    Lister,
		run: func(c *env) {
			for _, id := range []string{"b", "c", "a", "b"} {
				c.append(session(c.key, id), title("t"))
				c.tick()
			}
			got := c.sessions(c.key.ProjectKey)
			if !slices.IsSortedFunc(got, newestFirst) {
				c.Errorf("ListSessions = %v, want the newest first", got)
			}
		},
	},
	{
		name:     "ListSessions/TiesByID",
		contract: newestSentence,
		needs:    Lister,
		run: func(c *env) {
			// Several of these fall into one millisecond on most stores.
			for i := range 12 {
				c.append(session(c.key, fmt.Sprint("s", 99-i*7%12)), title("t"))
			}
			first := c.sessions(c.key.ProjectKey)
			if !slices.IsSortedFunc(first, newestFirst) {
				c.Errorf("ListSessions = %v, want equal times ordered by id", first)
			}
			for range 3 {
				if got := c.sessions(c.key.ProjectKey); !slices.Equal(got, first) {
					c.Fatalf("ListSessions = %v, then %v, want the same again", first, got)
				}
			}
		},
	},
	{
		name:     "ListSessions/UnknownProject",
		contract: "An unknown project gives an empty list.",
		needs:    Lister,
		run: func(c *env) {
			if got := c.sessions("unknown"); len(got) != 0 {
				c.Errorf("ListSessions of an unknown project = %v", got)
			}
			c.append(c.key, user("1"))
			if got := c.sessions("unknown"); len(got) != 0 {
				c.Errorf("ListSessions of an unknown project = %v", got)
			}
		},
	},
	{
		name:     "ListSessions/OnlySubpaths",
		contract: "A session with only subpaths is not listed.",
		needs:    Lister,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), user("1"))
			c.append(session(c.key, "main"), user("1"))
			c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{"main"})
			// The main transcript may come later.
			c.append(c.key, user("1"))
			c.wantStrings("ListSessions, sorted", sortedIDs(c.sessions(c.key.ProjectKey)), []string{c.key.SessionID, "main"})
		},
	},
	{
		name:     "ListSessions/Milliseconds",
		contract: mtimeSentence,
		needs:    Lister,
		run: func(c *env) {
			c.append(c.key, user("1"))
			// The clocks of storage and host may differ, but not by a unit.
			got := time.UnixMilli(c.mtime())
			if d := time.Since(got).Abs(); d > 30*24*time.Hour {
				c.Errorf("the time of a new session is %v", got.UTC())
			}
		},
	},
	{
		name:     "ListSessions/AppendMovesTime",
		contract: mtimeSentence,
		needs:    Lister,
		run: func(c *env) {
			c.append(c.key, title("t"))
			first := c.mtime()
			last := first
			// A storage clock of whole seconds has to get through one.
			for deadline := time.Now().Add(3 * time.Second); last == first && time.Now().Before(deadline); {
				c.tick()
				c.append(c.key, title("t"))
				if now := c.mtime(); now < last {
					c.Fatalf("an append moved the time back from %d to %d", last, now)
				} else {
					last = now
				}
			}
			if last == first {
				c.Errorf("the time of the session is %d before and after later appends", first)
			}
		},
	},
	{
		name:     "ListSessions/ReadingKeepsTime",
		contract: steadySentence,
		needs:    Lister,
		run: func(c *env) {
			c.wantSteadyTime("reading", func() {
				c.load(c.key)
				c.stream(c.key)
				c.sessions(c.key.ProjectKey)
				if c.has(Subkeys) {
					c.subkeys(c.key)
				}
				if c.has(Projects) {
					c.projects()
				}
				if c.has(Summaries) {
					c.summaries(c.key.ProjectKey)
				}
				if c.has(Handover) {
					c.reopen().load(c.key)
				}
			})
		},
	},
	{
		name:     "ListSessions/SubpathKeepsTime",
		contract: steadySentence,
		needs:    Lister,
		run: func(c *env) {
			c.wantSteadyTime("an append to a subpath", func() {
				c.append(c.sub("a"), user("1"))
				c.append(c.sub("a"), user("2"))
			})
		},
	},
	{
		name:     "ListSessions/OtherSessionKeepsTime",
		contract: mtimeSentence,
		needs:    Lister,
		run: func(c *env) {
			c.wantSteadyTime("an append to another session", func() { c.append(session(c.key, "other"), user("1")) })
		},
	},
	{
		name:     "ListSessions/DeletedSubpathKeepsTime",
		contract: mtimeSentence,
		needs:    Lister | Delete,
		run: func(c *env) {
			c.append(c.sub("a"), user("1"))
			c.wantSteadyTime("deleting a subpath", func() { c.delete(c.sub("a")) })
		},
	},
}
