package session

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

type batch struct {
	Key     sessionstore.Key
	Entries []sessionstore.Entry
}

type answer struct {
	OK    json.RawMessage
	Error string
}

// expected is what the official helpers answered over a store.
type expected struct {
	Dir, ProjectKey string
	Store           struct{ ListSessions []sessionstore.SessionInfo }

	ListSessions answer `json:"listSessions"`
	NoSummaries  answer `json:"listSessions_noSummaries"`
	Sessions     map[string]struct {
		Info      answer `json:"getSessionInfo"`
		Messages  answer `json:"getSessionMessages"`
		System    answer `json:"getSessionMessages_system"`
		Page      answer `json:"getSessionMessages_limit2_offset1"`
		Subagents answer `json:"listSubagents"`
		Agents    map[string]struct {
			Messages answer
			Page     answer `json:"messages_limit1_offset1"`
		} `json:"subagents"`
	}
}

func readExpected(t testing.TB, file string) (e expected) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &e))
	return e
}

// counter counts answers that agree, so that a test that compares nothing fails.
type counter map[string]int

func (c counter) same(t *testing.T, what string, want json.RawMessage, got any, ignore ...string) {
	t.Helper()
	c[what]++
	require.Equal(t, without(plain(t, want), ignore...), without(plain(t, got), ignore...), what)
}

var messageVariants = []MessagesOptions{{}, {IncludeSystem: true}, {Offset: 1, Limit: 2}}

func compareAll(t *testing.T, c counter, store *inmemory.Store, want expected) {
	ctx := t.Context()
	timed := &timedStore{Store: store, mtimes: map[string]int64{}}
	for _, s := range want.Store.ListSessions {
		timed.mtimes[s.SessionID] = s.Mtime
	}
	list, err := List(ctx, timed, want.ProjectKey, &ListOptions{Dir: want.Dir})
	require.NoError(t, err)
	c.same(t, "list", want.ListSessions.OK, list)
	list, err = List(ctx, withoutSummaries(timed), want.ProjectKey, &ListOptions{Dir: want.Dir})
	require.NoError(t, err)
	c.same(t, "list without summaries", want.NoSummaries.OK, list, "fileSize") // see docs/session.md
	for id := range want.Sessions {
		compareSession(t, c, timed, want, id)
	}
}

func compareSession(t *testing.T, c counter, timed *timedStore, want expected, id string) {
	ctx, store, s := t.Context(), timed.Store, want.Sessions[id]
	key := sessionstore.Key{ProjectKey: want.ProjectKey, SessionID: id}
	info, ok, err := Info(ctx, timed, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, timed.mtimes[id], info.LastModified)
	c.same(t, "info", s.Info.OK, info, "fileSize", "lastModified")
	ids, err := Subagents(ctx, store, key)
	require.NoError(t, err)
	var wantIDs []string
	require.NoError(t, json.Unmarshal(s.Subagents.OK, &wantIDs))
	require.ElementsMatch(t, wantIDs, ids)
	c["subagents"]++
	for _, st := range []sessionstore.SessionStore{store, bareStore{store}} {
		for i, a := range []answer{s.Messages, s.System, s.Page} {
			got, err := Messages(ctx, st, key, &messageVariants[i])
			require.NoError(t, err)
			require.Empty(t, got.Gaps)
			c.same(t, "messages", a.OK, got.Messages)
		}
		for agent, a := range s.Agents {
			got, err := SubagentMessages(ctx, st, key, agent, nil)
			require.NoError(t, err)
			require.Empty(t, got.Gaps)
			c.same(t, "subagent messages", a.Messages.OK, got.Messages)
			got, err = SubagentMessages(ctx, st, key, agent, &MessagesOptions{Limit: 1, Offset: 1})
			require.NoError(t, err)
			c.same(t, "subagent messages", a.Page.OK, got.Messages)
		}
	}
}

func TestAnswersAgreeWithRecordedSessions(t *testing.T) {
	c := counter{}
	for _, name := range []string{"simple", "tools-multiturn", "subagents", "compact-manual", "compact-auto"} {
		store := inmemory.New()
		for _, b := range decodeLines[batch](t, testdata(name, "appends.jsonl")) {
			require.NoError(t, store.Append(t.Context(), b.Key, b.Entries))
		}
		compareAll(t, c, store, readExpected(t, testdata(name, "expected.json")))
	}
	require.Equal(t, counter{"list": 5, "list without summaries": 5, "info": 5, "messages": 30, "subagents": 5, "subagent messages": 28}, c)
}

// operation is a recorded call and what it led to.
type operation struct {
	Op    string
	OK    json.RawMessage
	Error string
}

