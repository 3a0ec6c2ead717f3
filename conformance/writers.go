package conformance

import (
	"fmt"
	"sync"

	"github.com/sessionstore/sessionstore"
)

const (
	writersSentence  = "Several writers on one key lose nothing, batches are not interleaved, and each writer's own order is kept."
	oneOrderSentence = "Once the writers have stopped every reader sees one order."
	linesPerBatch    = 3
)

// line is the i-th entry of the n-th batch of a writer.
func line(writer, n, i int) entry {
	return entry(fmt.Sprintf(`{"type":"user","uuid":"w%d-%d-%d","w":%d,"n":%d,"i":%d}`, writer, n, i, writer, n, i))
}

// crowd is how much writers append at the same time.
type crowd struct{ writers, turns, lines int }

// crowd has many writers with small batches.
func (z sizes) crowd() crowd { return crowd{z.writers, z.turns, linesPerBatch} }

// batches returns what a writer appends, one batch after the other.
func (cr crowd) batches(writer int) [][]entry {
	all := make([][]entry, cr.turns)
	for n := range all {
		for i := range cr.lines {
			all[n] = append(all[n], line(writer, n, i))
		}
	}
	return all
}

// write lets writers append to one key at the same time, each through the
// handle that storeOf gives, and waits for them.
func (c *env) write(cr crowd, storeOf func(writer int) sessionstore.SessionStore) {
	c.Helper()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for w := range cr.writers {
		batches, store := cr.batches(w), storeOf(w)
		wg.Go(func() {
			<-start
			for _, batch := range batches {
				if err := store.Append(c.Context(), c.key, batch); err != nil {
					c.Errorf("Append by one of %d writers = %v, want nil", cr.writers, err)
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if c.Failed() {
		c.FailNow()
	}
}

func (c *env) writeHere() {
	c.Helper()
	c.write(c.size.crowd(), func(int) sessionstore.SessionStore { return c.store })
}

// place is where line w, n, i has been found.
type place struct{ writer, n, i int }

func places(entries []entry) []place {
	found := make([]place, len(entries))
	for at, e := range entries {
		if _, err := fmt.Sscanf(e.UUID(), "w%d-%d-%d", &found[at].writer, &found[at].n, &found[at].i); err != nil {
			found[at] = place{-1, -1, -1}
		}
	}
	return found
}

// wantNothingLost checks that every line is there once and nothing else.
func (c *env) wantNothingLost(cr crowd, got []entry) {
	c.Helper()
	count := map[place]int{}
	for _, p := range places(got) {
		count[p]++
	}
	want := cr.writers * cr.turns * cr.lines
	if len(got) != want || len(count) != want {
		c.Errorf("after %d writers Load gives %d entries, %d different, want %d", cr.writers, len(got), len(count), want)
	}
}

// wantWholeBatches checks that each line stands behind the one before it.
func (c *env) wantWholeBatches(got []entry) {
	c.Helper()
	found := places(got)
	for at, p := range found {
		if p.i > 0 && (at == 0 || found[at-1] != (place{p.writer, p.n, p.i - 1})) {
			c.Errorf("entry %d of batch %d of writer %d comes at %d, not behind the entry before it", p.i, p.n, p.writer, at)
			return
		}
	}
}

// wantOwnOrder checks the order of the batches of each writer.
func (c *env) wantOwnOrder(got []entry) {
	c.Helper()
	next := map[int]int{}
	for _, p := range places(got) {
		if p.i != 0 {
			continue
		}
		if p.n < next[p.writer] {
			c.Errorf("batch %d of writer %d comes after its batch %d", p.n, p.writer, next[p.writer]-1)
			return
		}
		next[p.writer] = p.n + 1
	}
}

var writerCases = []testCase{
	{
		name:     "Writers/NothingLost",
		contract: writersSentence,
		run: func(c *env) {
			c.writeHere()
			c.wantNothingLost(c.size.crowd(), c.load(c.key))
		},
	},
	{
		name:     "Writers/WholeBatches",
		contract: writersSentence,
		run: func(c *env) {
			c.writeHere()
			c.wantWholeBatches(c.load(c.key))
		},
	},
	{
		name:     "Writers/OwnOrder",
		contract: writersSentence,
		run: func(c *env) {
			c.writeHere()
			c.wantOwnOrder(c.load(c.key))
		},
	},
	{
		name:     "Writers/LargeBatches",
		contract: writersSentence,
		run: func(c *env) {
			// Long appends meet each other, so that a store without a lock fails
			// even where no race detector looks on.
			c.write(c.size.large, func(int) sessionstore.SessionStore { return c.store })
			got := c.load(c.key)
			c.wantNothingLost(c.size.large, got)
			c.wantWholeBatches(got)
			c.wantOwnOrder(got)
		},
	},
	{
		name:     "Writers/OneOrder",
		contract: oneOrderSentence,
		run: func(c *env) {
			c.writeHere()
			first := c.load(c.key)
			for range 3 {
				c.wantLoad(c.key, first...)
			}
			if d := diff(c.stream(c.key), first); d != "" {
				c.Errorf("Stream(%v) = %s", c.key, d)
			}
			if c.has(Handover) {
				c.reopen().wantLoad(c.key, first...)
			}
		},
	},
	{
		name:     "Writers/SameEntry",
		contract: repeatSentence,
		run: func(c *env) {
			var wg sync.WaitGroup
			for range c.size.writers {
				wg.Go(func() {
					if err := c.store.Append(c.Context(), c.key, []entry{user("same"), user("same 2")}); err != nil {
						c.Errorf("Append by one of %d writers = %v, want nil", c.size.writers, err)
					}
				})
			}
			wg.Wait()
			c.wantLoad(c.key, user("same"), user("same 2"))
		},
	},
	{
		name:     "Writers/OneSession",
		contract: newestSentence,
		needs:    Lister,
		run: func(c *env) {
			c.writeHere()
			c.wantStrings("ListSessions after first appends at once", c.sessionIDs(c.key.ProjectKey), []string{c.key.SessionID})
		},
	},
	{
		name:     "Writers/ManyKeys",
		contract: "All methods are safe for concurrent use.",
		run: func(c *env) {
			keyOf := func(w int) key { return sub(session(c.key, fmt.Sprint("s", w%3)), fmt.Sprint("a", w)) }
			var wg sync.WaitGroup
			for w := range c.size.writers {
				wg.Go(func() {
					k := keyOf(w)
					if err := c.store.Append(c.Context(), k, []entry{line(w, 0, 0)}); err != nil {
						c.Errorf("Append(%v) = %v, want nil", k, err)
					}
					if _, err := c.store.Load(c.Context(), k); err != nil {
						c.Errorf("Load(%v) = %v, want no error", k, err)
					}
				})
			}
			wg.Wait()
			for w := range c.size.writers {
				c.wantLoad(keyOf(w), line(w, 0, 0))
			}
		},
	},
	{
		name:     "Writers/TwoHandles",
		contract: writersSentence,
		needs:    Handover,
		run: func(c *env) {
			other := c.reopen()
			handles := []*env{c, other}
			c.write(c.size.crowd(), func(w int) sessionstore.SessionStore { return handles[w%2].store })
			got := c.load(c.key)
			c.wantNothingLost(c.size.crowd(), got)
			c.wantOwnOrder(got)
			other.wantLoad(c.key, got...)
			c.reopen().wantLoad(c.key, got...)
		},
	},
	{
		name:     "Writers/GrowsAtTheEnd",
		contract: "A store with commit order only ever adds at the end: what a reader has seen is the beginning of what it sees later.",
		needs:    CommitOrder,
		run: func(c *env) {
			var wg sync.WaitGroup
			for w := range c.size.writers {
				wg.Go(func() { c.writeAndWatch(w) })
			}
			wg.Wait()
		},
	},
}

// writeAndWatch appends while others do, and checks after each batch that the
// transcript begins with what it was before.
func (c *env) writeAndWatch(writer int) {
	var before []entry
	for n := range c.size.turns {
		batch := []entry{line(writer, n, 0), line(writer, n, 1), line(writer, n, 2)}
		if err := c.store.Append(c.Context(), c.key, batch); err != nil {
			c.Errorf("Append by one of %d writers = %v, want nil", c.size.writers, err)
			return
		}
		got, err := c.store.Load(c.Context(), c.key)
		if err != nil {
			c.Errorf("Load while others append = %v, want no error", err)
			return
		}
		if d := diff(got[:min(len(got), len(before))], before); d != "" {
			c.Errorf("Load while others append does not begin with what Load gave before: %s", d)
			return
		}
		before = got
	}
}
