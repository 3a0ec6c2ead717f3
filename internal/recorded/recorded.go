// Package recorded holds a recorded agent session with subagents, as a host
// received it batch by batch. Texts were replaced; see README.md. The demo and
// tests store it.
package recorded

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // for the recording
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sessionstore/sessionstore"
)

//go:embed subagents.jsonl.gz
var recording []byte

// The session's place in a store.
const (
	ProjectKey = "-home-dev-subagents-proj"
	SessionID  = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
)

// Main returns the key of the session's main transcript.
func Main() sessionstore.Key {
	return sessionstore.Key{ProjectKey: ProjectKey, SessionID: SessionID}
}

// Batch is one append: the entries are the bytes that the agent wrote.
type Batch struct {
	Key     sessionstore.Key
	Entries []sessionstore.Entry
}

// Batches yields the recorded appends in their order. It ends at the first
// error. Each batch is the caller's own.
func Batches() iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		lines, err := gzip.NewReader(bytes.NewReader(recording))
		if err != nil {
			yield(Batch{}, fmt.Errorf("recorded: %w", err))
			return
		}
		dec := json.NewDecoder(lines)
		for {
			// Entry keeps the bytes that it is decoded from.
			var b Batch
			err := dec.Decode(&b)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Batch{}, fmt.Errorf("recorded: %w", err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// AppendTo appends the whole recording to a store.
func AppendTo(ctx context.Context, store sessionstore.SessionStore) error {
	for b, err := range Batches() {
		if err != nil {
			return err
		}
		if err := store.Append(ctx, b.Key, b.Entries); err != nil {
			return err
		}
	}
	return nil
}
