package session

import (
	"context"
	"slices"

	"github.com/sessionstore/sessionstore"
)

// MessagesOptions are the options of [Messages] and [SubagentMessages]. The
// zero value and nil are fine.
type MessagesOptions struct {
	// Limit is how many messages are returned at most; 0 means all. Offset is
	// how many are left out before them. Negative ones count as 0.
	Limit, Offset int
	// IncludeSystem shows system entries too, such as the boundaries of
	// compactions.
	IncludeSystem bool
	// BridgeGaps goes on, where the parent of a message is missing, with the
	// nearest earlier entry. Without it the conversation begins behind the gap.
	BridgeGaps bool
	// All shows every message in stored order instead of the conversation:
	// also abandoned branches and what lies before a compaction.
	All bool
}

// Conversation is what [Messages] and [SubagentMessages] return.
type Conversation struct {
	Messages []Message
	// Total counts the messages before Limit and Offset.
	Total int
	// Gaps are the places where the conversation should go on and can't,
	// latest first. There are none in a transcript that is whole.
	Gaps []Gap
}

// Gap is a place where a message names a parent that the conversation can't go
// on with: it is not in the transcript, or it comes later in the conversation.
type Gap struct {
	// UUID names the message and ParentUUID its parent. Both are empty when
	// the messages go round in a circle that nothing leads out of, so that
	// there is no conversation at all.
	UUID, ParentUUID string
	// Index is how many messages come before the gap, of those that Total
	// counts: the gap is before Messages[Index-Offset]. That message need not
	// be the one that UUID names, which may not be shown. When it is Total the
	// gap is behind all messages.
	Index int
	// Cycle says that the parent is there, but the conversation comes from it.
	Cycle bool
	// Bridged says that the conversation goes on with an earlier entry.
	Bridged bool
	// Unreachable counts the messages before the gap that are not in the
	// conversation. Without a gap they would be part of it, or of a branch.
	Unreachable int
}

// Messages returns the conversation of a session: the messages from the root to
// the last one, over compactions and with the results of parallel tool calls.
// Messages that the agent put in itself and those of sidechains and teammates
// are left out; summaries of compactions are there and marked.
//
// An unknown session has no messages. When the transcript has a gap, what can
// be reached from the last message is returned, and the gap is reported.
//
// A transcript longer than 16 MiB is read twice if the store can stream. Memory
// is then what is returned, 16 MiB, and about 60 bytes for each entry.
func Messages(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, opts *MessagesOptions) (Conversation, error) {
	if err := checkReadable(key); err != nil {
		return Conversation{}, opError("messages", key, err)
	}
	if !isUUID(key.SessionID) {
		return Conversation{}, nil
	}
	r := messageReader{source: source{store: store, key: key}, hidden: flagMeta | flagSidechain | flagTeam}
	c, err := r.run(ctx, opts, (*graph).conversation)
	return c, opError("messages", key, err)
}

// messageReader reads a conversation.
type messageReader struct {
	source
	opts   MessagesOptions
	hidden flags // of entries that are not shown
	// What started the subagent, from the last entry that describes it.
	toolUse, parentAgent *string
}

func (r *messageReader) run(ctx context.Context, opts *MessagesOptions, path func(*graph, bool) chain) (Conversation, error) {
	shown, gaps, total, err := r.find(ctx, opts, path)
	if err != nil {
		return Conversation{}, err
	}
	result := Conversation{Total: total}
	return result, r.fill(ctx, &result, shown, gaps)
}

// find reads the graph and returns the messages to show, of so many, and the
// gaps.
func (r *messageReader) find(ctx context.Context, opts *MessagesOptions, path func(*graph, bool) chain) (shown []int32, gaps []gap, total int, err error) {
	if opts != nil {
		r.opts = *opts
	}
	err = r.read(ctx, func(_ sessionstore.Entry, f *fields, _ int32) {
		if r.key.Subpath != "" && isText(f.typ, sessionstore.MetadataType) {
			r.toolUse, r.parentAgent = optional(f.toolUseID), optional(f.parentAgentID)
		}
	})
	if err != nil {
		return nil, nil, 0, err
	}
	var c chain
	if r.opts.All {
		for i := range r.graph.nodes {
			c.nodes = append(c.nodes, int32(i))
		}
	} else {
		c = path(r.graph, r.opts.BridgeGaps)
	}
	r.place(&c)
	shown = slices.DeleteFunc(c.nodes, func(i int32) bool { return !r.shows(r.graph.nodes[i]) })
	from, to := page(len(shown), r.opts.Offset, r.opts.Limit)
	return shown[from:to], c.gaps, len(shown), nil
}

// place finds out how many of the shown messages come before each gap.
func (r *messageReader) place(c *chain) {
	if len(c.gaps) == 0 {
		return
	}
	gapAt := make(map[int32]int, len(c.gaps))
	for k, g := range c.gaps {
		gapAt[g.node] = k
	}
	shown := 0
	for _, i := range c.nodes {
		if k, ok := gapAt[i]; ok {
			c.gaps[k].index = shown
		}
		if r.shows(r.graph.nodes[i]) {
			shown++
		}
	}
}

func (r *messageReader) shows(n node) bool {
	switch n.kind {
	case kindUser, kindAssistant:
		return n.flags&r.hidden == 0
	case kindSystem:
		return r.opts.IncludeSystem && n.flags&r.hidden == 0
	}
	return false
}

// fill fetches the entries of the messages to show and of the gaps.
func (r *messageReader) fill(ctx context.Context, c *Conversation, shown []int32, gaps []gap) error {
	place := make(map[int32]int, len(shown))
	for k, i := range shown {
		place[i] = k
	}
	wanted := slices.Clone(shown)
	gapAt := make(map[int32]int, len(gaps))
	for k, g := range gaps {
		gapAt[g.node] = k
		if _, ok := place[g.node]; !ok && g.node != none {
			wanted = append(wanted, g.node)
		}
		c.Gaps = append(c.Gaps, Gap{Index: g.index, Cycle: g.node == none, Bridged: g.bridged, Unreachable: g.unreachable})
	}
	c.Messages = make([]Message, len(shown))
	err := r.fetch(ctx, wanted, func(i int32, e sessionstore.Entry, f *fields) error {
		if k, ok := place[i]; ok {
			c.Messages[k] = r.message(e, f)
		}
		if k, ok := gapAt[i]; ok {
			c.Gaps[k].UUID, c.Gaps[k].ParentUUID = text(f.uuid), text(f.parentUUID)
			c.Gaps[k].Cycle = r.graph.find(f.parentUUID) != none
		}
		return nil
	})
	if err != nil {
		*c = Conversation{}
	}
	return err
}

func (r *messageReader) message(e sessionstore.Entry, f *fields) Message {
	m := newMessage(e, f)
	m.ParentToolUseID, m.ParentAgentID = r.toolUse, r.parentAgent
	return m
}

// optional returns a JSON string as a Go string, nil if it is none or empty.
func optional(value []byte) *string {
	if !isID(value) {
		return nil
	}
	s := text(value)
	return &s
}
