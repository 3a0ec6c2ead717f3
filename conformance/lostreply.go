package conformance

import (
	"context"
	"slices"

	"github.com/sessionstore/sessionstore"
)

const retriedSentence = "A batch that is appended again after Append failed is stored once, entries without uuid included, whether or not the first attempt landed."

var lostReplyCases = []testCase{
	{
		name:     "LostReply/WithoutUUID",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			batch := []entry{title("a"), title("b")}
			c.appendLost(c.key, batch...)
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "LostReply/Mixed",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			batch := []entry{title("a"), user("1"), title("b"), user("2"), title("a")}
			c.append(c.key, user("before"))
			c.appendLost(c.key, batch...)
			c.append(c.key, batch...)
			c.append(c.key, user("after"))
			c.wantLoad(c.key, slices.Concat([]entry{user("before")}, batch, []entry{user("after")})...)
		},
	},
	{
		name:     "LostReply/Landed",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			// The reader between the two attempts sees the first one.
			c.appendLost(c.key, title("a"))
			if got := c.load(c.key); len(got) > 1 {
				c.Errorf("Load(%v) after the first attempt = %s, want at most one entry", c.key, brief(got))
			}
			c.append(c.key, title("a"))
			c.wantLoad(c.key, title("a"))
		},
	},
	{
		name:     "LostReply/EqualBytes",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			// The retry need not come from the same memory.
			batch := []entry{title("a"), user("1")}
			again := clone(batch)
			c.appendLost(c.key, batch...)
			overwrite(batch)
			c.append(c.key, again...)
			c.wantLoad(c.key, title("a"), user("1"))
		},
	},
	{
		name:     "LostReply/EqualInBatch",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			batch := []entry{title("same"), title("same")}
			c.appendLost(c.key, batch...)
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "LostReply/Subpath",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			c.appendLost(c.sub("a"), title("a"))
			c.append(c.sub("a"), title("a"))
			c.wantLoad(c.sub("a"), title("a"))
		},
	},
	{
		name:     "LostReply/ThirdAttempt",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			batch := []entry{title("a"), user("1")}
			c.appendLost(c.key, batch...)
			c.appendLost(c.key, batch...)
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "LostReply/CancelledBetween",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			// The attempt that surely did nothing does not settle the first.
			c.appendLost(c.key, title("a"))
			c.wantError("Append with a cancelled context", c.store.Append(c.cancelled(), c.key, []entry{title("a")}), context.Canceled)
			c.append(c.key, title("a"))
			c.wantLoad(c.key, title("a"))
		},
	},
	{
		name:     "LostReply/NewBatchAfterwards",
		contract: "After a success the matter is settled: an equal batch is then a new one.",
		needs:    LostReply,
		run: func(c *env) {
			// The retry has settled the matter: an equal batch is a new one.
			c.appendLost(c.key, title("a"))
			c.append(c.key, title("a"))
			c.append(c.key, title("a"))
			c.wantLoad(c.key, title("a"), title("a"))
		},
	},
	{
		name:     "LostReply/DeclaredNew",
		contract: "A batch appended with a context of `WithNewBatch` repeats nothing: it is stored even if an equal batch failed before.",
		needs:    LostReply,
		run: func(c *env) {
			c.appendLost(c.key, title("a"))
			before := len(c.load(c.key)) // the first one may have landed
			if err := c.store.Append(sessionstore.WithNewBatch(c.Context()), c.key, []entry{title("a")}); err != nil {
				c.Fatalf("Append(%v) = %v, want nil", c.key, err)
			}
			if got := c.load(c.key); len(got) != before+1 {
				c.Errorf("Load(%v) = %s, want %d entries", c.key, brief(got), before+1)
			}
		},
	},
	{
		name:     "LostReply/OtherKeyBetween",
		contract: retriedSentence,
		needs:    LostReply,
		run: func(c *env) {
			c.appendLost(c.key, title("a"))
			c.append(c.sub("a"), title("b"))
			c.append(session(c.key, "other"), title("c"))
			c.append(c.key, title("a"))
			c.wantLoad(c.key, title("a"))
		},
	},
	{
		name:     "LostReply/OtherKeySameBatch",
		contract: noUUIDSentence,
		needs:    LostReply,
		run: func(c *env) {
			c.appendLost(c.key, title("a"))
			c.append(c.sub("a"), title("a"))
			c.append(session(c.key, "other"), title("a"))
			c.wantLoad(c.sub("a"), title("a"))
			c.wantLoad(session(c.key, "other"), title("a"))
		},
	},
	{
		name:     "LostReply/InPlace",
		contract: "The result is one copy, in the place of the first attempt that landed.",
		needs:    LostReply | Handover,
		run: func(c *env) {
			c.appendLost(c.key, title("a"))
			other := c.reopen()
			other.load(c.key)
			other.append(c.key, title("b"))
			c.append(c.key, title("a"))
			c.wantLoad(c.key, title("a"), title("b"))
			other.wantLoad(c.key, title("a"), title("b"))
		},
	},
	{
		name:     "LostReply/OneSession",
		contract: newestSentence,
		needs:    LostReply | Lister,
		run: func(c *env) {
			c.appendLost(c.key, title("a"))
			c.append(c.key, title("a"))
			c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{c.key.SessionID})
		},
	},
	{
		name:     "LostReply/DeletedBetween",
		contract: retriedSentence,
		needs:    LostReply | Delete,
		run: func(c *env) {
			// What landed is gone, so the retry has to store the batch.
			batch := []entry{title("a"), user("1")}
			c.appendLost(c.key, batch...)
			c.delete(c.key)
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
}
