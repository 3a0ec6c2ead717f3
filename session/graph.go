package session

import (
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// none stands for no node and no name.
const none int32 = -1

// node is what is kept of each entry of a graph while its transcript is read:
// 16 bytes, so that a long transcript costs little more than its ids.
type node struct {
	name    int32 // of its uuid
	parent  int32 // the name of its parent, none for a root
	message int32 // the name of message.id, of assistants
	kind    uint8
	flags   flags
}

type flags uint8

const (
	flagMeta flags = 1 << iota
	flagSidechain
	flagTeam
	flagToolResult // a user entry with a tool_result block
)

// graph holds the entries of kinds user, assistant, system, attachment and
// progress that have a uuid, in stored order.
type graph struct {
	// Names are the uuids of entries and parents and the ids of messages, each
	// once, by number.
	names  map[idset.ID]int32
	nodeOf []int32 // by name: the node that has it as its uuid, or none
	nodes  []node
	// boundary is the last compaction's metadata. Only the last one relinks:
	// what an earlier one preserved lies before it.
	boundary []byte
}

func newGraph() *graph { return &graph{names: make(map[idset.ID]int32)} }

func (g *graph) name(literal []byte) int32 {
	id := idset.Of(jsonscan.Unquote(literal))
	n, ok := g.names[id]
	if !ok {
		n = int32(len(g.nodeOf))
		g.names[id] = n
		g.nodeOf = append(g.nodeOf, none)
	}
	return n
}

// find returns the node whose uuid is the string that literal spells.
func (g *graph) find(literal []byte) int32 {
	if !isID(literal) {
		return none
	}
	return g.findText(jsonscan.Unquote(literal))
}

// findText returns the node with that uuid. Lone surrogates are WTF-8.
func (g *graph) findText(uuid []byte) int32 {
	if n, ok := g.names[idset.Of(uuid)]; ok {
		return g.nodeOf[n]
	}
	return none
}

// add takes in the next entry and reports whether it is part of the graph. An
// entry whose uuid is there already isn't: the first one counts.
func (g *graph) add(f *fields) bool {
	kind := f.kind()
	if kind == kindOther || !isID(f.uuid) {
		return false
	}
	n := node{name: g.name(f.uuid), parent: none, message: none, kind: kind}
	if g.nodeOf[n.name] != none {
		return false
	}
	if isID(f.parentUUID) {
		n.parent = g.name(f.parentUUID)
	}
	if truthy(f.isMeta) {
		n.flags |= flagMeta
	}
	if truthy(f.isSidechain) {
		n.flags |= flagSidechain
	}
	if truthy(f.teamName) {
		n.flags |= flagTeam
	}
	switch kind {
	case kindUser:
		if f.hasToolResult() {
			n.flags |= flagToolResult
		}
	case kindAssistant:
		if id := get(f.message, "id"); isID(id) {
			n.message = g.name(id)
		}
	case kindSystem:
		if isText(f.subtype, "compact_boundary") && isObject(f.compactMetadata) {
			g.boundary = append(g.boundary[:0], f.compactMetadata...)
		}
	}
	g.nodeOf[n.name] = int32(len(g.nodes))
	g.nodes = append(g.nodes, n)
	return true
}

// parentOf returns the node of a node's parent, or none.
func (g *graph) parentOf(i int32) int32 {
	if p := g.nodes[i].parent; p != none {
		return g.nodeOf[p]
	}
	return none
}

func (g *graph) isMessage(i int32) bool {
	k := g.nodes[i].kind
	return k == kindUser || k == kindAssistant
}

// relink applies the last compaction: the messages that it preserved hang, in
// their order, on its anchor, and whatever hung on the anchor hangs on the last
// of them. When any reference is broken nothing changes, and the conversation
// begins at the boundary.
func (g *graph) relink() {
	anchor, kept := g.preserved()
	if anchor == none || len(kept) == 0 {
		return
	}
	isKept := make(map[int32]bool, len(kept))
	for _, k := range kept {
		if k == none || k == anchor || isKept[k] {
			return
		}
		isKept[k] = true
	}
	anchorName, last := g.nodes[anchor].name, g.nodes[kept[len(kept)-1]].name
	for i := range g.nodes {
		if g.nodes[i].parent == anchorName && !isKept[int32(i)] {
			g.nodes[i].parent = last
		}
	}
	for i, k := range kept {
		if i == 0 {
			g.nodes[k].parent = anchorName
		} else {
			g.nodes[k].parent = g.nodes[kept[i-1]].name
		}
	}
}

// preserved returns the anchor of the last compaction and the messages that it
// preserved. A reference that leads nowhere is none.
func (g *graph) preserved() (anchor int32, kept []int32) {
	if list := get(g.boundary, "preservedMessages"); isObject(list) {
		if uuids := get(list, "uuids"); isArray(uuids) {
			elements(uuids, func(start, end int) { kept = append(kept, g.find(uuids[start:end])) })
		}
		return g.find(get(list, "anchorUuid")), kept
	}
	segment := get(g.boundary, "preservedSegment")
	head, tail := g.find(get(segment, "headUuid")), g.find(get(segment, "tailUuid"))
	if head == none {
		return none, nil
	}
	for i := tail; i != none && len(kept) < len(g.nodes); i = g.parentOf(i) {
		kept = append(kept, i)
		if i == head {
			reverse(kept)
			return g.find(get(segment, "anchorUuid")), kept
		}
	}
	return none, nil // the tail does not descend from the head
}
