// Package attempt recognises a batch that is appended again because nobody
// knows whether the first attempt landed.
//
// A store begins every batch with [Tracker.Begin] and ends it with one of the
// methods of [Attempt]. While the outcome of an attempt is unknown the tracker
// remembers it under its key; a batch of the same content on the same key then
// gets the state of that attempt back, so that the store can repeat itself
// under the same identity instead of storing the batch twice. A writer that
// knows its batches apart says with [Batch] which one it appends: two of the
// same content are then not taken for each other.
package attempt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// maxPending is how many attempts of unknown outcome are remembered for one
// key. Writers that share a key retry soon; older ones have been given up.
const maxPending = 1024

// Batch is the identity of a batch for a writer that tells its batches apart.
// Nil is a batch that is known by its content only.
type Batch struct{ _ byte } // not empty: each has an address of its own

type batchKey struct{}

type try struct {
	batch *Batch
	first bool
}

// WithNewBatch returns a context whose appends repeat no attempt.
func WithNewBatch(ctx context.Context) context.Context { return new(Batch).First(ctx) }

// First returns a context for the first attempt of the batch. It repeats none.
func (b *Batch) First(ctx context.Context) context.Context {
	return context.WithValue(ctx, batchKey{}, try{b, true})
}

// Again returns a context for a further attempt of the batch. It repeats those
// of this batch only, not one of another batch with the same content.
func (b *Batch) Again(ctx context.Context) context.Context {
	return context.WithValue(ctx, batchKey{}, try{b, false})
}

func tryOf(ctx context.Context) try {
	t, _ := ctx.Value(batchKey{}).(try)
	return t
}

// IsNewBatch reports whether ctx comes from WithNewBatch or First.
func IsNewBatch(ctx context.Context) bool { return tryOf(ctx).first }

// Tracker remembers attempts of unknown outcome. K is the key of a transcript,
// S is what a store needs to repeat an attempt, such as a random identity or
// the name of an object. The zero value is ready to use.
type Tracker[K comparable, S any] struct {
	mu   sync.Mutex
	keys map[K]*keyState[S]
}

type keyState[S any] struct {
	inFlight int
	// shared says that appends have overlapped since the first of pending
	// began: the key has several writers.
	shared  bool
	pending []pending[S]
}

type pending[S any] struct {
	digest [sha256.Size]byte
	batch  *Batch
	state  S
}

// Attempt is one try to append one batch. Exactly one of Stored, NotStored and
// Unknown must be called at its end.
type Attempt[K comparable, S any] struct {
	// State belongs to the store. In a repeated attempt it is what the attempt
	// before had left there.
	State S
	// Repeated says that an attempt with this content may have landed.
	Repeated bool

	tracker *Tracker[K, S]
	key     K
	name    *Batch
	entries [][]byte
	digest  [sha256.Size]byte
	hashed  bool
}

// Begin starts an attempt. The batch must not change until the attempt has
// ended. An attempt of the same content that came before is given up with a
// context of [WithNewBatch], and with one of [Batch] unless it was of that batch.
func (t *Tracker[K, S]) Begin(ctx context.Context, key K, batch [][]byte) *Attempt[K, S] {
	now := tryOf(ctx)
	a := &Attempt[K, S]{tracker: t, key: key, name: now.batch, entries: batch}
	t.mu.Lock()
	defer t.mu.Unlock()
	ks := t.keys[key]
	if ks == nil {
		if t.keys == nil {
			t.keys = make(map[K]*keyState[S])
		}
		ks = &keyState[S]{}
		t.keys[key] = ks
	}
	ks.shared = ks.shared || ks.inFlight > 0
	ks.inFlight++
	// Hashing waits until there is something to compare with: an outage is rare.
	if len(ks.pending) > 0 {
		a.hash()
		if i := ks.find(a.digest, now.batch); i >= 0 {
			p := ks.pending[i]
			if !now.first && (now.batch == nil || now.batch == p.batch) {
				a.Repeated, a.State, a.name = true, p.state, p.batch
			}
			ks.pending = slices.Delete(ks.pending, i, i+1)
		}
	}
	return a
}

// find returns the attempt of this content that a batch repeats, or gives up:
// its own if there is one.
func (ks *keyState[S]) find(digest [sha256.Size]byte, batch *Batch) int {
	own := func(p pending[S]) bool { return p.digest == digest && p.batch == batch }
	if i := slices.IndexFunc(ks.pending, own); batch != nil && i >= 0 {
		return i
	}
	return slices.IndexFunc(ks.pending, func(p pending[S]) bool { return p.digest == digest })
}

// Stored ends an attempt that has succeeded.
func (a *Attempt[K, S]) Stored() {
	a.end(func(ks *keyState[S]) {
		// A single writer that goes on to another batch has given up the ones
		// before. Where several writers share the key, another one's success
		// says nothing about this.
		if !ks.shared {
			ks.pending = nil
		}
	})
}

// NotStored ends an attempt that is known to have stored nothing. If it
// repeated one of unknown outcome, that outcome stays unknown.
func (a *Attempt[K, S]) NotStored() {
	if a.Repeated {
		a.Unknown()
		return
	}
	a.end(func(*keyState[S]) {})
}

// Unknown ends an attempt that may or may not have landed. State is kept for
// the next attempt with the same content.
func (a *Attempt[K, S]) Unknown() {
	a.hash()
	a.end(func(ks *keyState[S]) {
		if len(ks.pending) == maxPending {
			ks.pending = ks.pending[1:]
		}
		ks.pending = append(ks.pending, pending[S]{a.digest, a.name, a.State})
	})
}

func (a *Attempt[K, S]) end(change func(*keyState[S])) {
	t := a.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	ks := t.keys[a.key]
	ks.inFlight--
	change(ks)
	if ks.inFlight == 0 && len(ks.pending) == 0 {
		delete(t.keys, a.key)
	}
}

// hash identifies the content: the entries and where each one ends.
func (a *Attempt[K, S]) hash() {
	if a.hashed {
		return
	}
	h := sha256.New()
	var n [8]byte
	for _, e := range a.entries {
		binary.LittleEndian.PutUint64(n[:], uint64(len(e)))
		h.Write(n[:])
		h.Write(e)
	}
	h.Sum(a.digest[:0])
	a.hashed = true
}
