package pgstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore"
)

// What Stream fetches at a time: as many entries as begin within
// windowBytes, but at most windowEntries.
const (
	windowEntries = 1000
	windowBytes   = 4 << 20
)

// errDeleted ends a Stream.
var errDeleted = errors.New("the transcript has been deleted while it was being read")

// head is what the row of a transcript says about it.
type head struct{ id, entries, bytes, lastPosition int64 }

// Load returns all entries of a transcript, from one query and one snapshot.
func (s *Store) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	var r reader
	err := cmp.Or(key.Validate(), ctx.Err())
	if err == nil {
		err = s.do(ctx, func() error {
			r = reader{whole: true}
			return r.query(ctx, s.db, s.sql.load, key.ProjectKey, key.SessionID, key.Subpath)
		})
	}
	if err == nil && int64(len(r.entries)) != r.head.entries {
		err = missing(int64(len(r.entries)), r.head.entries)
	}
	if err != nil {
		return nil, s.wrap("load", key, err)
	}
	return r.entries, nil
}

// Stream yields the entries that the transcript holds when the iteration
// begins. It fetches them in windows and holds no connection in between, so a
// slow consumer costs nothing and may use the store itself.
func (s *Store) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		if err := s.stream(ctx, key, yield); err != nil {
			yield(nil, s.wrap("stream", key, err))
		}
	}
}

func (s *Store) stream(ctx context.Context, key sessionstore.Key, yield func(sessionstore.Entry, error) bool) error {
	if err := cmp.Or(key.Validate(), ctx.Err()); err != nil {
		return err
	}
	whole := head{lastPosition: math.MaxInt64}
	position, seen := int64(0), int64(0)
	for {
		var r reader
		err := s.do(ctx, func() error {
			r = reader{}
			return r.query(ctx, s.db, s.sql.window, key.ProjectKey, key.SessionID, key.Subpath,
				whole.id, position, whole.lastPosition, windowEntries, windowBytes)
		})
		switch {
		case err != nil:
			return err
		case r.head.id == 0 && whole.id == 0:
			return nil // unknown
		case r.head.id == 0:
			return errDeleted
		case whole.id == 0:
			whole = r.head
		}
		for _, e := range r.entries {
			if !yield(e, nil) {
				return nil
			}
		}
		position, seen = r.position, seen+int64(len(r.entries))
		if seen == whole.entries {
			return nil
		}
		if len(r.entries) == 0 || seen > whole.entries {
			return missing(seen, whole.entries)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func missing(found, want int64) error {
	return fmt.Errorf("%w: %d entries are there, the transcript has %d", sessionstore.ErrCorrupt, found, want)
}

// reader takes in the rows of loadSQL or windowSQL.
type reader struct {
	whole    bool // everything is coming, in one piece of memory
	head     head
	entries  []sessionstore.Entry
	position int64 // of the last entry
	slab     []byte
}

func (r *reader) query(ctx context.Context, db DB, sql string, args ...any) error {
	return queryEach(ctx, db, sql, args, func(rows pgx.Rows) error {
		// Scan would make an allocation for each entry.
		values := rows.RawValues()
		position := int64(0)
		if rows.FieldDescriptions()[0].Format == pgx.BinaryFormatCode {
			position = int64(binary.BigEndian.Uint64(values[0]))
		} else if p, err := strconv.ParseInt(string(values[0]), 10, 64); err == nil {
			position = p
		}
		if position == 0 {
			return r.begin(values[1])
		}
		r.position = position
		r.add(values[1])
		return nil
	})
}

func (r *reader) begin(row []byte) error {
	err := json.Unmarshal(row, &[]any{&r.head.id, &r.head.entries, &r.head.bytes, &r.head.lastPosition})
	if err == nil && r.whole {
		r.entries = make([]sessionstore.Entry, 0, r.head.entries)
		r.slab = make([]byte, 0, r.head.bytes)
	}
	return err
}

func (r *reader) add(entry []byte) {
	const piece = 64 << 10
	if len(r.slab)+len(entry) > cap(r.slab) {
		r.slab = make([]byte, 0, max(piece, len(entry)))
	}
	start := len(r.slab)
	r.slab = append(r.slab, entry...)
	r.entries = append(r.entries, sessionstore.Entry(r.slab[start:len(r.slab):len(r.slab)]))
}
