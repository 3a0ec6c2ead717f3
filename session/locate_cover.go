package session

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// outline is what is kept of a transcript to find out what of it another one
// holds.
type outline struct {
	items []item
	uuids map[idset.ID]int32   // where each uuid stands first
	equal map[idset.ID][]int32 // where the equals of an item without uuid stand
	types map[string][]int32   // where the items of a type without uuid stand
}

// item stands for an entry: for its uuid, or for all of it.
type item struct {
	id   idset.ID
	typ  string // of an entry without uuid
	uuid bool
}

// size counts what another transcript must have at least to hold this one.
func (o *outline) size() int {
	n := len(o.uuids)
	for typ, list := range o.types {
		if typ != sessionstore.MetadataType {
			n += len(list)
		}
	}
	return n
}

// survey reads the transcript at a place for its outline, and finds the time of
// what comes before its first timestamp: it has that one.
func (h *head) survey(ctx context.Context, store sessionstore.SessionStore) error {
	h.outline = &outline{uuids: map[idset.ID]int32{}, equal: map[idset.ID][]int32{}, types: map[string][]int32{}}
	names := make(map[string]string) // so that each name is kept once
	timed := false
	for e, err := range sessionstore.Stream(ctx, store, h.place) {
		if err != nil {
			return err
		}
		if t, ok := e.Timestamp(); ok && !timed {
			h.time, timed = t, true
		}
		h.outline.add(e, names)
	}
	return nil
}

func (o *outline) add(e sessionstore.Entry, names map[string]string) {
	at := int32(len(o.items))
	if uuid := e.UUID(); uuid != "" {
		it := item{id: idset.Of([]byte(uuid)), uuid: true}
		if _, ok := o.uuids[it.id]; !ok {
			o.uuids[it.id] = at
		}
		o.items = append(o.items, it)
		return
	}
	it := item{id: idset.Of(e), typ: e.Type()}
	if _, ok := names[it.typ]; !ok {
		names[it.typ] = it.typ
	}
	it.typ = names[it.typ]
	o.equal[it.id] = append(o.equal[it.id], at)
	o.types[it.typ] = append(o.types[it.typ], at)
	o.items = append(o.items, it)
}

// cover says how much of a transcript, from its beginning, another one holds.
type cover struct {
	by      *head // nil if none does
	entries int
	whole   bool
	upTo    int            // the last entry of the other one that is needed
	used    map[string]int // by type, where the entries without uuid end that stand for this one's
}

// coverOf finds out what of p stands in h. All uuids must be there, in whatever
// order, and what has none as a part of the entries of its type, in order.
// Behind a uuid that both have it is what follows there too, or what was the
// last of its type there already.
//
// What both begin with without uuid, such as a title, says little; it counts
// when a uuid follows that both have, or nothing. With anyOrder it does not
// matter what follows on what, but of one type. With keepsLast some metadata of
// a subagent stands for all.
func (h *head) coverOf(p *head, anyOrder, keepsLast bool) cover {
	c := cover{by: h, used: make(map[string]int), upTo: -1}
	anchor, anchored := -1, false
	for _, it := range p.items {
		at := -1
		switch {
		case it.uuid:
			pos, ok := h.uuids[it.id]
			if !ok {
				return c.stopped(anchored)
			}
			at = int(pos)
			anchor, anchored = max(anchor, at), true
		case keepsLast && it.typ == sessionstore.MetadataType && len(h.types[it.typ]) > 0:
			// there is one
		default:
			behind := anchor
			if anyOrder {
				behind = -1
			}
			if at = h.find(it, c.used[it.typ], behind); at < 0 {
				return c.stopped(anchored)
			}
			c.used[it.typ] = at + 1
		}
		c.upTo = max(c.upTo, at)
		c.entries++
	}
	c.whole = true
	return c
}

func (c cover) stopped(anchored bool) cover {
	if !anchored {
		c.entries = 0
	}
	return c
}

// find returns where an item without uuid stands, not before from: as the last
// of its type up to the anchor, or behind that. It returns -1 if it does not.
func (o *outline) find(it item, from, anchor int) int {
	list := o.types[it.typ]
	if k := sort.Search(len(list), func(k int) bool { return int(list[k]) > anchor }); k > 0 {
		if at := int(list[k-1]); at >= from && o.items[at].id == it.id {
			return at
		}
	}
	list = o.equal[it.id]
	from = max(from, anchor+1)
	if k := sort.Search(len(list), func(k int) bool { return int(list[k]) >= from }); k < len(list) {
		return int(list[k])
	}
	return -1
}

// coverAll finds the places of which others hold everything, and of what is
// left those that begin with what another one holds.
func coverAll(all []*head, as sessionstore.Key) {
	covers := make(map[[2]*head]cover)
	for _, q := range all {
		for _, p := range all {
			if p == q {
				continue
			}
			// Of what has been joined into the target, joining has decided the
			// order, and the store may keep no metadata but the last.
			target := q.place == as
			c := q.coverOf(p, target, target && as.Subpath != "")
			if target && !c.whole {
				c = q.coverOf(p, false, as.Subpath != "")
			}
			covers[[2]*head{q, p}] = c
		}
	}
	// Of two that hold the same, one must stay.
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *head) int {
		if d := cmp.Compare(b.size(), a.size()); d != 0 || a.place != as && b.place != as {
			return d
		}
		if a.place == as {
			return -1
		}
		return 1
	})
	for i, p := range order {
		for _, q := range order[:i] {
			if c := covers[[2]*head{q, p}]; c.whole {
				p.covered = c
				break
			}
		}
	}
	coverBeginnings(order, covers)
}

// coverBeginnings lets the longest beginnings be passed over. What covers one
// is not covered itself.
func coverBeginnings(all []*head, covers map[[2]*head]cover) {
	for {
		var best cover
		var of *head
		for _, q := range all {
			for _, p := range all {
				c := covers[[2]*head{q, p}]
				if p != q && q.covered.by == nil && p.covered.by == nil && len(p.covers) == 0 && c.entries > best.entries {
					best, of = c, p
				}
			}
		}
		if of == nil {
			return
		}
		of.covered = best
		best.by.covers = append(best.by.covers, of)
	}
}
