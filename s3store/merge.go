package s3store

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/sessionstore/sessionstore/internal/idset"
)

// merge puts a batch together, into as few objects as may be, of about the size
// full.
func (j *compaction) merge(batch []object, full int64) error {
	var sources []mergeSource
	for _, o := range batch {
		// Tables that cannot be read show when the object is fetched.
		segs, _ := segmentsOf(o.name, j.st.compaction.tables[o.name].text)
		sources = append(sources, mergeSource{object: o, content: content{segs: segs}})
	}
	for _, group := range groups(sources, full) {
		if len(group) < 2 {
			continue
		}
		err := j.fetch(group)
		if errors.Is(err, errGone) {
			return nil // somebody else is at it
		}
		if err == nil {
			err = j.write(group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeOverlapping puts objects together that share segments although neither
// covers the other, also when they are closed: two hosts have compacted at once.
// Readers don't mind, but software that only knows parts would read the shared
// ones twice.
func (j *compaction) mergeOverlapping() error {
	for i := 0; i+1 < len(j.objects); i++ {
		for k := i + 1; k < len(j.objects); k++ {
			first, second := j.objects[i], j.objects[k]
			if second.name.ms > j.st.compaction.tables[first.name].lastMS {
				break // sorted by first segments
			}
			if !j.share(first, second) {
				continue
			}
			before := len(j.objects)
			if err := j.merge([]object{first, second}, math.MaxInt64); err != nil {
				return err
			}
			if len(j.objects) != before {
				i = -1 // look again: what was made may share more
				break
			}
		}
	}
	return nil
}

// share reports whether two objects hold a segment in common.
func (j *compaction) share(a, b object) bool {
	tables := j.st.compaction.tables
	if tables[a.name].text == "" || tables[b.name].text == "" {
		return false
	}
	segs, err1 := decodeTable(tables[a.name].text)
	others, err2 := decodeTable(tables[b.name].text)
	if err1 != nil || err2 != nil {
		return false
	}
	return slices.ContainsFunc(segs, func(s segment) bool {
		_, found := slices.BinarySearchFunc(others, s, func(x, y segment) int { return x.name.compare(y.name) })
		return found
	})
}

// mergeSource is an object that goes into another.
type mergeSource struct {
	object
	content content
}

func (j *compaction) fetch(group []mergeSource) error {
	return j.s.eachOf(j.ctx, len(group), func(ctx context.Context, i int) error {
		name := j.dir + group[i].name.String()
		body, table, err := j.s.get(ctx, name, group[i].size)
		if err != nil {
			return err
		}
		group[i].content, err = parseBody(group[i].name, name, table, body)
		return err
	})
}

// groups decides which objects become one. Each goes into a group as a whole,
// so that the group covers it.
func groups(sources []mergeSource, full int64) (all [][]mergeSource) {
	begin, size := 0, int64(0)
	for i, src := range sources {
		if size >= full || i > begin && !fitsTable(sources[begin:i+1]) {
			all = append(all, sources[begin:i])
			begin, size = i, 0
		}
		size += src.size
	}
	return append(all, sources[begin:])
}

// fitsTable reports whether the segments of several objects fit into a table.
func fitsTable(sources []mergeSource) bool {
	n := 0
	for _, src := range sources {
		n += len(src.content.segs)
	}
	const atMost = 12 // bytes that a segment takes, but for the first
	return n*atMost < maxTableLen/2 || len(encodeTable(union(sources))) <= maxTableLen
}

// union lists the segments of several objects, each once.
func union(sources []mergeSource) []segment {
	var segs []segment
	for _, src := range sources {
		segs = append(segs, src.content.segs...)
	}
	slices.SortFunc(segs, func(a, b segment) int { return a.name.compare(b.name) })
	return slices.CompactFunc(segs, func(a, b segment) bool { return a.name == b.name })
}

// write stores one object for a group, and deletes the group.
func (j *compaction) write(group []mergeSource) error {
	segs, body := mergeGroup(group)
	table := encodeTable(segs)
	if len(table) > maxTableLen {
		// The numbers of lines were not known when the group was made.
		if group = group[:len(group)-1]; len(group) < 2 {
			return nil
		}
		return j.write(group)
	}
	if slices.ContainsFunc(group, func(src mergeSource) bool { return len(src.content.segs) == len(segs) }) {
		return nil // it covers the others, and nothing new would have a higher rank
	}
	name := partName{segs[0].name.ms, j.freshSuffix(segs)}
	j.st.noteObject(name)
	j.changed = true
	if err := j.s.putPart(j.ctx, j.dir+name.String(), body, table); err != nil {
		return err
	}
	j.st.compaction.tables[name], _ = knowTable(name, table)
	deleted, err := j.wasDeleted()
	if err != nil {
		return err
	}
	if deleted {
		return j.delete([]object{{name: name}})
	}
	old := make([]object, len(group))
	for i, src := range group {
		old[i] = src.object
	}
	if err := j.delete(old); err != nil {
		return err
	}
	made := object{name: name, size: int64(len(body))}
	i, _ := slices.BinarySearchFunc(j.objects, name, func(o object, n partName) int { return o.name.compare(n) })
	j.objects = slices.Insert(slices.Clone(j.objects), i, made)
	return nil
}

// mergeGroup makes one body of a group, without repeats.
func mergeGroup(group []mergeSource) (segs []segment, body []byte) {
	held := make(map[partName][]line)
	size := 0
	for _, src := range group {
		lines := src.content.lines
		for _, seg := range src.content.segs {
			held[seg.name] = lines[:seg.lines]
			lines = lines[seg.lines:]
		}
		size += int(src.size)
	}
	segs = union(group)
	body = make([]byte, 0, size)
	var seen idset.Set
	for i := range segs {
		n := 0
		for _, l := range held[segs[i].name] {
			if l.hasID && !seen.Add(l.id) {
				continue
			}
			body = append(append(body, l.data...), '\n')
			n++
		}
		segs[i].lines = n
	}
	return segs, body
}

// freshSuffix is one that nothing of this transcript has.
func (j *compaction) freshSuffix(segs []segment) uint32 {
	for {
		suffix := freshSuffix(j.objects)
		taken := slices.ContainsFunc(segs, func(s segment) bool { return s.name.suffix == suffix })
		if !taken && suffix != j.newest.suffix && suffix != j.st.suffix {
			return suffix
		}
	}
}

// noteObject says that an object holds nothing new for the summary.
func (st *state) noteObject(name partName) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if u := st.summary; u != nil {
		if u.known == nil {
			u.known = make(map[partName]bool)
		}
		u.known[name] = true
	}
}
