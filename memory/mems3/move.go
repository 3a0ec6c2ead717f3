package mems3

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// mover moves or deletes one file for an intent that is open.
type mover struct {
	*Store
	in       intent
	path, to string
	from     string // name of the object
	dest     string
}

// move carries out an intent for one file. When somebody has made another file
// in the new place at the last moment the error is ErrExists, and both stay.
func (s *Store) move(ctx context.Context, in intent, path string) error {
	m := &mover{Store: s, in: in, path: path, from: s.name(path)}
	if in.Op == opRename {
		m.to = in.To + strings.TrimPrefix(path, in.From)
		m.dest = s.name(m.to)
	}
	for try := 1; ; try++ {
		err := m.once(ctx)
		if !errors.Is(err, memory.ErrConflict) && !errors.Is(err, memory.ErrExists) || try == moveTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

func (m *mover) once(ctx context.Context) error {
	o, err := m.hold(ctx)
	if errors.Is(err, s3util.ErrGone) {
		return nil // somebody else has carried it out
	}
	if err == nil && m.in.Op == opRename {
		err = m.copy(ctx, o)
	}
	if err == nil {
		_, err = m.deleteIf(ctx, m.from, o.etag)
	}
	return err
}

// hold marks the file, unless another host has done so for this intent. Only
// what was held while the intent was open is gone on with.
func (m *mover) hold(ctx context.Context) (object, error) {
	o, err := m.get(ctx, m.from, 0)
	if err != nil {
		return o, err
	}
	ours := false
	if o.mark.intent != m.in.ID {
		if o.mark != (mark{}) {
			// If ours is open, that of this mark has ended.
			if err := m.open(ctx, m.in); err != nil {
				return o, err
			}
		}
		if o.mark.kind == draft {
			_, err := m.deleteIf(ctx, m.from, o.etag)
			return o, errors.Join(err, memory.ErrConflict)
		}
		if o, err = m.putHold(ctx, o); err != nil {
			return o, err
		}
		ours = true
	}
	err = m.open(ctx, m.in)
	if ours && errors.Is(err, errClosed) {
		err = errors.Join(err, m.restore(ctx, m.from, o))
	}
	return o, err
}

func (m *mover) putHold(ctx context.Context, o object) (object, error) {
	op := rand.Text()
	d := metadata{ops: append([]string{op}, o.fileOps()...), intent: o.intent, mark: mark{held, m.in.ID, op}}
	etag, err := m.put(ctx, m.from, o.data, condition{o.etag}, d)
	return object{data: o.data, etag: etag, metadata: d}, err
}

// origin is noted on the file that comes of a hold.
func origin(o object) string { return o.mark.intent + " " + o.mark.hold }

// copy makes the file in the new place: first a draft, and a file of that when
// it was made while the intent was open.
func (m *mover) copy(ctx context.Context, o object) error {
	etag, err := m.putDraft(ctx, o)
	if err != nil || etag == "" {
		return err
	}
	d := metadata{ops: append([]string{rand.Text()}, o.fileOps()...), intent: origin(o)}
	_, err = m.put(ctx, m.dest, o.data, condition{etag}, d)
	if !errors.Is(err, memory.ErrConflict) {
		return err
	}
	there, err := m.head(ctx, m.dest)
	if err == nil && there.mark == (mark{}) && there.intent == origin(o) {
		return nil // another host was faster
	}
	if err != nil && !errors.Is(err, s3util.ErrGone) {
		return err
	}
	if err := m.open(ctx, m.in); err != nil {
		return err
	}
	return memory.ErrConflict
}

// putDraft returns the etag of the draft; none if the file is there already.
func (m *mover) putDraft(ctx context.Context, o object) (string, error) {
	d := metadata{ops: append([]string{rand.Text()}, o.fileOps()...), intent: origin(o), mark: mark{draft, m.in.ID, o.mark.hold}}
	etag, err := m.put(ctx, m.dest, o.data, condition{}, d)
	if err == nil {
		if err = m.open(ctx, m.in); errors.Is(err, errClosed) {
			_, deleteErr := m.deleteIf(ctx, m.dest, etag)
			err = errors.Join(err, deleteErr)
		}
		return etag, err
	}
	if !errors.Is(err, memory.ErrConflict) {
		return "", m.blocked(ctx, err)
	}
	there, err := m.head(ctx, m.dest)
	switch {
	case errors.Is(err, s3util.ErrGone):
		return "", memory.ErrConflict
	case err != nil:
		return "", err
	case there.mark == d.mark:
		return there.etag, m.open(ctx, m.in)
	case there.mark == mark{} && there.intent == origin(o):
		return "", nil
	case there.mark.kind != draft:
		return "", memory.ErrExists
	}
	// It is one of an intent that has ended, if ours is open.
	if err := m.open(ctx, m.in); err != nil {
		return "", err
	}
	_, err = m.deleteIf(ctx, m.dest, there.etag)
	return "", errors.Join(err, memory.ErrConflict)
}

// blocked looks whether a put failed because somebody has made a file in the
// place of a directory at the last moment, which a server over a file system
// refuses.
func (m *mover) blocked(ctx context.Context, err error) error {
	if all, listErr := m.list(ctx); listErr == nil && errors.Is(all.free(m.to), memory.ErrNotDirectory) {
		return memory.ErrExists
	}
	return err
}