// TestOperationsAgreeWithRecordedOnes plays the recorded operations with the
// uuids and times that the official helpers came up with. What is appended must
// then be the same byte by byte, apart from the order of members.
func TestOperationsAgreeWithRecordedOnes(t *testing.T) {
	store := inmemory.New()
	for _, b := range decodeLines[batch](t, testdata("store-ops", "appends.jsonl")) {
		require.NoError(t, store.Append(t.Context(), b.Key, b.Entries))
	}
	files, err := filepath.Glob(testdata("store-ops", "expected-*.json"))
	require.NoError(t, err)
	answers := map[int]string{}
	for _, f := range files {
		var n int
		_, err := fmt.Sscanf(filepath.Base(f), "expected-%d-", &n)
		require.NoError(t, err)
		answers[n] = f
	}
	data, err := os.ReadFile(testdata("store-ops", "ops.json"))
	require.NoError(t, err)
	var ops []operation
	require.NoError(t, json.Unmarshal(data, &ops))
	p := player{t: t, store: store, appends: decodeLines[batch](t, testdata("store-ops", "appends-ops.jsonl"))}
	c := counter{}
	compareAll(t, c, store, readExpected(t, answers[0]))
	for i, op := range ops {
		p.play(op)
		if f := answers[i+1]; f != "" {
			compareAll(t, c, store, readExpected(t, f))
		}
	}
	for _, b := range p.appends { // the fork is resumed
		require.NoError(t, store.Append(t.Context(), b.Key, b.Entries))
	}
	compareAll(t, c, store, readExpected(t, testdata("store-ops", "expected.json")))
	require.Equal(t, 7, p.changes)
	require.Equal(t, counter{"list": 11, "list without summaries": 11, "info": 21, "messages": 126, "subagents": 21, "subagent messages": 36}, c)
}

type player struct {
	t       *testing.T
	store   *inmemory.Store
	appends []batch // still to come
	changes int
}

const (
	opsProject = "-home-dev-store-ops-proj"
	opsMain    = "d6539f4a-c309-4c8e-9a65-6e4746f7faab"
	opsFork    = "5fda876c-248d-4834-af58-eea1e6d30e54"
	opsFork2   = "81234a10-fa04-4d96-a633-8e93156846a1"
)

func opsKey(id string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: opsProject, SessionID: id}
}

func (p *player) play(op operation) {
	ctx, t := p.t.Context(), p.t
	tag := func(s string) func(maker) error {
		return func(m maker) error { return m.tag(ctx, p.store, opsKey(opsMain), &s) }
	}
	switch op.Op {
	case "renameSession":
		p.change(func(m maker) error { return m.rename(ctx, p.store, opsKey(opsMain), "Renamed 😀 title") })
	case "renameSession unknown id": // see docs/session.md
		require.ErrorIs(t, Rename(ctx, p.store, opsKey(unknownID), "x"), sessionstore.ErrNotFound)
		p.appends = p.appends[1:]
	case "tagSession":
		p.change(tag("my-tag"))
	case "tagSession odd":
		p.change(tag("tag\x00"))
	case "tagSession null":
		p.change(func(m maker) error { return m.tag(ctx, p.store, opsKey(opsMain), nil) })
	case "forkSession":
		p.fork(opsKey(opsMain), nil)
	case "forkSession upTo":
		sources := p.appends[0].Entries
		p.fork(opsKey(opsMain), &ForkOptions{UpTo: forkedFrom(t, sources[len(sources)-4]), Title: "Fork title"})
	case "forkSession of fork":
		p.fork(opsKey(opsFork), nil)
	default:
		if !p.try(op) {
			p.ask(op)
		}
	}
}

// try plays the operations that only succeed or fail.
func (p *player) try(op operation) bool {
	ctx, err, empty := p.t.Context(), error(nil), ""
	switch op.Op {
	case "renameSession empty":
		err = Rename(ctx, p.store, opsKey(opsMain), empty)
	case "renameSession bad id":
		err = Rename(ctx, p.store, opsKey("nope"), "x")
	case "tagSession empty":
		err = Tag(ctx, p.store, opsKey(opsMain), &empty)
	case "forkSession upTo unknown":
		_, err = Fork(ctx, p.store, opsKey(opsMain), &ForkOptions{UpTo: unknownID})
	case "forkSession bad upTo":
		_, err = Fork(ctx, p.store, opsKey(opsMain), &ForkOptions{UpTo: "x"})
	case "forkSession unknown":
		_, err = Fork(ctx, p.store, opsKey(unknownID), nil)
	case "deleteSession fork":
		err = Delete(ctx, p.store, opsKey(opsFork2))
	case "deleteSession main", "deleteSession unknown":
		err = Delete(ctx, p.store, opsKey(opsMain))
	case "deleteSession bad id":
		err = Delete(ctx, p.store, opsKey("zzz"))
	case "deleteSession no delete":
		err = Delete(ctx, bareStore{p.store}, opsKey(opsFork))
	default:
		return false
	}
	require.Equal(p.t, op.Error != "", err != nil, "%s: %v", op.Op, err)
	return true
}

