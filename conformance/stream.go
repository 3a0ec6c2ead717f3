package conformance

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/sessionstore/sessionstore"
)

const (
	streamSentence = "Stream yields what Load returns, one entry after the other."
	endsSentence   = "An error ends the sequence; entries before it have been yielded, so a reader that stops at the first error knows that the transcript is longer."
)

// appendInTime gives up when the store waits for itself, also where it does not
// look at the context. Such an append is left behind.
func (c *env) appendInTime(k key, e entry) error {
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.store.Append(ctx, k, []entry{e}) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience + time.Second):
		return fmt.Errorf("no answer after %v, although its context has ended: is a lock held while the consumer runs?", patience)
	}
}

var streamCases = []testCase{
	{
		name:     "Stream/SameAsLoad",
		contract: streamSentence,
		needs:    Stream,
		run: func(c *env) {
			for _, k := range []key{c.key, c.sub("a")} {
				for i := range 10 {
					c.append(k, user(fmt.Sprint(9-i)), title("t"), user(fmt.Sprint(9-i)))
				}
				if d := diff(c.stream(k), c.load(k)); d != "" {
					c.Errorf("Stream(%v) = %s, which Load gives", k, d)
				}
			}
		},
	},
	{
		name:     "Stream/UnknownKey",
		contract: streamSentence,
		needs:    Stream,
		run: func(c *env) {
			if got := c.stream(c.key); len(got) != 0 {
				c.Errorf("Stream of an unknown key = %s", brief(got))
			}
			c.append(c.key, user("1"))
			if got := c.stream(c.sub("a")); len(got) != 0 {
				c.Errorf("Stream of an unknown subpath = %s", brief(got))
			}
		},
	},
	{
		name:     "Stream/OwnEntries",
		contract: "Each entry is the caller's own.",
		needs:    Stream,
		run: func(c *env) {
			c.append(c.key, users("u", 5)...)
			var got []entry
			for e, err := range sessionstore.Stream(c.Context(), c.store, c.key) {
				if err != nil {
					c.Fatalf("Stream(%v) = %v, want no error", c.key, err)
				}
				// An entry must not share its buffer with those that follow.
				got = append(got, e)
				_ = append(e, "####################"...)
			}
			if d := diff(got, users("u", 5)); d != "" {
				c.Errorf("entries kept from Stream are %s", d)
			}
			overwrite(got)
			c.wantLoad(c.key, users("u", 5)...)
		},
	},
	{
		name:     "Stream/Again",
		contract: streamSentence,
		needs:    Stream,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			seq := sessionstore.Stream(c.Context(), c.store, c.key)
			for range 2 {
				n := 0
				for range seq {
					n++
				}
				if n != 3 {
					c.Errorf("a second range over one sequence of Stream gives %d entries, want 3", n)
				}
			}
		},
	},
	{
		name:     "Stream/StopsEarly",
		contract: "A caller may stop at any entry; nothing is left behind.",
		needs:    Stream,
		run: func(c *env) {
			c.append(c.key, users("u", 500)...)
			before := runtime.NumGoroutine()
			for i := range c.size.rounds {
				for e, err := range sessionstore.Stream(c.Context(), c.store, c.key) {
					if err != nil || string(e) != string(user("u-0")) {
						c.Fatalf("Stream in round %d begins with %s, %v", i, clip(e, 80), err)
					}
					break
				}
			}
			c.wantFewGoroutines(before + c.size.rounds/2)
		},
	},
	{
		name:     "Stream/AppendInside",
		contract: "The store may be used meanwhile, also to append to the same transcript.",
		needs:    Stream,
		run: func(c *env) {
			// A reader that writes while it reads must not wait for itself.
			c.append(c.key, users("u", 3)...)
			for e, err := range sessionstore.Stream(c.Context(), c.store, c.key) {
				if err != nil {
					c.Fatalf("Stream(%v) = %v, want no error", c.key, err)
				}
				if err := c.appendInTime(c.sub("copy"), e); err != nil {
					c.Fatalf("Append inside a range over Stream = %v, want nil", err)
				}
			}
			c.wantLoad(c.sub("copy"), users("u", 3)...)
		},
	},
	{
		name:     "Stream/Cancelled",
		contract: endsSentence,
		needs:    Stream,
		run: func(c *env) {
			stored := c.size.batch
			c.append(c.key, users("u", stored)...)
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			n, failed := 0, false
			for _, err := range sessionstore.Stream(ctx, c.store, c.key) {
				if failed {
					c.Fatal("Stream went on after an error")
				}
				if failed = err != nil; !failed {
					n++
				}
				cancel()
			}
			// Entries that had been fetched by then may still come.
			if !failed && n != stored {
				c.Errorf("Stream with a context cancelled inside gives %d of %d entries and no error", n, stored)
			}
		},
	},
}

// wantFewGoroutines waits until there are at most that many. Clients keep some
// of their own, but not one for each call.
func (c *env) wantFewGoroutines(most int) {
	c.Helper()
	deadline := time.Now().Add(3 * time.Second)
	for runtime.NumGoroutine() > most {
		if time.Now().After(deadline) {
			c.Errorf("%d goroutines are left behind, want at most %d", runtime.NumGoroutine(), most)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
