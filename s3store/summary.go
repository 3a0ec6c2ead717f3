package s3store

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// The summary of a session is the fold of its main transcript
// ([sessionstore.SummaryState]). Each handle keeps one of its own in its index
// object. What an entry contributes does not depend on the entries before it,
// only whether it counts does; so each member is kept with the place it is
// from, and the summaries of several handles become one by comparing places.

// Rules say which contribution to a member counts.
const (
	first   = iota // the first one
	last           // the last one
	command        // the first one that is not empty and not behind the first prompt
	tag            // the last one, and it may remove the member
)

// The members, in the order of the JSON form. firstPromptLocked is not among
// them: it says that there is a firstPrompt.
var members = []struct {
	name string
	rule int
}{
	{"isSidechain", first},
	{"createdAt", first},
	{"cwd", first},
	{"firstPrompt", first},
	{"commandFallback", command},
	{"customTitle", last},
	{"aiTitle", last},
	{"lastPrompt", last},
	{"summaryHint", last},
	{"gitBranch", last},
	{"tag", tag},
	// A command without a name, which any other replaces.
	{"emptyCommand", command},
}

const (
	promptMember       = 3
	commandMember      = 4
	tagMember          = 10
	emptyCommandMember = 11
	numMembers         = 12
)

var memberIndex = func() map[string]int {
	m := make(map[string]int, numMembers)
	for i, member := range members {
		m[member.name] = i
	}
	return m
}()

// place is where in a transcript an entry is.
type place struct {
	part partName
	line int
}

func (p place) before(o place) bool {
	if c := p.part.compare(o.part); c != 0 {
		return c < 0
	}
	return p.line < o.line
}

// value is the JSON text of a member, and the place it is from; empty is none.
type value struct {
	at   place
	text string
}

// fields are the members of a summary.
type fields [numMembers]value

// put takes in a contribution.
func (f *fields) put(member int, v value) {
	was := &f[member]
	switch rule := members[member].rule; {
	case was.text == "",
		(rule == first || rule == command) && v.at.before(was.at),
		(rule == last || rule == tag) && !v.at.before(was.at):
		*was = v
	}
}

func (f *fields) merge(o *fields) {
	for i, v := range o {
		if v.text != "" {
			f.put(i, v)
		}
	}
}

// removed is the text of a tag that was removed.
const removed = `""`

// json is the JSON form of the summary.
func (f *fields) json() json.RawMessage {
	out := []byte{'{'}
	add := func(name, text string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), '"', ':')
		out = append(out, text...)
	}
	for i, m := range members[:emptyCommandMember] {
		text := f[i].text
		switch i {
		case commandMember:
			text = f.command()
		case tagMember:
			if text == removed {
				text = ""
			}
		}
		if text == "" {
			continue
		}
		add(m.name, text)
		if i == promptMember {
			add("firstPromptLocked", "true")
		}
	}
	return append(out, '}')
}

// command is the slash command that counts. In the entry of the prompt one
// stands before it.
func (f *fields) command() string {
	for _, v := range []value{f[commandMember], f[emptyCommandMember]} {
		if v.text != "" && (f[promptMember].text == "" || !f[promptMember].at.before(v.at)) {
			return v.text
		}
	}
	return ""
}

// untagged is a state whose tag no entry can give, to tell an entry that
// removes the tag from one that says nothing about it.
var untagged = func() (s sessionstore.SummaryState) {
	if err := s.UnmarshalJSON([]byte(`{"tag":` + removed + `}`)); err != nil {
		panic(err)
	}
	return s
}()

// contribution is what one entry says of one member.
type contribution struct {
	member int
	text   string
}

// contributions reads the state after one entry alone was folded into untagged.
func contributions(state *sessionstore.SummaryState) []contribution {
	list := make([]contribution, 0, 4)
	tagged := false
	for name, text := range state.Members() {
		member, ok := memberIndex[name]
		if !ok {
			continue
		}
		if member == tagMember {
			tagged = true
			if text == removed {
				continue
			}
		}
		if member == commandMember && text == `""` {
			member = emptyCommandMember
		}
		list = append(list, contribution{member, text})
	}
	if !tagged {
		list = append(list, contribution{tagMember, removed})
	}
	return list
}

// folded is an entry as the summary sees it.
type folded struct {
	id            idset.ID
	hasID         bool
	contributions []contribution
}

func foldAll(lines []*sessionstore.Checked) []folded {
	all := make([]folded, len(lines))
	for i, c := range lines {
		state := untagged
		state.FoldChecked(c)
		all[i].contributions = contributions(&state)
		if len(c.UUID) > 0 {
			all[i].id, all[i].hasID = idset.Of(c.UUID), true
		}
	}
	return all
}

// add takes in the entries of a part that are not in ids yet.
func (f *fields) add(ids *idset.Set, part partName, entries []folded) {
	for i, e := range entries {
		if e.hasID && !ids.Add(e.id) {
			continue
		}
		for _, c := range e.contributions {
			f.put(c.member, value{place{part, i}, c.text})
		}
	}
}