// ask plays the operations that only read.
func (p *player) ask(op operation) {
	ctx, t := p.t.Context(), p.t
	var got any
	var err error
	switch op.Op {
	case "listSessions limit":
		var list []Session
		list, err = List(ctx, p.timed(op), opsProject, &ListOptions{Limit: 2, Offset: 1})
		got = list
	case "listSessions limit 0":
		got, err = List(ctx, p.timed(op), opsProject, &ListOptions{Limit: 0})
	case "listSessions other dir":
		got, err = List(ctx, p.store, "-tmp-nowhere", nil)
	case "listSessions without listSessions":
		_, err = List(ctx, bareStore{p.store}, opsProject, nil)
	case "listSubagents without listSubkeys":
		_, err = Subagents(ctx, bareStore{p.store}, opsKey(opsMain))
	case "getSessionInfo unknown", "getSessionInfo bad id":
		id := map[bool]string{true: "bad", false: unknownID}[strings.HasSuffix(op.Op, "bad id")]
		_, ok, e := Info(ctx, p.store, opsKey(id))
		require.False(t, ok)
		err = e
	case "getSessionMessages bad id":
		var c Conversation
		c, err = Messages(ctx, p.store, opsKey("bad"), nil)
		got = append([]Message{}, c.Messages...)
	case "getSubagentMessages unknown":
		var c Conversation
		c, err = SubagentMessages(ctx, p.store, opsKey(opsMain), "nope", nil)
		got = append([]Message{}, c.Messages...)
	case "archiveSession": // not an entry, so not a store's affair
		return
	default:
		t.Fatalf("operation %q is not played", op.Op)
	}
	require.Equal(t, op.Error != "", err != nil, "%s: %v", op.Op, err)
	if op.Error == "" && got != nil {
		require.Equal(t, plain(t, op.OK), plain(t, got), op.Op)
	}
}

// timed gives the sessions the times that the answer has.
func (p *player) timed(op operation) *timedStore {
	s := &timedStore{Store: p.store, mtimes: map[string]int64{}}
	var rows []Session
	require.NoError(p.t, json.Unmarshal(op.OK, &rows))
	for _, r := range rows {
		s.mtimes[r.SessionID] = r.LastModified
	}
	if len(rows) == 2 { // the newest one was left out
		s.mtimes["1e278c83-c305-480f-9477-c833f330d14e"] = rows[0].LastModified + 1
	}
	return s
}

// change plays a change with the uuid and time of the next recorded append.
func (p *player) change(f func(maker) error) {
	want := p.next()
	last := want.Entries[len(want.Entries)-1]
	m := scripted(p.t, text(get(last, "timestamp")), last.UUID())
	require.NoError(p.t, f(m))
	p.compareTail(want)
}

func (p *player) next() batch {
	b := p.appends[0]
	p.appends = p.appends[1:]
	p.changes++
	return b
}

// compareTail compares the end of a transcript with an append.
func (p *player) compareTail(want batch) {
	got := load(p.t, p.store, want.Key)
	require.GreaterOrEqual(p.t, len(got), len(want.Entries))
	got = got[len(got)-len(want.Entries):]
	for i := range got {
		require.Equal(p.t, string(want.Entries[i]), string(got[i]))
	}
}

func (p *player) fork(key sessionstore.Key, opts *ForkOptions) {
	want := p.next()
	m := forkMaker(p.t, want.Key.SessionID, want.Entries)
	id, err := m.fork(p.t.Context(), p.store, key, opts)
	require.NoError(p.t, err)
	require.Equal(p.t, want.Key.SessionID, id)
	require.Len(p.t, load(p.t, p.store, want.Key), len(want.Entries))
	p.compareTail(want)
}

// forkMaker makes the uuids and times of a recorded fork.
func forkMaker(t testing.TB, id string, entries []sessionstore.Entry) maker {
	var ids []string
	seen := map[string]bool{}
	for _, e := range entries[:len(entries)-1] {
		if u := e.UUID(); u != "" && !seen[u] {
			seen[u] = true
			ids = append(ids, u)
		}
	}
	last := entries[len(entries)-1] // the title
	return scripted(t, text(get(last, "timestamp")), append(ids, id, last.UUID())...)
}

func forkedFrom(t testing.TB, e sessionstore.Entry) string {
	id := text(get(get(e, "forkedFrom"), "messageUuid"))
	require.NotEmpty(t, id)
	return id
}
