package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
)

// ForkOptions are the options of [Fork]. The zero value and nil are fine.
type ForkOptions struct {
	// UpTo is the uuid of the last message that comes along, as
	// [sessionstore.Entry.UUID] returns it. Empty means all.
	UpTo string
	// Title is the title of the new session. Without one it is the title of the
	// session, or else its first prompt, and " (fork)".
	Title string
}

// Fork copies the messages of a session into a new one in the same project and
// returns the new session's id. The source is not changed.
//
// User, assistant, system and attachment entries come along, except those of
// sidechains. Each gets a new uuid, and the references among them follow. What
// belongs to the source alone is left out: teamName, agentName, slug and
// sourceToolAssistantUUID. Each entry says in forkedFrom where it comes from,
// and assistant entries in requestSessionId. Entries without timestamp get one.
// All other bytes stay as they are.
// The tools used, the latch of the agent and its content replacements are
// carried over, other entries without uuid and subagents are not.
//
// An unknown session gives an error that wraps [sessionstore.ErrNotFound]. That,
// an unknown UpTo and a session without messages are found before anything is
// written. When writing fails, what has been written is deleted again; on a
// store that can't delete, writing begins only when the source has been read.
func Fork(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, opts *ForkOptions) (sessionID string, err error) {
	id, err := standard.fork(ctx, store, key, opts)
	return id, opError("fork", key, err)
}

func (m maker) fork(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, opts *ForkOptions) (string, error) {
	if err := checkChangeable(key); err != nil {
		return "", err
	}
	f := forker{maker: m, source: source{store: store, key: key}, target: key}
	if opts != nil {
		f.opts = *opts
	}
	if err := f.read(ctx, f.visit); err != nil {
		return "", err
	}
	if err := f.plan(); err != nil {
		return "", err
	}
	if err := f.write(ctx); err != nil {
		return "", f.undo(ctx, err)
	}
	return f.target.SessionID, nil
}

type forker struct {
	maker
	source
	opts   ForkOptions
	target sessionstore.Key
	time   []byte // now, as JSON

	state        sessionstore.SummaryState
	atis, tools  []byte // of the last entries that have them
	replacements [][]byte

	cut     int32   // the first node that stays behind
	taken   []int32 // the nodes that come along
	uuids   []uuid  // the new ones, by node
	through []int32 // by progress node: the node that stands for it

	out batcher
}

// visit takes from each entry what is not in the graph.
func (f *forker) visit(e sessionstore.Entry, v *fields, _ int32) {
	f.state.Fold(e)
	switch {
	case isText(v.typ, "atis-latch") && v.atis != nil:
		f.atis = slices.Clone(v.atis)
	case isText(v.typ, "tools-used") && v.tools != nil:
		f.tools = slices.Clone(v.tools)
	case isText(v.typ, "content-replacement") && isText(v.sessionID, f.key.SessionID) && isArray(v.replacements):
		elements(v.replacements, func(start, end int) {
			f.replacements = append(f.replacements, slices.Clone(v.replacements[start:end]))
		})
	}
}

// plan decides what comes along.
func (f *forker) plan() error {
	if f.count == 0 {
		return sessionstore.ErrNotFound
	}
	g := f.graph
	f.cut = int32(len(g.nodes))
	if f.opts.UpTo != "" {
		last := g.findText([]byte(f.opts.UpTo))
		if last == none || g.nodes[last].flags&flagSidechain != 0 {
			return fmt.Errorf("message %q is not in the session", f.opts.UpTo)
		}
		f.cut = last + 1
	}
	for i, n := range g.nodes[:f.cut] {
		if f.comes(int32(i)) && n.kind != kindProgress {
			f.taken = append(f.taken, int32(i))
		}
	}
	if len(f.taken) == 0 {
		return errors.New("the session has no messages to fork")
	}
	f.uuids = make([]uuid, f.cut)
	for _, i := range f.taken {
		f.uuids[i] = f.newUUID()
	}
	f.target.SessionID = f.newUUID().String()
	f.time = []byte(quote(f.timestamp()))
	_, canDelete := f.store.(sessionstore.Deleter)
	f.out = batcher{store: f.store, key: f.target, hold: !canDelete}
	return nil
}

func (f *forker) comes(i int32) bool {
	return i < f.cut && f.graph.nodes[i].flags&flagSidechain == 0
}

// standIn returns the node that takes a node's place as a parent in the fork:
// itself, or for progress the next one above that comes along, if any.
func (f *forker) standIn(i int32) int32 {
	const unknown = -2
	if f.through == nil {
		f.through = slices.Repeat([]int32{unknown}, int(f.cut))
	}
	var path []int32
	found := none
	for ; i != none && f.comes(i); i = f.graph.parentOf(i) {
		if f.graph.nodes[i].kind != kindProgress {
			found = i
			break
		}
		if f.through[i] != unknown {
			found = f.through[i]
			break
		}
		f.through[i] = none // for paths that come back here
		path = append(path, i)
	}
	for _, p := range path {
		f.through[p] = found
	}
	return found
}

// mapped returns the new spelling of a uuid, nil if its entry stays behind.
func (f *forker) mapped(literal []byte) []byte {
	if i := f.standIn(f.graph.find(literal)); i != none {
		return []byte(`"` + f.uuids[i].String() + `"`)
	}
	return nil
}

