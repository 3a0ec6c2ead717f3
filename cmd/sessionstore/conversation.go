package main

import (
	"context"
	"errors"
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
	entry  sessionstore.Entry
	gap    *session.Gap
	hidden bool // the gap is at an entry that is not shown, somewhere before
}

type conversationOptions struct{ all, system, bridge bool }

// openTranscript finds out what to show of a transcript. Where no conversation
// can be made out, that is everything: a session whose id agents don't take, a
// subpath that is no subagent, entries without uuids.
func openTranscript(ctx context.Context, h *handle, key sessionstore.Key, opts conversationOptions) (transcript, error) {
	t := transcript{key: key}
	var first session.Conversation
	if !opts.all {
		var err error
		if first, err = readConversation(ctx, h, key, opts, 0); err != nil {
			return t, err
		}
		t.gaps = first.Gaps
	}
	if len(first.Messages) == 0 {
		t.stored = true
		t.items = storedItems(ctx, h, key, t.gaps)
		return t, nil
	}
	messages := pages(first, func(offset int) (session.Conversation, error) {
		return readConversation(ctx, h, key, opts, offset)
	})
	t.items = messageItems(messages, t.gaps)
	return t, nil
}

// pageSize is how many messages are held at a time. Most conversations are
// shorter. The transcript of a longer one is read again for each page.
const pageSize = 20_000

func readConversation(ctx context.Context, h *handle, key sessionstore.Key, opts conversationOptions, offset int) (session.Conversation, error) {
	options := &session.MessagesOptions{
		IncludeSystem: opts.system, BridgeGaps: opts.bridge, Offset: offset, Limit: pageSize,
	}
	if key.Subpath == "" {
		return session.Messages(ctx, h.store, key, options)
	}
	id, ok := agentOf(key.Subpath)
	if !ok {
		return session.Conversation{}, nil
	}
	// Two subpaths can end in the same id. This one is meant.
	store := narrowed{SessionStore: h.store, subpaths: []string{key.Subpath}}
	return session.SubagentMessages(ctx, store, key.Main(), id, options)
}

// pages yields the messages of a conversation page by page. Each page begins
// with the last message of the one before, to see that they belong together.
func pages(c session.Conversation, read func(offset int) (session.Conversation, error)) iter.Seq2[session.Message, error] {
	return func(yield func(session.Message, error) bool) {
		total, done, last := c.Total, 0, ""
		for {
			for _, m := range c.Messages {
				last = m.UUID
				if done++; !yield(m, nil) {
					return
				}
			}
			if done >= total {
				return
			}
			var err error
			if c, err = read(done - 1); err == nil && (len(c.Messages) < 2 || c.Messages[0].UUID != last) {
				err = errors.New("the conversation has changed while it was read; run the command again")
			}
			if err != nil {
				yield(session.Message{}, err)
				return
			}
			c.Messages = c.Messages[1:]
		}
	}
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

// messageItems puts gaps where they belong. One that could not be crossed is
// where the conversation begins. A bridged one is before its message, or at the
// end if that isn't shown.
func messageItems(messages iter.Seq2[session.Message, error], gaps []session.Gap) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		at := make(map[string]*session.Gap)
		for i := range gaps {
			if g := &gaps[i]; g.Bridged {
				at[g.UUID] = g
			} else if !yield(item{gap: g}, nil) {
				return
			}
		}
		for m, err := range messages {
			if g := at[m.UUID]; g != nil && err == nil {
				delete(at, m.UUID)
				if !yield(item{gap: g}, nil) {
					return
				}
			}
			if !yield(item{entry: m.Entry}, err) || err != nil {
				return
			}
		}
		for i := len(gaps) - 1; i >= 0; i-- {
			if g := at[gaps[i].UUID]; g != nil && !yield(item{gap: g, hidden: true}, nil) {
				return
			}
		}
	}
}

// gapMark is a gap as it is shown in its place.
func (it item) gapMark() string {
	g := it.gap
	what := "gap: the message before is missing"
	if g.Cycle {
		what = "gap: messages go round in a circle"
	}
	if it.hidden {
		return what + " at an entry not shown; bridged"
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
