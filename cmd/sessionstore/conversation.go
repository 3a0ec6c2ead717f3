package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

// transcript is what show prints of one transcript.
type transcript struct {
	key sessionstore.Key
	// stored says that the items are all entries in stored order, read as they
	// are asked for. Otherwise they are the messages of the conversation.
	stored bool
	gaps   []session.Gap
	items  iter.Seq2[item, error]
}

// item is an entry, or a gap before the next entry.
type item struct {
	entry sessionstore.Entry
	gap   *session.Gap
}

type conversationOptions struct{ all, system, bridge bool }

// openTranscript finds out what to show of a transcript. Where no conversation
// can be made out, that is everything: a session whose id agents don't take, a
// subpath that is no subagent, entries without uuids. The items can be ranged
// over once.
func openTranscript(ctx context.Context, h *handle, key sessionstore.Key, opts conversationOptions) (transcript, error) {
	t := transcript{key: key}
	if !opts.all {
		c, messages, err := streamConversation(ctx, h, key, opts)
		if err != nil {
			return t, err
		}
		t.gaps = c.Gaps
		if c.Total > 0 {
			t.items = messageItems(messages, t.gaps)
			return t, nil
		}
	}
	t.stored = true
	t.items = storedItems(ctx, h, key, t.gaps)
	return t, nil
}

func streamConversation(ctx context.Context, h *handle, key sessionstore.Key, opts conversationOptions) (session.Conversation, iter.Seq2[session.Message, error], error) {
	options := &session.MessagesOptions{IncludeSystem: opts.system, BridgeGaps: opts.bridge}
	if key.Subpath == "" {
		return session.StreamMessages(ctx, h.store, key, options)
	}
	id, ok := agentOf(key.Subpath)
	if !ok {
		return session.Conversation{}, nil, nil
	}
	// Two subpaths can end in the same id. This one is meant.
	store := narrowed{SessionStore: h.store, subpaths: []string{key.Subpath}}
	return session.StreamSubagentMessages(ctx, store, key.Main(), id, options)
}

func storedItems(ctx context.Context, h *handle, key sessionstore.Key, gaps []session.Gap) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for i := range gaps {
			if !yield(item{gap: &gaps[i]}, nil) {
				return
			}
		}
		for e, err := range sessionstore.Stream(ctx, h.store, key) {
			if !yield(item{entry: e}, err) || err != nil {
				return
			}
		}
	}
}

// messageItems puts gaps where they belong. There may be several in one place,
// at entries that are not shown.
func messageItems(messages iter.Seq2[session.Message, error], gaps []session.Gap) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		next := len(gaps) - 1 // the first one is the last in the list
		gapsAt := func(n int) bool {
			for ; next >= 0 && gaps[next].Index <= n; next-- {
				if !yield(item{gap: &gaps[next]}, nil) {
					return false
				}
			}
			return true
		}
		n := 0
		for m, err := range messages {
			if err != nil {
				yield(item{}, err)
				return
			}
			if !gapsAt(n) || !yield(item{entry: m.Entry}, nil) {
				return
			}
			n++
		}
		gapsAt(n)
	}
}

// gapMark is a gap as it is shown in its place.
func (it item) gapMark() string {
	g := it.gap
	what := "gap: the message before is missing"
	if g.Cycle {
		what = "gap: messages go round in a circle"
	}
	if g.Bridged {
		return what + "; bridged"
	}
	if g.Unreachable > 0 && g.UUID != "" {
		what += "; " + plural(g.Unreachable, "earlier message") + " not reached"
	}
	return what
}

// reportGaps tells about the gaps of a transcript in full.
func (a *app) reportGaps(t transcript) {
	for i := range t.gaps {
		g := &t.gaps[i]
		text := fmt.Sprintf("message %s names a parent that is not there: %s", g.UUID, g.ParentUUID)
		switch {
		case g.UUID == "":
			text = "its messages go round in a circle, so no conversation can be made out; all entries are shown"
		case g.Cycle:
			text = fmt.Sprintf("message %s names a parent that comes after it: %s", g.UUID, g.ParentUUID)
		}
		switch {
		case g.Bridged:
			text += "; the conversation goes on with the entry stored before it"
		case g.UUID != "" && g.Unreachable > 0:
			text += fmt.Sprintf("; %s not reached (see --bridge and --all)", plural(g.Unreachable, "earlier message"))
		}
		a.warn("warning: gap in %v: %s", t.key, text)
	}
}
