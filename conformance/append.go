package conformance

import (
	"slices"
)

const (
	wholeSentence  = "On a nil error the batch is durable, whole and in order."
	emptySentence  = "An empty batch changes nothing and creates no key."
	copiesSentence = "The store copies what it is given; the caller may reuse the slice and the bytes once Append has returned."
)

var appendCases = []testCase{
	{
		name:     "Append/Whole",
		contract: wholeSentence,
		run: func(c *env) {
			batch := []entry{user("1"), title("one"), user("2"), title("two")}
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "Append/AtTheEnd",
		contract: "Append adds a batch of entries at the end of the transcript.",
		run: func(c *env) {
			first, second := users("z", 3), users("a", 3)
			c.append(c.key, first...)
			c.append(c.key, second...)
			c.wantLoad(c.key, slices.Concat(first, second)...)
		},
	},
	{
		name:     "Append/Subpath",
		contract: wholeSentence,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"), users("s", 3)...)
			c.wantLoad(c.sub("subagents/agent-1"), users("s", 3)...)
		},
	},
	{
		name:     "Append/EmptyBatch",
		contract: emptySentence,
		run: func(c *env) {
			c.append(c.key)
			c.append(session(c.key, "other"), []entry{}...)
			c.wantUnknown(c.key)
			c.wantNowhere(c.key)
			c.wantUnknown(session(c.key, "other"))
			c.wantNowhere(session(c.key, "other"))
		},
	},
	{
		name:     "Append/EmptyBatchToSubpath",
		contract: emptySentence,
		run: func(c *env) {
			c.append(c.sub("subagents/agent-1"))
			c.wantUnknown(c.sub("subagents/agent-1"))
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Append/EmptyBatchBehind",
		contract: emptySentence,
		run: func(c *env) {
			c.append(c.key, users("u", 2)...)
			var before int64
			if c.has(Lister) {
				before = c.mtime()
			}
			c.tick()
			c.append(c.key)
			c.wantLoad(c.key, users("u", 2)...)
			if c.has(Lister) && c.mtime() != before {
				c.Errorf("an empty batch moved the time from %d to %d", before, c.mtime())
			}
		},
	},
	{
		name:     "Append/MissingType",
		contract: "A missing type is accepted.",
		run: func(c *env) {
			batch := []entry{entry(`{}`), entry(`{"uuid":"1"}`), entry(`{"type":7}`), entry(`{"type":null,"a":1}`)}
			for _, e := range batch {
				c.append(c.key, e)
			}
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "Append/LeavesArguments",
		contract: copiesSentence,
		run: func(c *env) {
			// In an order and a form that a careless store would tidy up.
			given := []entry{user("2"), user("1"), user("2"), entry("{\"b\":1,\n \"a\":2}"), title("t")}
			want := clone(given)
			c.append(c.key, given...)
			if d := diff(given, want); d != "" {
				c.Errorf("Append changed its argument to %s", d)
			}
		},
	},
	{
		name:     "Append/ReusedSlice",
		contract: copiesSentence,
		run: func(c *env) {
			batch := make([]entry, 0, 8)
			batch = append(batch, users("a", 3)...)
			c.append(c.key, batch...)
			batch = append(batch[:0], users("b", 3)...)
			c.wantLoad(c.key, users("a", 3)...)
			c.append(c.key, batch...)
			clear(batch)
			c.wantLoad(c.key, slices.Concat(users("a", 3), users("b", 3))...)
		},
	},
	{
		name:     "Append/ReusedBytes",
		contract: copiesSentence,
		run: func(c *env) {
			batch := []entry{user("1"), title("one")}
			want := clone(batch)
			c.append(c.key, batch...)
			overwrite(batch)
			c.wantLoad(c.key, want...)
		},
	},
}
