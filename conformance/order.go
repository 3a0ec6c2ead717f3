package conformance

import (
	"fmt"
	"slices"
)

const callOrderSentence = "Batches of one writer keep their call order and entries keep their order in the batch; nothing is ever sorted by timestamp."

func stamped(uuid, timestamp string) entry {
	return entry(fmt.Sprintf(`{"type":"user","uuid":%q,"timestamp":%q}`, uuid, timestamp))
}

var orderCases = []testCase{
	{
		name:     "Order/Calls",
		contract: callOrderSentence,
		run: func(c *env) {
			// Enough batches for a clock of milliseconds to stand still between
			// some, and ids that are not in their order.
			var want []entry
			for i := range 40 {
				e := user(fmt.Sprint((i * 17) % 40))
				c.append(c.key, e)
				want = append(want, e)
			}
			c.wantLoad(c.key, want...)
		},
	},
	{
		name:     "Order/InBatch",
		contract: callOrderSentence,
		run: func(c *env) {
			batch := []entry{user("9"), title("z"), user("10"), title("a"), user("1"), entry(`{}`), user("5")}
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "Order/BackwardTimestamps",
		contract: callOrderSentence,
		run: func(c *env) {
			first := []entry{stamped("1", "2026-05-01T00:00:00.000Z"), stamped("2", "2026-04-01T00:00:00.000Z")}
			second := []entry{stamped("3", "2026-03-01T00:00:00.000Z"), stamped("4", "2026-06-01T00:00:00.000Z")}
			c.append(c.key, first...)
			c.append(c.key, second...)
			c.wantLoad(c.key, slices.Concat(first, second)...)
		},
	},
	{
		name:     "Order/EqualTimestamps",
		contract: callOrderSentence,
		run: func(c *env) {
			var want []entry
			for i := range 12 {
				pair := []entry{stamped(fmt.Sprint("z", 20-i), "2026-05-01T00:00:00Z"), stamped(fmt.Sprint("a", i), "2026-05-01T00:00:00Z")}
				c.append(c.key, pair...)
				want = append(want, pair...)
			}
			c.wantLoad(c.key, want...)
		},
	},
	{
		name:     "Order/MissingTimestamps",
		contract: callOrderSentence,
		run: func(c *env) {
			batch := []entry{
				stamped("2", "2026-05-01T00:00:00Z"), title("none"), stamped("1", "yesterday"), entry(`{"timestamp":7}`),
				entry(`{}`), stamped("3", ""),
			}
			for _, e := range batch {
				c.append(c.key, e)
			}
			c.wantLoad(c.key, batch...)
		},
	},
}
