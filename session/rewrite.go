package session

import (
	"bytes"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// change is what a fork makes of one member of an entry.
type change struct {
	name   string
	remove bool
	value  []byte // in the place of the old one; nil leaves that as it is
	// edit makes the new value of the old one, of each where the key is repeated.
	edit func(old []byte) []byte
	add  bool // put the member at the end if there is none
}

// apply returns what the change makes of a value.
func (c *change) apply(old []byte) []byte {
	switch {
	case c.edit != nil:
		return c.edit(old)
	case c.value != nil:
		return c.value
	}
	return old
}

// rewrite returns an entry with changed members. All other bytes, the white
// space between members included, stay as they are. Of a repeated key every
// member is changed, so that no reader finds the old value.
func rewrite(e sessionstore.Entry, changes []change) sessionstore.Entry {
	start := jsonscan.SkipSpace(e, 0)
	out := append(make(sessionstore.Entry, 0, len(e)+256), e[:start+1]...)
	done := make([]bool, len(changes))
	end := start + 1 // of what has been looked at
	written := false
	members(e[start:], func(m member) {
		m = member{start + m.keyStart, start + m.keyEnd, start + m.valueStart, start + m.valueEnd}
		separator := e[end:m.keyStart]
		end = m.valueEnd
		value := e[m.valueStart:m.valueEnd]
		for i, c := range changes {
			if !jsonscan.KeyIs(e[m.keyStart:m.keyEnd], c.name) {
				continue
			}
			if c.remove {
				return
			}
			done[i], value = true, c.apply(value)
		}
		if !written { // no comma before the first member
			separator = separator[bytes.IndexByte(separator, ',')+1:]
			written = true
		}
		out = append(out, separator...)
		out = append(append(out, e[m.keyStart:m.valueStart]...), value...)
	})
	for i, c := range changes {
		if c.add && !done[i] {
			if written {
				out = append(out, ',')
			}
			out = append(append(append(append(out, '"'), c.name...), '"', ':'), c.value...)
			written = true
		}
	}
	return append(out, e[end:]...)
}

// mapUUIDs returns a JSON value in which the strings that name entries are
// replaced: those in members whose names end in uuid or uuids, at any depth.
// A string that mapped has nothing for stays as it is.
func mapUUIDs(value []byte, mapped func(literal []byte) []byte) []byte {
	out := make([]byte, 0, len(value)+16)
	return appendMapped(out, value, false, mapped, 0)
}

// maxMapDepth limits the depth to which metadata is searched. The agent's has
// three levels.
const maxMapDepth = 64

func appendMapped(out, value []byte, isID bool, mapped func([]byte) []byte, depth int) []byte {
	done := 0 // what is before has been written
	visit := func(start, end int, isID bool) {
		out = append(out, value[done:start]...)
		out = appendMapped(out, value[start:end], isID, mapped, depth+1)
		done = end
	}
	switch {
	case depth > maxMapDepth:
	case jsonscan.IsString(value) && isID:
		if uuid := mapped(value); uuid != nil {
			return append(out, uuid...)
		}
	case isObject(value):
		members(value, func(m member) {
			visit(m.valueStart, m.valueEnd, namesIDs(jsonscan.Unquote(value[m.keyStart:m.keyEnd])))
		})
	case isArray(value):
		elements(value, func(start, end int) { visit(start, end, isID) })
	}
	return append(out, value[done:]...)
}

// namesIDs reports whether a member of that name holds uuids: headUuid, uuids,
// allUuids and the like.
func namesIDs(name []byte) bool {
	name = bytes.ToLower(name)
	return bytes.HasSuffix(name, []byte("uuid")) || bytes.HasSuffix(name, []byte("uuids"))
}
