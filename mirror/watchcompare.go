package mirror

import (
	"context"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// stored is what the store holds of a transcript, less what has been found in
// the file.
type stored struct {
	uuids    idset.Set
	others   map[idset.ID]int   // entries without uuid, counted
	metadata sessionstore.Entry // the last one
	nothing  bool               // it holds no entry
}

// compare reads what the store holds.
func (t *turn) compare(ctx context.Context) (nothing bool, err error) {
	f := t.f
	f.offset, f.line, f.metadata, f.unfinished = 0, 0, nil, false
	f.seenLines, f.seenSidecar = fileState{}, fileState{}
	f.surplus = nil
	s := &stored{others: make(map[idset.ID]int), nothing: true}
	reading, progress, cancel := withProgress(ctx, t.w.opts.CallTimeout)
	defer cancel()
	err = t.call(reading, func() error {
		return reason(reading, s.read(reading, t.w.store, f.key, progress))
	})
	if err != nil {
		return false, err // the call may still be under way
	}
	f.comparing, f.metadata = s, s.metadata
	return s.nothing, nil
}

// read reads what the store holds. It calls progress for each entry.
func (s *stored) read(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, progress func()) error {
	for e, err := range sessionstore.Stream(ctx, store, key) {
		if err != nil {
			return err
		}
		progress()
		s.nothing = false
		if key.Subpath != "" && e.Type() == sessionstore.MetadataType {
			s.metadata = e
			continue
		}
		if id := identify(e); id.unique {
			s.uuids.Add(id.id)
		} else {
			s.others[id.id]++
		}
	}
	return nil
}

// useUp reports whether the store has more of an entry than the file has so
// far. A file that was cut off and written again has it again.
func (f *watched) useUp(id identity) bool {
	if id.unique {
		return false // the store drops it
	}
	return takeOne(f.surplus, id.id)
}

func takeOne(counts map[idset.ID]int, id idset.ID) bool {
	n := counts[id]
	if n > 1 {
		counts[id] = n - 1
	} else {
		delete(counts, id) // few are left when all of the file is read
	}
	return n > 0
}

// take reports whether the store holds the entry.
func (s *stored) take(id identity) bool {
	if id.unique {
		return s.uuids.Has(id.id)
	}
	return takeOne(s.others, id.id)
}
