package s3store

import (
	"context"
	"sync"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// Append adds a batch at the end of a transcript, as an object of its own.
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	checked, err := sessionstore.Check(key, entries)
	if err := begin(ctx, err); err != nil {
		return opError("append", key, err)
	}
	if len(checked) == 0 {
		return nil
	}
	if s.isClosed() {
		return opError("append", key, errClosed)
	}
	if err := s.append(ctx, key, checked); err != nil {
		return opError("append", key, err)
	}
	return nil
}

func (s *Store) append(ctx context.Context, key sessionstore.Key, checked []sessionstore.Checked) error {
	st := s.states.pin(key)
	defer s.states.unpin(st)
	if err := s.learn(ctx, st); err != nil {
		return err
	}
	batch := make([][]byte, len(checked))
	for i := range checked {
		batch[i] = checked[i].Line
	}
	a := s.attempts.Begin(ctx, key, batch)
	if !a.Repeated {
		name, err := st.nextName(s.timing.now())
		if err != nil {
			a.NotStored()
			return err
		}
		a.State = name
	} else if st.summary != nil {
		st.restart(a.State)
	}
	// An attempt that has landed before writes the same bytes to the same
	// object; if that was put together with others meanwhile, readers know the
	// segment by its name.
	lines := withoutRepeats(checked)
	indexed, err := s.send(ctx, st, a.State, lines)
	if err != nil {
		a.Unknown()
		if st.summary != nil {
			st.failed(a.State)
			s.indexSoon(st)
		}
		return err
	}
	a.Stored()
	if st.summary != nil {
		st.landed(a.State, lines, indexed)
		s.indexSoon(st)
	}
	s.compactSoon(st)
	return nil
}

// withoutRepeats leaves out entries that repeat another one of the batch.
func withoutRepeats(checked []sessionstore.Checked) []*sessionstore.Checked {
	lines := make([]*sessionstore.Checked, 0, len(checked))
	var seen idset.Set
	for i := range checked {
		c := &checked[i]
		if len(c.UUID) == 0 || seen.Add(idset.Of(c.UUID)) {
			lines = append(lines, c)
		}
	}
	return lines
}

// send stores the part. The first one that this handle sends to a session goes
// together with an index object. The session is listed without it too, so a
// failure there is only noted.
func (s *Store) send(ctx context.Context, st *state, name partName, lines []*sessionstore.Checked) (indexed bool, err error) {
	var wg sync.WaitGroup
	if st.summary != nil {
		if epoch, ok := st.claimIndex(); ok {
			wg.Go(func() { indexed = s.firstIndex(ctx, st, epoch, name, lines) })
		}
	}
	err = s.putPart(ctx, s.dir(st.key)+name.String(), bodyOf(lines), "")
	wg.Wait()
	return indexed, err
}

func bodyOf(lines []*sessionstore.Checked) []byte {
	size := len(lines)
	for _, c := range lines {
		size += len(c.Line)
	}
	body := make([]byte, 0, size)
	for _, c := range lines {
		body = append(append(body, c.Line...), '\n')
	}
	return body
}
