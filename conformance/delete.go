package conformance

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sessionstore/sessionstore"
)

const (
	cascadeSentence  = "A main key removes the whole session: the main transcript, every subpath, its summary and its place in lists."
	subpathSentence  = `A subpath key removes that transcript alone: deleting "a" leaves "a/b".`
	noErrorSentence  = "An unknown key is no error."
	recreateSentence = "A transcript that was deleted is unknown: what is appended afterwards starts a new one."
)

var deleteCases = []testCase{
	{
		name:     "Delete/Main",
		contract: cascadeSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			c.delete(c.key)
			c.wantUnknown(c.key)
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Delete/Cascade",
		contract: cascadeSentence,
		needs:    Delete,
		run: func(c *env) {
			paths := []string{"a", "a/b", "subagents/agent-1", "subagents/workflows/w/agent-2"}
			for _, path := range paths {
				c.append(c.sub(path), user("1"))
			}
			c.append(c.key, user("1"))
			c.delete(c.key)
			for _, path := range paths {
				c.wantUnknown(c.sub(path))
			}
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Delete/CascadeWithoutMain",
		contract: cascadeSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), user("1"))
			c.delete(c.key)
			c.wantUnknown(c.sub("subagents/agent-1"))
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Delete/Subpath",
		contract: subpathSentence,
		needs:    Delete,
		run: func(c *env) {
			for _, path := range []string{"", "a", "b"} {
				c.append(c.sub(path), user("of "+path))
			}
			c.delete(c.sub("a"))
			c.wantUnknown(c.sub("a"))
			c.wantLoad(c.key, user("of "))
			c.wantLoad(c.sub("b"), user("of b"))
		},
	},
	{
		name:     "Delete/SubpathBelow",
		contract: subpathSentence,
		needs:    Delete,
		run: func(c *env) {
			for _, path := range []string{"a", "a/b", "a/b/c", "a2"} {
				c.append(c.sub(path), user("of "+path))
			}
			c.delete(c.sub("a"))
			for _, path := range []string{"a/b", "a/b/c", "a2"} {
				c.wantLoad(c.sub(path), user("of "+path))
			}
		},
	},
	{
		name:     "Delete/SubpathAbove",
		contract: subpathSentence,
		needs:    Delete,
		run: func(c *env) {
			for _, path := range []string{"a", "a/b", "a/b/c"} {
				c.append(c.sub(path), user("of "+path))
			}
			c.delete(c.sub("a/b"))
			c.wantUnknown(c.sub("a/b"))
			c.wantLoad(c.sub("a"), user("of a"))
			c.wantLoad(c.sub("a/b/c"), user("of a/b/c"))
			c.delete(c.sub("a/b/c"))
			c.wantLoad(c.sub("a"), user("of a"))
		},
	},
	{
		name:     "Delete/LastSubpath",
		contract: subpathSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.sub("a"), user("1"))
			c.delete(c.sub("a"))
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Delete/Unknown",
		contract: noErrorSentence,
		needs:    Delete,
		run: func(c *env) {
			c.delete(c.key)
			c.delete(c.sub("a"))
			c.append(c.sub("b"), user("1"))
			c.delete(c.sub("a"))
			c.delete(session(c.key, "other"))
			c.wantLoad(c.sub("b"), user("1"))
		},
	},
	{
		name:     "Delete/Twice",
		contract: noErrorSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.key, user("1"))
			c.append(c.sub("a"), user("1"))
			for _, k := range []key{c.sub("a"), c.sub("a"), c.key, c.key} {
				c.delete(k)
			}
			c.wantUnknown(c.key)
		},
	},
	{
		name:     "Delete/OtherSessions",
		contract: cascadeSentence,
		needs:    Delete,
		run: func(c *env) {
			others := []key{session(c.key, "other"), in("other", c.key.SessionID, ""), in("other", c.key.SessionID, "a"), in("o", "p", "q")}
			for _, k := range append(others, c.key, c.sub("a")) {
				c.append(k, user("1"))
			}
			c.delete(c.key)
			for _, k := range others {
				c.wantLoad(k, user("1"))
			}
			if c.has(Lister) {
				c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{"other"})
			}
		},
	},
	{
		name:     "Delete/OtherHandle",
		contract: unknownSentence,
		needs:    Delete | Handover,
		run: func(c *env) {
			c.append(c.key, user("1"))
			other := c.reopen()
			other.wantLoad(c.key, user("1"))
			c.delete(c.key)
			other.wantUnknown(c.key)
			other.wantNowhere(c.key)
		},
	},
	{
		name:     "Delete/Races",
		contract: "An append that meets a deletion comes wholly before it or wholly after it, and lists agree with what Load gives afterwards.",
		needs:    Delete,
		run: func(c *env) {
			for i := range c.size.rounds {
				k := session(c.key, fmt.Sprint("s", i%4))
				c.race(k, i)
				if c.Failed() {
					return
				}
			}
		},
	},
}