// indexBody is what an index object holds.
type indexBody struct {
	Version int `json:"v"`
	// Partial says that the handle did not know the transcript when it wrote
	// this: repeats may be in it, and earlier entries are not.
	Partial bool                  `json:"partial,omitempty"`
	Members map[string]indexValue `json:"members"`
}

type indexValue struct {
	Part  string          `json:"part"`
	Line  int             `json:"line"`
	Value json.RawMessage `json:"value"`
}

const indexVersion = 1

func (f *fields) encode(partial bool) []byte {
	body := indexBody{Version: indexVersion, Partial: partial, Members: make(map[string]indexValue)}
	for i, v := range f {
		if v.text != "" {
			body.Members[members[i].name] = indexValue{v.at.part.String(), v.at.line, json.RawMessage(v.text)}
		}
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // the values stay as the entries spell them
	_ = e.Encode(body)     // the values are JSON
	return data.Bytes()
}

// decodeIndex reads an index object. One that cannot be read is corrupt; one of
// a later version too.
func decodeIndex(data []byte) (f fields, partial bool, err error) {
	var body indexBody
	if err := json.Unmarshal(data, &body); err != nil {
		return f, false, corrupt("index object: %v", err)
	}
	if body.Version != indexVersion {
		return f, false, corrupt("an index object has the format %d, this version knows %d", body.Version, indexVersion)
	}
	for name, v := range body.Members {
		member, ok := memberIndex[name]
		part, isPart := parsePart(v.Part)
		if !ok || !isPart || len(v.Value) == 0 {
			return f, false, corrupt("index object: member %q", name)
		}
		f[member] = value{place{part, v.Line}, string(v.Value)}
	}
	return f, body.Partial, nil
}

// flight is a part that is on its way, or waits for one before it.
type flight struct {
	name    partName
	landed  bool
	entries []folded
}

// summary is what a handle knows of the summary of a session. The mutex of the
// state protects it.
type summary struct {
	flushing chan struct{} // held while the index is being written

	// exact says that fields and ids cover the transcript, as far as this
	// handle has seen it.
	exact  bool
	doubts int // counts what has made it inexact
	ids    idset.Set
	fields fields
	first  int64             // lowest number that was folded
	known  map[partName]bool // objects of others, and compacted ones, that were folded

	flights []*flight // by name
	queue   []*flight // landed while the summary was being rebuilt; nil otherwise
	// rebuilding says that parts that land go to queue.
	rebuilding bool

	claimed    bool // this handle has written, or is writing, an index object
	epoch      int  // counts the times that it was taken away
	dirty      bool // the index object lacks something
	unverified bool // whether the transcript is still there
	version    int  // counts what has landed
	scheduled  bool
}

func newSummary() *summary { return &summary{flushing: make(chan struct{}, 1)} }

// begin starts with a transcript that has nothing yet, or is unknown.
func (u *summary) begin(empty bool) {
	u.exact = empty
	u.ids, u.fields, u.first, u.known = idset.Set{}, fields{}, 0, nil
}

func (u *summary) doubt() {
	u.doubts++
	u.exact = false
	u.ids = idset.Set{}
}

// start notes that a part is about to be sent.
func (u *summary) start(name partName) {
	u.flights = append(u.flights, &flight{name: name})
}

// restart notes that a part is about to be sent again.
func (st *state) restart(name partName) {
	st.mu.Lock()
	defer st.mu.Unlock()
	u := st.summary
	i, _ := slices.BinarySearchFunc(u.flights, name, func(f *flight, n partName) int { return f.name.compare(n) })
	u.flights = slices.Insert(u.flights, i, &flight{name: name})
}

// failed notes that nobody knows what became of a part.
func (st *state) failed(name partName) {
	st.mu.Lock()
	defer st.mu.Unlock()
	u := st.summary
	u.flights = slices.DeleteFunc(u.flights, func(f *flight) bool { return f.name == name && !f.landed })
	u.doubt()
	u.unverified = true // an index object may have been written for nothing
	u.settle()
}

// landed takes in a part that was stored. Of two entries with one uuid the one
// in the earlier part counts, so parts wait for those before them.
func (st *state) landed(name partName, lines []*sessionstore.Checked, indexed bool) {
	entries := foldAll(lines)
	st.mu.Lock()
	defer st.mu.Unlock()
	u := st.summary
	for _, f := range u.flights {
		if f.name == name && !f.landed {
			f.landed, f.entries = true, entries
			break
		}
	}
	u.version++
	u.unverified = true
	u.dirty = u.dirty || !indexed
	u.settle()
}

// settle folds the parts that nothing is before any more.
func (u *summary) settle() {
	for len(u.flights) > 0 && u.flights[0].landed {
		f := u.flights[0]
		u.flights = u.flights[1:]
		switch {
		case u.rebuilding:
			u.queue = append(u.queue, f)
		case u.exact:
			u.fold(f)
		}
	}
}

func (u *summary) fold(f *flight) {
	if u.first == 0 || f.name.ms < u.first {
		u.first = f.name.ms
	}
	u.fields.add(&u.ids, f.name, f.entries)
}
