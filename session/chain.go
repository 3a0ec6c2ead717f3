package session

import "slices"

func reverse(list []int32) { slices.Reverse(list) }

// chain is a path through a graph.
type chain struct {
	nodes []int32 // oldest first
	gaps  []gap   // where it should have gone on; latest first
}

// gap says that the path ended at a node although the node names a parent.
type gap struct {
	node        int32 // none when there is no path at all
	bridged     bool
	index       int // of the first shown message behind it
	unreachable int
}

// conversation returns the path that the agent follows in a main transcript.
func (g *graph) conversation(bridge bool) chain {
	const hidden = flagMeta | flagSidechain | flagTeam
	g.relink()
	leaf := g.leaf()
	if leaf == none && bridge {
		leaf = g.lastMessage()
	}
	c := g.walk(leaf, bridge, flagSidechain|flagTeam)
	g.insertParallel(&c)
	g.countUnreachable(&c, hidden)
	return c
}

// subagent returns the path that ends at the last message of a subagent's
// transcript.
func (g *graph) subagent(bridge bool) chain {
	c := g.walk(g.lastMessage(), bridge, 0)
	g.countUnreachable(&c, 0)
	return c
}

// lastMessage returns the last user or assistant entry by position.
func (g *graph) lastMessage() int32 {
	for i := int32(len(g.nodes)) - 1; i >= 0; i-- {
		if g.isMessage(i) {
			return i
		}
	}
	return none
}

// leaf returns the message that a conversation ends with: the first user or
// assistant entry on the way up from the last end that has one. Ends are
// entries that are no one's parent; entries of a team don't count as children.
func (g *graph) leaf() int32 {
	named := make([]bool, len(g.nodes))
	for i := range g.nodes {
		if p := g.parentOf(int32(i)); p != none && g.nodes[i].flags&flagTeam == 0 {
			named[p] = true
		}
	}
	tried := make([]bool, len(g.nodes)) // without success: ways up join
	for end := int32(len(g.nodes)) - 1; end >= 0; end-- {
		if named[end] {
			continue
		}
		for i := end; i != none && !tried[i]; i = g.parentOf(i) {
			if g.isMessage(i) {
				return i
			}
			tried[i] = true
		}
	}
	return none
}

// walk follows parents from the leaf to the root, each node once. With bridge
// it goes on before a gap with the nearest earlier entry that has none of the
// flags in avoid.
func (g *graph) walk(leaf int32, bridge bool, avoid flags) chain {
	var c chain
	if leaf == none {
		if g.lastMessage() != none { // all messages are on cycles
			c.gaps = append(c.gaps, gap{node: none})
		}
		return c
	}
	onPath := make([]bool, len(g.nodes))
	var earlier earlierNodes
	for i := leaf; i != none; {
		onPath[i] = true
		c.nodes = append(c.nodes, i)
		next := g.parentOf(i)
		if g.nodes[i].parent != none && (next == none || onPath[next]) {
			next = none
			if bridge {
				next = earlier.find(g, i, onPath, avoid)
			}
			c.gaps = append(c.gaps, gap{node: i, bridged: next != none})
		}
		i = next
	}
	reverse(c.nodes)
	return c
}

// earlierNodes finds the nearest earlier node that is free. It remembers what
// it has passed over, so that many gaps don't take quadratic time.
type earlierNodes struct{ next []int32 }

func (e *earlierNodes) find(g *graph, from int32, onPath []bool, avoid flags) int32 {
	if e.next == nil {
		e.next = make([]int32, len(g.nodes))
		for i := range e.next {
			e.next[i] = int32(i) - 1
		}
	}
	free := func(i int32) bool {
		return !onPath[i] && g.nodes[i].kind != kindProgress && g.nodes[i].flags&avoid == 0
	}
	found := e.next[from]
	for found != none && !free(found) {
		found = e.next[found]
	}
	for i := from; i != found; {
		i, e.next[i] = e.next[i], found
	}
	return found
}

// insertParallel puts in what parallel tool calls leave beside the path. The
// parts of one assistant message are entries of their own, each the parent of
// its tool result, so a path passes only one of them. The other parts, and then
// the tool results that hang on any part, follow the last part on the path.
func (g *graph) insertParallel(c *chain) {
	last := make(map[int32]int32) // by message: its last part on the path
	onPath := make([]bool, len(g.nodes))
	for _, i := range c.nodes {
		onPath[i] = true
		if m := g.nodes[i].message; m != none {
			last[m] = i
		}
	}
	parts, results := make(map[int32][]int32), make(map[int32][]int32)
	total := len(c.nodes)
	for i, n := range g.nodes {
		if onPath[i] {
			continue
		}
		if at, ok := last[n.message]; ok && n.message != none {
			parts[at] = append(parts[at], int32(i))
			total++
		} else if p := g.parentOf(int32(i)); p != none && n.flags&flagToolResult != 0 {
			if at, ok := last[g.nodes[p].message]; ok && g.nodes[p].message != none {
				results[at] = append(results[at], int32(i))
				total++
			}
		}
	}
	if total == len(c.nodes) {
		return
	}
	whole := make([]int32, 0, total)
	for _, i := range c.nodes {
		whole = append(whole, i)
		whole = append(whole, parts[i]...)
		whole = append(whole, results[i]...)
	}
	c.nodes = whole
}

// countUnreachable counts, for each gap, the messages before it that are not
// in the conversation, except those that hidden flags would hide anyway.
func (g *graph) countUnreachable(c *chain, hidden flags) {
	if len(c.gaps) == 0 {
		return
	}
	isIn := make([]bool, len(g.nodes))
	for _, i := range c.nodes {
		isIn[i] = true
	}
	lost := make([]int, len(g.nodes)+1) // before each node
	for i, n := range g.nodes {
		lost[i+1] = lost[i]
		if g.isMessage(int32(i)) && !isIn[i] && n.flags&hidden == 0 {
			lost[i+1]++
		}
	}
	for k := range c.gaps {
		if at := c.gaps[k].node; at != none {
			c.gaps[k].unreachable = lost[at]
		} else {
			c.gaps[k].unreachable = lost[len(g.nodes)]
		}
	}
}
