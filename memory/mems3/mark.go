package mems3

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// mark says that an object is not just a file, but takes part in a rename or
// delete. The file follows behind a line that is different in every write. So
// an etag stands for one write, also where it is a digest of the bytes, and a
// condition that comes too late never holds.
type mark struct {
	kind   string
	intent string // its ID
	hold   string // the name of the write that has made the hold
}

const (
	// held is a file that is being moved or deleted, in its old place. When
	// its intent has ended it is an ordinary file: the hold came too late.
	held = "held"
	// draft is its copy in the new place. When its intent has ended it is
	// nothing.
	draft = "draft"

	// markUnit divides the sizes of marked objects. A list gives only sizes, so
	// by this those are known of which more has to be asked.
	markUnit = 4096
	// maxMarkBytes are what a mark adds to a file, at most.
	maxMarkBytes = 2 * markUnit
)

// wrap puts the line of the mark before a file.
func (m mark) wrap(op string, data []byte) []byte {
	line := "sessionstore memory: " + m.kind + " by " + m.intent + " " + m.hold + " " + op + ". The file follows."
	over := (len(line) + 1 + len(data)) % markUnit
	pad := (markUnit - over) % markUnit
	return append([]byte(line+strings.Repeat(" ", pad)+"\n"), data...)
}

func mayBeMarked(size int64) bool { return size > 0 && size%markUnit == 0 }

// restore makes an ordinary file of a held one, unless somebody has changed it.
func (s *Store) restore(ctx context.Context, name string, o object) error {
	_, err := s.put(ctx, name, o.data, condition{o.etag}, metadata{ops: append([]string{rand.Text()}, o.fileOps()...), intent: o.intent})
	if errors.Is(err, memory.ErrConflict) {
		return nil
	}
	return err
}

// fileOps are the writes of the file, without that of its hold.
func (o object) fileOps() []string {
	if o.mark.kind == held && len(o.ops) > 0 {
		return o.ops[1:]
	}
	return o.ops
}

// heal undoes what a host has left behind that came too late.
func (s *Store) heal(ctx context.Context, name string, o object) error {
	if o.mark.kind == held {
		return s.restore(ctx, name, o)
	}
	_, err := s.deleteIf(ctx, name, o.etag)
	return err
}

// marked fetches those of the paths that are marked.
func (s *Store) marked(ctx context.Context, all inventory, paths []string) (map[string]object, error) {
	var mu sync.Mutex
	var first error
	found := map[string]object{}
	var ask []string
	for _, p := range paths {
		if mayBeMarked(all.files[p].size) {
			ask = append(ask, p)
		}
	}
	s3util.Parallel(len(ask), parallel, func(i int) {
		o, err := s.head(ctx, s.name(ask[i]))
		if err == nil && o.mark != (mark{}) {
			o, err = s.get(ctx, s.name(ask[i]), 0)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, s3util.ErrGone):
		case err != nil && first == nil:
			first = err
		case o.mark != mark{}:
			found[ask[i]] = o
		}
	})
	return found, first
}

// healAll heals what is marked while no intent is open. Who may only read sees
// the files as they will be. It says whether anything was changed.
func (s *Store) healAll(ctx context.Context, all inventory, found map[string]object) (healed bool) {
	for p, o := range found {
		if err := s.heal(ctx, s.name(p), o); err == nil {
			healed = true
		} else if o.mark.kind == held {
			f := all.files[p]
			f.size = int64(len(o.data))
			all.files[p] = f
		} else {
			delete(all.files, p)
		}
	}
	return healed
}
