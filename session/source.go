package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/sessionstore/sessionstore"
)

// keepBytes is how much of a transcript is kept while its graph is read, so
// that short ones, which are most, are read once. Of a longer one only the
// graph stays, and its entries are fetched by reading it again.
const keepBytes = 16 << 20

// errChanged: the transcript was deleted or replaced between two readings.
var errChanged = errors.New("the transcript has changed while it was read")

// source is a transcript being read.
type source struct {
	store sessionstore.SessionStore
	key   sessionstore.Key
	limit int // of bytes to keep; 0 means keepBytes

	graph *graph
	kept  []sessionstore.Entry // by node; nil when there were too many bytes
	count int                  // entries read, also those outside the graph
}

// read reads the whole transcript into the graph. It calls visit, if not nil,
// with each entry and its node, none if it has none.
func (s *source) read(ctx context.Context, visit func(e sessionstore.Entry, f *fields, node int32)) error {
	s.graph = newGraph()
	s.kept = []sessionstore.Entry{}
	_, streams := s.store.(sessionstore.Streamer)
	size, limit := 0, cmp.Or(s.limit, keepBytes)
	var f fields
	for e, err := range sessionstore.Stream(ctx, s.store, s.key) {
		if err == nil {
			err = f.read(e)
		}
		if err != nil {
			return err
		}
		s.count++
		at := none
		if s.graph.add(&f) {
			at = int32(len(s.graph.nodes)) - 1
			if size += len(e); streams && size > limit {
				s.kept = nil
			}
			if s.kept != nil {
				s.kept = append(s.kept, e)
			}
		}
		if visit != nil {
			visit(e, &f, at)
		}
	}
	return nil
}

// fetch calls use with the entry of each wanted node: in the order of the
// transcript, whatever the order of wanted, and each once.
func (s *source) fetch(ctx context.Context, wanted []int32, use func(node int32, e sessionstore.Entry, f *fields) error) error {
	if len(wanted) == 0 {
		return nil
	}
	missing := make(map[int32]bool, len(wanted))
	for _, i := range wanted {
		missing[i] = true
	}
	if s.kept != nil {
		return s.fetchKept(missing, use)
	}
	var f fields
	for e, err := range sessionstore.Stream(ctx, s.store, s.key) {
		if err == nil {
			err = f.read(e)
		}
		if err != nil {
			return err
		}
		i := s.nodeOf(&f)
		if !missing[i] {
			continue
		}
		if err := use(i, e, &f); err != nil {
			return err
		}
		if delete(missing, i); len(missing) == 0 {
			return nil
		}
	}
	return errChanged
}

func (s *source) fetchKept(missing map[int32]bool, use func(node int32, e sessionstore.Entry, f *fields) error) error {
	var f fields
	for i, e := range s.kept {
		if !missing[int32(i)] {
			continue
		}
		f.readAgain(e)
		if err := use(int32(i), e, &f); err != nil {
			return err
		}
	}
	return nil
}

// nodeOf returns the node of an entry that is read again. Entries are told by
// their uuids, not by their positions: another writer's may have come between.
func (s *source) nodeOf(f *fields) int32 {
	if f.kind() == kindOther {
		return none
	}
	return s.graph.find(f.uuid)
}
