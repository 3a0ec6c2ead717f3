// Package idset remembers which uuids a transcript holds, in about 30 bytes
// each: a transcript of a million entries must not cost hundreds of megabytes
// to append to.
package idset

import "crypto/sha256"

// ID stands for a uuid. Uuids can be any text of any length, so it is a hash,
// cut to 128 bits; no two texts with the same one can be found.
type ID [16]byte

// Of returns the ID of a uuid.
func Of(uuid []byte) ID {
	sum := sha256.Sum256(uuid)
	return ID(sum[:16])
}

// Set is a set of uuids. The zero value is empty and ready to use.
type Set struct{ m map[ID]struct{} }

// Grow makes room for n IDs in a set that is empty.
func (s *Set) Grow(n int) {
	if s.m == nil {
		s.m = make(map[ID]struct{}, n)
	}
}

// Add adds an ID and reports whether it was new.
func (s *Set) Add(id ID) bool {
	if _, ok := s.m[id]; ok {
		return false
	}
	if s.m == nil {
		s.m = make(map[ID]struct{})
	}
	s.m[id] = struct{}{}
	return true
}

// Has reports whether the set holds id.
func (s *Set) Has(id ID) bool {
	_, ok := s.m[id]
	return ok
}

// Remove takes id out.
func (s *Set) Remove(id ID) { delete(s.m, id) }

// Len returns the number of IDs.
func (s *Set) Len() int { return len(s.m) }