// race appends to a session while it is being deleted.
func (c *env) race(k key, round int) {
	c.Helper()
	c.delete(k)
	before, during := users(fmt.Sprint("before ", round), 2), users(fmt.Sprint("during ", round), 3)
	c.append(k, before...)
	var wg sync.WaitGroup
	for _, target := range []key{k, sub(k, "a")} {
		wg.Go(func() {
			if err := c.store.Append(c.Context(), target, during); err != nil {
				c.Errorf("Append(%v) during a Delete = %v, want nil", target, err)
			}
		})
	}
	wg.Go(func() {
		if err := sessionstore.Delete(c.Context(), c.store, k); err != nil {
			c.Errorf("Delete(%v) during an Append = %v, want nil", k, err)
		}
	})
	wg.Wait()
	// The append came wholly before the deletion or wholly after it.
	main, path := c.load(k), c.load(sub(k, "a"))
	if main != nil && diff(main, during) != "" {
		c.Errorf("after Append and Delete at once Load(%v) = %s, want nil or %s", k, brief(main), brief(during))
	}
	if c.has(Lister) && slices.Contains(c.sessionIDs(k.ProjectKey), k.SessionID) != (main != nil) {
		c.Errorf("after Append and Delete at once %q has %d entries, but ListSessions = %q", k.SessionID, len(main), c.sessionIDs(k.ProjectKey))
	}
	if c.has(Subkeys) && slices.Contains(c.subkeys(k), "a") != (path != nil) {
		c.Errorf("after Append and Delete at once subpath a has %d entries, but ListSubkeys = %q", len(path), c.subkeys(k))
	}
}

var recreateCases = []testCase{
	{
		name:     "Recreate/StartsEmpty",
		contract: recreateSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.key, users("old", 3)...)
			c.append(c.sub("a"), users("old", 3)...)
			c.delete(c.key)
			c.append(c.key, user("new"))
			c.append(c.sub("a"), user("new"))
			c.wantLoad(c.key, user("new"))
			c.wantLoad(c.sub("a"), user("new"))
		},
	},
	{
		name:     "Recreate/SameUUIDs",
		contract: recreateSentence,
		needs:    Delete,
		run: func(c *env) {
			for range 3 {
				c.append(c.key, users("u", 3)...)
				c.append(c.sub("a"), users("u", 3)...)
				c.wantLoad(c.key, users("u", 3)...)
				c.wantLoad(c.sub("a"), users("u", 3)...)
				c.delete(c.key)
			}
		},
	},
	{
		name:     "Recreate/Subpath",
		contract: recreateSentence,
		needs:    Delete,
		run: func(c *env) {
			for range 3 {
				c.append(c.sub("a"), user("1"), title("t"))
				c.wantLoad(c.sub("a"), user("1"), title("t"))
				c.delete(c.sub("a"))
			}
		},
	},
	{
		name:     "Recreate/Listed",
		contract: recreateSentence,
		needs:    Delete | Lister,
		run: func(c *env) {
			c.append(c.key, user("1"))
			c.delete(c.key)
			c.append(c.key, user("1"))
			c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{c.key.SessionID})
		},
	},
	{
		name:     "Recreate/ThroughOtherHandle",
		contract: recreateSentence,
		needs:    Delete | Handover,
		run: func(c *env) {
			// The other handle may remember ids of the transcript that is gone.
			other := c.reopen()
			c.append(c.key, users("u", 3)...)
			other.wantLoad(c.key, users("u", 3)...)
			other.append(c.key, user("more"))
			c.delete(c.key)
			other.append(c.key, append(users("u", 3), user("more"))...)
			other.wantLoad(c.key, append(users("u", 3), user("more"))...)
			c.append(c.key, title("t"))
			c.wantLoad(c.key, append(users("u", 3), user("more"), title("t"))...)
		},
	},
	{
		name:     "Recreate/Behind",
		contract: recreateSentence,
		needs:    Delete | HandoverBehind,
		run: func(c *env) {
			other := c.reopenBehind()
			c.append(c.key, users("old", 3)...)
			c.delete(c.key)
			other.append(c.key, user("1"))
			c.load(c.key)
			c.append(c.key, user("2"))
			other.load(c.key)
			other.append(c.key, user("3"))
			c.wantLoad(c.key, user("1"), user("2"), user("3"))
		},
	},
}
