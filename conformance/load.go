package conformance

const (
	unknownSentence = "A transcript that was never written or was deleted gives nil, nil."
	ownSentence     = "The result is the caller's own."
)

var loadCases = []testCase{
	{
		name:     "Load/UnknownKey",
		contract: unknownSentence,
		run: func(c *env) {
			c.wantUnknown(c.key)
			c.wantUnknown(c.sub("subagents/agent-1"))
		},
	},
	{
		name:     "Load/UnknownSubpath",
		contract: unknownSentence,
		run: func(c *env) {
			c.append(c.key, user("1"))
			c.append(c.sub("a/b"), user("2"))
			c.wantUnknown(c.sub("a"))
			c.wantUnknown(c.sub("a/b/c"))
			c.wantUnknown(session(c.key, "other"))
		},
	},
	{
		name:     "Load/UnknownMain",
		contract: unknownSentence,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), user("1"))
			c.wantUnknown(c.key)
		},
	},
	{
		name:     "Load/LooksOnly",
		contract: unknownSentence,
		run: func(c *env) {
			// Asking must not bring anything into being.
			c.wantUnknown(c.key)
			c.wantUnknown(c.sub("a"))
			for range c.stream(c.sub("b")) {
				c.Error("Stream of an unknown key gave an entry")
			}
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Load/OwnBytes",
		contract: ownSentence,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			overwrite(c.load(c.key))
			c.wantLoad(c.key, users("u", 3)...)
		},
	},
	{
		name:     "Load/OwnSlice",
		contract: ownSentence,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			clear(c.load(c.key))
			c.wantLoad(c.key, users("u", 3)...)
			// Appending to a result must not reach what the store appends next.
			first := append(c.load(c.key), title("mine"))
			c.append(c.key, user("next"))
			second := c.load(c.key)
			if d := diff(first, append(users("u", 3), title("mine"))); d != "" {
				c.Errorf("a loaded slice changed to %s", d)
			}
			if d := diff(second, append(users("u", 3), user("next"))); d != "" {
				c.Errorf("Load(%v) = %s", c.key, d)
			}
		},
	},
	{
		name:     "Load/EntriesApart",
		contract: ownSentence,
		run: func(c *env) {
			// The entries may share one buffer, but none may grow into the next.
			c.append(c.key, users("u", 3)...)
			got := c.load(c.key)
			for _, e := range got {
				_ = append(e, "##########"...)
			}
			if d := diff(got, users("u", 3)); d != "" {
				c.Errorf("after appending to each loaded entry they are %s", d)
			}
		},
	},
}