// orNull is mapped, with null for what stays behind.
func (f *forker) orNull(literal []byte) []byte {
	if uuid := f.mapped(literal); uuid != nil {
		return uuid
	}
	return []byte("null")
}

func (f *forker) write(ctx context.Context) error {
	last := f.taken[len(f.taken)-1]
	err := f.fetch(ctx, f.taken, func(i int32, e sessionstore.Entry, v *fields) error {
		return f.out.add(ctx, rewrite(e, f.changes(i, v, i == last)))
	})
	if err != nil {
		return err
	}
	for _, e := range f.carried() {
		if err := f.out.add(ctx, e); err != nil {
			return err
		}
	}
	return f.out.flush(ctx)
}

// changes are those that make an entry one of the fork.
func (f *forker) changes(i int32, v *fields, last bool) []change {
	list := []change{
		{name: "uuid", value: []byte(`"` + f.uuids[i].String() + `"`)},
		{name: "parentUuid", value: f.orNull(v.parentUUID), add: true},
		{name: "sessionId", value: []byte(quote(f.target.SessionID)), add: true},
		{name: "isSidechain", value: []byte("false"), add: true},
		{name: "teamName", remove: true},
		{name: "agentName", remove: true},
		{name: "slug", remove: true},
		{name: "sourceToolAssistantUUID", remove: true},
	}
	if isID(v.logicalParentUUID) {
		list = append(list, change{name: "logicalParentUuid", value: f.orNull(v.logicalParentUUID)})
	}
	if last || v.timestamp == nil {
		list = append(list, change{name: "timestamp", value: f.time, add: true})
	}
	if v.compactMetadata != nil {
		list = append(list, change{name: "compactMetadata", edit: f.metadata})
	}
	if v.kind() == kindAssistant && !truthy(v.reqSID) && isID(v.sessionID) {
		list = append(list, change{name: "requestSessionId", value: v.sessionID, add: true})
	}
	from := `{"sessionId":` + quote(f.key.SessionID) + `,"messageUuid":` + string(v.uuid) + `}`
	return append(list, change{name: "forkedFrom", value: []byte(from), add: true})
}

// metadata makes the fork's metadata of a compaction. What is no object stays.
func (f *forker) metadata(old []byte) []byte {
	if !isObject(old) {
		return old
	}
	return mapUUIDs(old, f.mapped)
}

// carried returns the entries behind the messages.
func (f *forker) carried() (list []sessionstore.Entry) {
	add := func(typ, rest string) {
		e := `{"type":"` + typ + `","sessionId":` + quote(f.target.SessionID) + "," + rest + "}"
		list = append(list, sessionstore.Entry(e).Line())
	}
	identity := func() string { return `,"uuid":"` + f.newUUID().String() + `","timestamp":` + string(f.time) }
	if len(f.replacements) > 0 {
		add("content-replacement", `"replacements":[`+string(bytes.Join(f.replacements, []byte(",")))+"]"+identity())
	}
	if f.atis != nil {
		add("atis-latch", `"atis":`+string(f.atis))
	}
	if f.tools != nil {
		add("tools-used", `"tools":`+string(f.tools))
	}
	add("custom-title", `"customTitle":`+f.title()+identity())
	return list
}

// title returns the new session's title as JSON. One that comes from the source
// keeps its spelling, half surrogate pairs included.
func (f *forker) title() string {
	if t := trim(f.opts.Title); t != "" {
		return quote(t)
	}
	data, _ := f.state.MarshalJSON()
	s, _ := readSummary(data) // both just made
	old := firstID(s.title(), s.prompt(), []byte(`"Forked session"`))
	return string(old[:len(old)-1]) + ` (fork)"`
}

// cleanupTimeout limits how long undoing a failed fork may take. It works also
// when the caller's context has ended.
const cleanupTimeout = 60 * time.Second

// undo removes what a failed fork has written.
func (f *forker) undo(ctx context.Context, cause error) error {
	if !f.out.wrote {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := error(errors.ErrUnsupported)
	if d, ok := f.store.(sessionstore.Deleter); ok {
		err = d.Delete(ctx, f.target)
	}
	if err != nil {
		return errors.Join(cause, fmt.Errorf("the new session %s may be left incomplete: %w", f.target.SessionID, err))
	}
	return cause
}

// batcher appends entries in batches.
type batcher struct {
	store sessionstore.SessionStore
	key   sessionstore.Key
	hold  bool // write nothing before the last entry is there

	full  [][]sessionstore.Entry // held batches
	batch []sessionstore.Entry
	size  int
	wrote bool // something may have been written
}

func (b *batcher) add(ctx context.Context, e sessionstore.Entry) error {
	if len(b.batch) == sessionstore.DefaultBatchEntries || len(b.batch) > 0 && b.size+len(e) > sessionstore.DefaultBatchBytes {
		b.full = append(b.full, b.batch)
		b.batch, b.size = nil, 0
		if !b.hold {
			if err := b.write(ctx); err != nil {
				return err
			}
		}
	}
	b.batch = append(b.batch, e)
	b.size += len(e)
	return nil
}

// flush writes everything.
func (b *batcher) flush(ctx context.Context) error {
	b.full = append(b.full, b.batch)
	return b.write(ctx)
}

func (b *batcher) write(ctx context.Context) error {
	for _, batch := range b.full {
		b.wrote = true
		if err := b.store.Append(ctx, b.key, batch); err != nil {
			return err
		}
	}
	b.full = nil
	return nil
}
