package main

import (
	"context"
	"html/template"
	"iter"
	"sync"
)

// prepared is an item with everything about it that does not depend on what
// stands around it on the page, which is most of the work.
type prepared struct {
	item
	message message
	titles  []string        // by part, of results
	parts   []template.HTML // by part
	err     error
}

// A bunch is prepared in one go: work enough for a goroutine, and little memory.
const (
	bunchItems = 64
	bunchBytes = 256 << 10
	bunches    = 4 // that are ready or in work
)

type bunch struct {
	items []prepared
	size  int
	done  chan struct{}
}

// prepared yields what is shown of a transcript. It is read and prepared ahead
// while the page is written.
func (p *page) prepared(t transcript) iter.Seq2[prepared, error] {
	return func(yield func(prepared, error) bool) {
		ctx, cancel := context.WithCancel(p.ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		ready := make(chan *bunch, bunches)
		cut := false // not all was sent; to be read when ready is closed
		wg.Go(func() {
			defer close(ready)
			readBunches(t, func(b *bunch) bool {
				select {
				case ready <- b:
				case <-ctx.Done():
					cut = true
					return false
				}
				wg.Go(b.prepare)
				return true
			})
		})
		for b := range ready {
			<-b.done
			for _, it := range b.items {
				if !yield(it, it.err) || it.err != nil {
					return
				}
			}
		}
		if cut { // a page that ends early must not look like a whole one
			yield(prepared{}, context.Cause(ctx))
		}
	}
}

// readBunches reads a transcript in its order, in which results find the calls
// that they are of, until send returns false.
func readBunches(t transcript, send func(*bunch) bool) {
	tools := make(map[string]toolCall)
	b := newBunch()
	for it, err := range t.items {
		pr := prepared{item: it, err: err}
		if err == nil && it.gap == nil {
			pr.message = parseMessage(it.entry)
			if m := pr.message; m.hidden != "" || m.meta && t.stored {
				continue
			}
			pr.findTitles(tools)
		}
		b.size += len(it.entry)
		b.items = append(b.items, pr)
		if len(b.items) == bunchItems || b.size >= bunchBytes {
			if !send(b) {
				return
			}
			b = newBunch()
		}
	}
	send(b)
}

func newBunch() *bunch { return &bunch{done: make(chan struct{})} }

// findTitles notes what tool calls are called, for their results.
func (pr *prepared) findTitles(tools map[string]toolCall) {
	pr.titles = make([]string, len(pr.message.parts))
	for i, p := range pr.message.parts {
		switch p.kind {
		case partTool:
			tools[stringOf(p.block, "id")] = toolCallOf(p)
		case partResult:
			pr.titles[i] = tools[stringOf(p.block, "tool_use_id")].titleOf(p.failed)
		}
	}
}

// prepare writes the parts.
func (b *bunch) prepare() {
	defer close(b.done)
	for i := range b.items {
		pr := &b.items[i]
		for k, p := range pr.message.parts {
			shown := p.pagePart(pr.titles[k])
			pr.parts = append(pr.parts, shown.html())
		}
	}
}
