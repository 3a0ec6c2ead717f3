package conformance

import (
	"fmt"
	"slices"
)

const (
	behindSentence = "A handle that has loaded a transcript appends behind everything it loaded, whatever its clock says."
)

// takeTurns lets two handles load and append in turn.
func (c *env) takeTurns(k key, other *env) {
	c.Helper()
	var want []entry
	for i := range 6 {
		for j, h := range []*env{c, other} {
			h.wantLoad(k, want...)
			batch := []entry{user(fmt.Sprintf("%d-%d", i, j)), title(fmt.Sprintf("%d-%d", i, j))}
			h.append(k, batch...)
			want = append(want, batch...)
		}
	}
	c.wantLoad(k, want...)
	other.wantLoad(k, want...)
}

var handoverCases = []testCase{
	{
		name:     "Handover/Durable",
		contract: wholeSentence,
		needs:    Handover,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			c.append(c.sub("a"), title("t"))
			other := c.reopen()
			other.wantLoad(c.key, users("u", 3)...)
			other.wantLoad(c.sub("a"), title("t"))
		},
	},
	{
		name:     "Handover/SeesLaterAppends",
		contract: "Once Append has returned, every handle loads what it has stored.",
		needs:    Handover,
		run: func(c *env) {
			other := c.reopen()
			other.wantUnknown(c.key)
			c.append(c.key, user("1"))
			other.wantLoad(c.key, user("1"))
			c.append(c.key, user("2"))
			other.wantLoad(c.key, user("1"), user("2"))
		},
	},
	{
		name:     "Handover/TakeOver",
		contract: behindSentence,
		needs:    Handover,
		run: func(c *env) {
			for _, e := range users("first", 5) {
				c.append(c.key, e)
			}
			other := c.reopen()
			other.wantLoad(c.key, users("first", 5)...)
			for _, e := range users("second", 5) {
				other.append(c.key, e)
			}
			c.wantLoad(c.key, slices.Concat(users("first", 5), users("second", 5))...)
		},
	},
	{
		name:     "Handover/InTurn",
		contract: behindSentence,
		needs:    Handover,
		run:      func(c *env) { c.takeTurns(c.key, c.reopen()) },
	},
	{
		name:     "Handover/ClockBehind",
		contract: behindSentence,
		needs:    HandoverBehind,
		run: func(c *env) {
			c.append(c.key, users("first", 3)...)
			c.append(c.key, title("t"))
			other := c.reopenBehind()
			other.load(c.key)
			other.append(c.key, users("second", 3)...)
			other.append(c.key, title("u"))
			want := slices.Concat(users("first", 3), []entry{title("t")}, users("second", 3), []entry{title("u")})
			c.wantLoad(c.key, want...)
			other.wantLoad(c.key, want...)
		},
	},
	{
		name:     "Handover/ClockBehindInTurn",
		contract: behindSentence,
		needs:    HandoverBehind,
		run: func(c *env) {
			c.takeTurns(c.key, c.reopenBehind())
			c.takeTurns(c.sub("subagents/agent-1"), c.reopenBehind())
		},
	},
	{
		name:     "Handover/ClockBehindStreamed",
		contract: behindSentence,
		needs:    HandoverBehind | Stream,
		run: func(c *env) {
			c.append(c.key, users("first", 3)...)
			other := c.reopenBehind()
			other.stream(c.key)
			other.append(c.key, user("second"))
			c.wantLoad(c.key, append(users("first", 3), user("second"))...)
		},
	},
	{
		name:     "Handover/Repeats",
		contract: repeatSentence,
		needs:    Handover,
		run: func(c *env) {
			c.append(c.key, userSays("1", "first"))
			c.tick()
			other := c.reopen()
			other.append(c.key, userSays("1", "second"), user("2"))
			c.tick()
			c.append(c.key, userSays("2", "third"))
			c.wantLoad(c.key, userSays("1", "first"), user("2"))
			other.wantLoad(c.key, userSays("1", "first"), user("2"))
		},
	},
	{
		name:     "Handover/RepeatsAfterLoad",
		contract: repeatSentence,
		needs:    Handover,
		run: func(c *env) {
			// What a handle knew when it loaded is not all there is.
			other := c.reopen()
			c.append(c.key, user("1"))
			other.wantLoad(c.key, user("1"))
			c.append(c.key, user("2"))
			c.tick()
			other.append(c.key, userSays("1", "x"), userSays("2", "x"), user("3"))
			other.wantLoad(c.key, user("1"), user("2"), user("3"))
		},
	},
	{
		name:     "Handover/EqualWithoutUUID",
		contract: noUUIDSentence,
		needs:    Handover,
		run: func(c *env) {
			c.append(c.key, title("same"))
			other := c.reopen()
			other.append(c.key, title("same"))
			c.wantLoad(c.key, title("same"), title("same"))
		},
	},
	{
		name:     "Handover/NothingLost",
		contract: writersSentence,
		needs:    Handover,
		run: func(c *env) {
			other := c.reopen()
			for i := range 5 {
				c.append(c.key, line(0, i, 0))
				other.append(c.key, line(1, i, 0))
			}
			got := other.load(c.key)
			c.wantOwnOrder(got)
			if len(got) != 10 {
				c.Errorf("after 10 appends through two handles in turn Load = %s", brief(got))
			}
			c.wantLoad(c.key, got...)
		},
	},
	{
		name:     "Handover/Lists",
		contract: "Every handle gives the same lists.",
		needs:    Handover | Lister,
		run: func(c *env) {
			for _, id := range []string{"b", "a", "c"} {
				c.append(session(c.key, id), user("1"))
				c.tick()
			}
			other := c.reopen()
			c.append(c.key, user("1"))
			here, there := c.sessions(c.key.ProjectKey), other.sessions(c.key.ProjectKey)
			if !slices.Equal(here, there) {
				c.Errorf("ListSessions = %v through one handle, %v through another", here, there)
			}
		},
	},
}
