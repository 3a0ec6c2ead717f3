package conformance

import (
	"bytes"
	"fmt"
	"slices"
)

var sizeCases = []testCase{
	{
		name:     "Size/HugeEntry",
		contract: "An entry of 64 MiB is stored like a short one.",
		run: func(c *env) {
			huge := bytes.Repeat([]byte("0123456789abcdef"), c.size.entry/16)
			copy(huge, `{"uuid":"huge","a":"`)
			copy(huge[len(huge)-2:], `"}`)
			c.append(c.key, user("before"), huge)
			c.append(c.key, user("after"))
			got := c.load(c.key)
			if len(got) != 3 || !bytes.Equal(got[1], huge) {
				c.Fatalf("Load(%v) = %s, want an entry of %d bytes between two short ones", c.key, brief(got), len(huge))
			}
		},
	},
	{
		name:     "Size/HugeBatch",
		contract: wholeSentence,
		run: func(c *env) {
			batch := users("u", c.size.batch)
			for i := 0; i < len(batch); i += 4 {
				batch[i] = title(fmt.Sprint(i % 64))
			}
			c.append(c.key, batch...)
			c.append(c.key, user("after"))
			c.wantLoad(c.key, append(batch, user("after"))...)
		},
	},
	{
		name:     "Size/HugeBatchOfRepeats",
		contract: repeatSentence,
		run: func(c *env) {
			batch := users("u", c.size.batch)
			c.append(c.key, batch[:len(batch)/2]...)
			c.append(c.key, slices.Concat(batch, batch)...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "Size/ManyBatches",
		contract: callOrderSentence,
		run: func(c *env) {
			var want []entry
			for i := range c.size.batches {
				e := user(fmt.Sprint((i * 7919) % c.size.batches))
				if i%3 == 0 {
					e = title(fmt.Sprint(i % 10))
				}
				c.append(c.key, e)
				want = append(want, e)
			}
			c.wantLoad(c.key, want...)
			if d := diff(c.stream(c.key), want); d != "" {
				c.Errorf("Stream(%v) = %s", c.key, d)
			}
		},
	},
	{
		name:     "Size/ManySubpaths",
		contract: "A session has one main transcript and any number of subpath transcripts.",
		run: func(c *env) {
			var want []string
			for i := range c.size.subpaths {
				path := fmt.Sprintf("subagents/agent-%04d", i)
				c.append(c.sub(path), user(path))
				want = append(want, path)
			}
			for _, path := range []string{want[0], want[len(want)-1]} {
				c.wantLoad(c.sub(path), user(path))
			}
			if c.has(Subkeys) {
				c.wantStrings("ListSubkeys", c.subkeys(c.key), want)
			}
			if c.has(Delete) {
				c.append(c.key, user("main"))
				c.delete(c.key)
				c.wantUnknown(c.sub(want[len(want)/2]))
				c.wantNowhere(c.key)
			}
		},
	},
	{
		name:     "Size/ManySessions",
		contract: "A list is never cut short: it has a row for each session, however many there are.",
		needs:    Lister,
		run: func(c *env) {
			var want []string
			for i := range c.size.sessions {
				id := fmt.Sprintf("session-%05d", i)
				c.append(session(c.key, id), user(id))
				want = append(want, id)
			}
			c.wantStrings("ListSessions, sorted", sortedIDs(c.sessions(c.key.ProjectKey)), want)
			if c.has(Summaries) && len(c.summaries(c.key.ProjectKey)) != len(want) {
				c.Errorf("ListSessionSummaries = %d rows, want %d", len(c.summaries(c.key.ProjectKey)), len(want))
			}
		},
	},
}
