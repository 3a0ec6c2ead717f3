package sessionstore

import (
	"context"
	"fmt"
	"iter"
)

// MetadataType is the type of the entries that describe a subagent. Only the
// last one of a subpath transcript counts.
const MetadataType = "agent_metadata"

const (
	reasonOther = "another entry than in the source"
	reasonExtra = "an entry that the source does not have"
)

// Difference is the first place where two transcripts differ.
type Difference struct {
	Key Key
	// Entry is the number of the entry, from 1.
	Entry  int
	Reason string
}

func (d Difference) String() string { return fmt.Sprintf("%v: entry %d: %s", d.Key, d.Entry, d.Reason) }

// alignment says how the transcript of a destination relates to its source.
type alignment struct {
	// difference is where the destination holds what the source does not.
	difference *Difference
	// common counts the entries that both hold from the start. With byLast it
	// leaves metadata entries out.
	common int
	// missing says that the source has more entries than the common ones.
	missing bool
	// byLast says that metadata entries don't stand in the same places, so
	// that only the last ones are compared.
	byLast        bool
	metadata      Entry // the destination's last
	staleMetadata bool  // and the source's last one differs
}

func (a alignment) complete() bool {
	return a.difference == nil && !a.missing && !a.staleMetadata
}

// empty reports whether neither store holds anything.
func (a alignment) empty() bool { return a.complete() && a.common == 0 && a.metadata == nil }

// align compares the destination's transcript with the source's. It reads as
// much of the source as the destination holds, and one entry more.
func align(ctx context.Context, dst, src SessionStore, key Key) (alignment, error) {
	a, err := alignAll(ctx, dst, src, key)
	if err != nil || key.Subpath == "" || a.complete() || a.common == 0 && a.missing {
		return a, err
	}
	byLast, err := alignByLast(ctx, dst, src, key)
	if err == nil && a.difference == nil && !byLast.complete() {
		return a, nil // a plain beginning of the source: metadata keeps its places
	}
	return byLast, err
}

func alignAll(ctx context.Context, dst, src SessionStore, key Key) (alignment, error) {
	var a alignment
	nextDst, stopDst := iter.Pull2(Stream(ctx, dst, key))
	defer stopDst()
	nextSrc, stopSrc := iter.Pull2(Stream(ctx, src, key))
	defer stopSrc()
	err := a.compare(key, nextDst, nextSrc)
	return a, err
}

// alignByLast compares everything but metadata entries one by one, and of
// those the last ones.
func alignByLast(ctx context.Context, dst, src SessionStore, key Key) (alignment, error) {
	a := alignment{byLast: true}
	var srcMetadata Entry
	nextDst, stopDst := iter.Pull2(withoutMetadata(Stream(ctx, dst, key), &a.metadata))
	defer stopDst()
	nextSrc, stopSrc := iter.Pull2(withoutMetadata(Stream(ctx, src, key), &srcMetadata))
	defer stopSrc()
	if err := a.compare(key, nextDst, nextSrc); err != nil || a.difference != nil {
		return a, err
	}
	for { // the last metadata entry may stand at the very end
		if _, err, ok := nextSrc(); err != nil {
			return a, err
		} else if !ok {
			break
		}
	}
	switch {
	case srcMetadata == nil && a.metadata != nil:
		a.difference = &Difference{key, a.common + 1, "an agent_metadata entry that the source does not have"}
	case srcMetadata != nil && !srcMetadata.Equal(a.metadata):
		a.staleMetadata = true
	}
	return a, nil
}

func (a *alignment) compare(key Key, nextDst, nextSrc func() (Entry, error, bool)) error {
	for {
		d, err, more := nextDst()
		if err != nil {
			return err
		}
		s, err, ok := nextSrc()
		if err != nil {
			return err
		}
		switch {
		case !more:
			a.missing = ok
			return nil
		case !ok:
			a.difference = &Difference{key, a.common + 1, reasonExtra}
			return nil
		case !d.Equal(s):
			a.difference = &Difference{key, a.common + 1, reasonOther}
			return nil
		}
		a.common++
	}
}

// withoutMetadata leaves metadata entries out and notes the last one.
func withoutMetadata(entries iter.Seq2[Entry, error], last *Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if err == nil && e.Type() == MetadataType {
				*last = e
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// rest yields the entries of the source that the destination lacks.
func (a alignment) rest(source iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	if a.byLast {
		return a.restByLast(source)
	}
	return func(yield func(Entry, error) bool) {
		n := 0
		for e, err := range source {
			if n++; err == nil && n <= a.common {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// restByLast puts the last metadata entry that stands before a missing entry in
// front of it, unless it is the one a reader of the destination sees already.
func (a alignment) restByLast(source iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var latest Entry
		current := a.metadata
		catchUp := func() bool {
			if latest == nil || latest.Equal(current) {
				return true
			}
			current = latest
			return yield(latest, nil)
		}
		n := 0
		for e, err := range source {
			if err != nil {
				yield(nil, err)
				return
			}
			if e.Type() == MetadataType {
				latest = e
				continue
			}
			if n++; n <= a.common {
				continue
			}
			if !catchUp() || !yield(e, nil) {
				return
			}
		}
		catchUp()
	}
}
