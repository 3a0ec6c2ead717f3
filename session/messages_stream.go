package session

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/sessionstore/sessionstore"
)

// StreamMessages is [Messages] for conversations that need not fit into memory.
// The conversation that it returns has no messages; the sequence yields them,
// and can be ranged over once. An error ends it. The transcript is read when
// StreamMessages is called, and again while the sequence is ranged over; a
// transcript that has been deleted or replaced in between gives an error.
//
// Messages that are stored long after their place in the conversation are held
// until it is their turn, up to 64 MiB of them. Beyond that the transcript is
// read once more.
func StreamMessages(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, opts *MessagesOptions) (Conversation, iter.Seq2[Message, error], error) {
	if err := checkReadable(key); err != nil {
		return Conversation{}, nil, opError("stream messages", key, err)
	}
	if !isUUID(key.SessionID) {
		return Conversation{}, noMessages, nil
	}
	r := &messageReader{source: source{store: store, key: key}, hidden: flagMeta | flagSidechain | flagTeam}
	return r.stream(ctx, opts, (*graph).conversation)
}

// StreamSubagentMessages is [SubagentMessages] as [StreamMessages] is
// [Messages].
func StreamSubagentMessages(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, agentID string, opts *MessagesOptions) (Conversation, iter.Seq2[Message, error], error) {
	found, err := findAgent(ctx, store, &key, agentID)
	if err != nil {
		return Conversation{}, nil, opError("stream subagent messages", key, err)
	}
	if !found {
		return Conversation{}, noMessages, nil
	}
	r := &messageReader{source: source{store: store, key: key}}
	return r.stream(ctx, opts, (*graph).subagent)
}

func noMessages(func(Message, error) bool) {}

func (r *messageReader) stream(ctx context.Context, opts *MessagesOptions, path func(*graph, bool) chain) (Conversation, iter.Seq2[Message, error], error) {
	const op = "stream messages"
	shown, gaps, total, err := r.find(ctx, opts, path)
	if err != nil {
		return Conversation{}, nil, opError(op, r.key, err)
	}
	c := Conversation{Total: total}
	if err := r.fill(ctx, &c, nil, gaps); err != nil {
		return Conversation{}, nil, opError(op, r.key, err)
	}
	return c, func(yield func(Message, error) bool) {
		q := queue{r: r, shown: shown, limit: cmp.Or(r.limit, maxWaiting)}
		if err := q.run(ctx, func(m Message) bool { return yield(m, nil) }); err != nil {
			yield(Message{}, opError(op, r.key, err))
		}
	}, nil
}

// maxWaiting is how many bytes of entries wait for their turn.
const maxWaiting = 64 << 20

// queue puts the messages of a transcript in the order of the conversation.
type queue struct {
	r     *messageReader
	shown []int32
	limit int

	place   []int32 // by node, none if it is not shown
	met     []bool  // by place, in this reading: a repeat does not count
	next    int32   // the place whose turn it is
	waiting map[int32]sessionstore.Entry
	size    int // of what waits
}

// run reads the transcript until all messages are given or yield returns false.
// Each reading gives at least one.
func (q *queue) run(ctx context.Context, yield func(Message) bool) error {
	q.place = make([]int32, len(q.r.graph.nodes))
	for i := range q.place {
		q.place[i] = none
	}
	for k, i := range q.shown {
		q.place[i] = int32(k)
	}
	for int(q.next) < len(q.shown) {
		before := q.next
		more, err := q.read(ctx, yield)
		if err != nil || !more {
			return err
		}
		if q.next == before {
			return errChanged
		}
	}
	return nil
}

// read reads the transcript once.
func (q *queue) read(ctx context.Context, yield func(Message) bool) (more bool, err error) {
	q.waiting, q.size, q.met = make(map[int32]sessionstore.Entry), 0, make([]bool, len(q.shown))
	var f fields
	if q.r.kept != nil {
		for _, i := range q.shown[q.next:] {
			e := q.r.kept[i]
			f.readAgain(e)
			q.next++
			if !yield(q.r.message(e, &f)) {
				return false, nil
			}
		}
		return true, nil
	}
	for e, err := range sessionstore.Stream(ctx, q.r.store, q.r.key) {
		if err == nil {
			err = f.read(e)
		}
		if err != nil {
			return false, err
		}
		if !q.take(e, &f, yield) {
			return false, nil
		}
		if int(q.next) == len(q.shown) {
			break
		}
	}
	return true, nil
}

// take gives an entry, and those that have waited for it, or lets it wait. It
// reports false when yield does.
func (q *queue) take(e sessionstore.Entry, f *fields, yield func(Message) bool) bool {
	i := q.r.nodeOf(f)
	if i == none || q.place[i] == none {
		return true
	}
	at := q.place[i]
	if q.met[at] {
		return true
	}
	q.met[at] = true
	switch {
	case at == q.next:
		q.next++
		return yield(q.r.message(e, f)) && q.giveWaiting(yield)
	case at > q.next: // not given yet
		q.waiting[at] = e
		if q.size += len(e); q.size > q.limit {
			q.dropLast()
		}
	}
	return true
}

func (q *queue) giveWaiting(yield func(Message) bool) bool {
	var f fields
	for {
		e, ok := q.waiting[q.next]
		if !ok {
			return true
		}
		delete(q.waiting, q.next)
		q.size -= len(e)
		q.next++
		f.readAgain(e)
		if !yield(q.r.message(e, &f)) {
			return false
		}
	}
}

// dropLast makes room: what is needed last has to be read again.
func (q *queue) dropLast() {
	places := slices.Sorted(maps.Keys(q.waiting))
	for len(places) > 1 && q.size > q.limit/2 {
		last := places[len(places)-1]
		places = places[:len(places)-1]
		q.size -= len(q.waiting[last])
		delete(q.waiting, last)
	}
}
