package sessionstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore/internal/attempt"
)

// SessionStore keeps transcripts. All methods are safe for concurrent use.
//
// Every operation, those of the optional interfaces too, refuses an invalid key
// with [ErrInvalidKey], and fails with the error of its context, having changed
// nothing, if the context is done before it begins.
//
// The sentences below are the contract. Package conformance holds a test for
// each of them and quotes it when a store breaks it.
type SessionStore interface {
	// Append adds a batch of entries at the end of the transcript.
	//
	// On a nil error the batch is durable, whole and in order. An empty batch
	// changes nothing and creates no key. An invalid key or entry fails the
	// whole batch before anything is written: the error wraps [ErrInvalidKey]
	// or [ErrInvalidEntry].
	//
	// An entry whose uuid the transcript holds already is dropped; the first
	// one stays, in its place. This counts inside one batch too. The scope is
	// the key, never the session, the project or the store. Entries without
	// uuid are never dropped for being equal to another.
	//
	// A batch that is appended again after Append failed is stored once,
	// entries without uuid included, whether or not the first attempt landed.
	// A writer that goes on to another batch has given the failed one up. With
	// a context of [WithNewBatch] a batch is another one whatever it holds.
	//
	// Several writers on one key lose nothing, batches are not interleaved,
	// and each writer's own order is kept. A handle that has loaded a
	// transcript appends behind everything it loaded, whatever its clock says.
	//
	// The store copies what it is given; the caller may reuse the slice and
	// the bytes once Append has returned.
	Append(ctx context.Context, key Key, entries []Entry) error

	// Load returns all entries, oldest first, as the bytes that were appended.
	//
	// A transcript that was never written or was deleted gives nil, nil.
	// An outage, a truncated body or a missing part is an error, never
	// "unknown" and never a shorter transcript. The result is the caller's own.
	Load(ctx context.Context, key Key) ([]Entry, error)
}

// WithNewBatch returns a context for an Append that repeats no earlier one,
// even if its entries are equal to those of a batch that failed. Most writers
// don't need it: they try a batch again until it is stored, or go on to another
// one. It is for a writer that has found out otherwise whether the failed batch
// landed. Such a batch is tried again without it.
func WithNewBatch(ctx context.Context) context.Context { return attempt.WithNewBatch(ctx) }

// IsNewBatch reports whether ctx comes from [WithNewBatch], for stores that
// recognise retries by their content.
func IsNewBatch(ctx context.Context) bool { return attempt.IsNewBatch(ctx) }

// SessionLister is implemented by stores that can list the sessions of a
// project. Use [ListSessions] to call it.
type SessionLister interface {
	// ListSessions returns each session that has a main transcript, newest
	// first and by id where times are equal. A session with only subpaths is
	// not listed. An unknown project gives an empty list.
	ListSessions(ctx context.Context, projectKey string) ([]SessionInfo, error)
}

// SummaryLister is implemented by stores that keep a summary per session while
// they append. Use [ListSessionSummaries] to call it.
type SummaryLister interface {
	// ListSessionSummaries returns one summary for each session that
	// ListSessions would return, in the same order and with the same times,
	// without loading a transcript. A store in which others write, too, may
	// have to read what they have added.
	ListSessionSummaries(ctx context.Context, projectKey string) ([]SessionSummary, error)
}

// ProjectLister is implemented by stores that can list their projects. Use
// [ListProjects] to call it.
type ProjectLister interface {
	// ListProjects returns, sorted, the project keys that hold anything.
	ListProjects(ctx context.Context) ([]string, error)
}

// SubkeyLister is implemented by stores that can list the subpaths of a
// session. Use [ListSubkeys] to call it.
type SubkeyLister interface {
	// ListSubkeys returns, sorted, the subpaths of one session, never its main
	// transcript. Without any, or without such a session, the list is empty.
	ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error)
}

// OrphanLister is implemented by stores that can list the sessions that
// SessionLister leaves out. A subagent may be stored before the first entry of
// its main transcript, and the host may end in between. [Copy] and [Verify] of
// projects find such sessions with it.
type OrphanLister interface {
	// ListOrphans returns, sorted, the ids of the sessions of a project that
	// have subpaths and no main transcript.
	ListOrphans(ctx context.Context, projectKey string) ([]string, error)
}

// Deleter is implemented by stores that can delete. Use [Delete] to call it.
type Deleter interface {
	// Delete removes transcripts. A main key removes the whole session: the
	// main transcript, every subpath, its summary and its place in lists. A
	// subpath key removes that transcript alone: deleting "a" leaves "a/b". An
	// unknown key is no error. What was deleted can be appended again, on every
	// handle.
	Delete(ctx context.Context, key Key) error
}

// Streamer is implemented by stores that can read a transcript in bounded
// memory. Use [Stream] to call it.
type Streamer interface {
	// Stream yields what Load returns, one entry after the other. The store may
	// be used meanwhile, also to append to the same transcript. An error ends
	// the sequence; entries before it have been yielded, so a reader that
	// stops at the first error knows that the transcript is longer. Each entry
	// is the caller's own.
	Stream(ctx context.Context, key Key) iter.Seq2[Entry, error]
}

// Purger is implemented by stores that can delete by age. Use [Purge] to call
// it.
type Purger interface {
	// Purge deletes whole sessions whose time, as ListSessions gives it, is
	// before olderThan. When it fails or is cancelled the report says what had
	// been deleted by then, and a second call goes on from there.
	Purge(ctx context.Context, olderThan time.Time) (PurgeReport, error)
}

// SessionInfo is one row of [SessionLister].
type SessionInfo struct {
	SessionID string
	// Mtime is when the main transcript was last written, by the clock of the
	// storage, in whole milliseconds since 1970. Reading never changes it, nor
	// does an append to a subpath.
	Mtime int64
}

// SortSessions sorts a list as [SessionLister] promises it: newest first, and by
// id where times are equal.
func SortSessions(list []SessionInfo) {
	slices.SortFunc(list, func(a, b SessionInfo) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), strings.Compare(a.SessionID, b.SessionID))
	})
}

// PurgeReport counts what [Purger] has deleted.
type PurgeReport struct {
	Sessions    int // whole sessions
	Transcripts int // main and subpath transcripts among them
}

// ListSessions lists the sessions of a project if the store can. The error
// wraps [errors.ErrUnsupported] if it can't.
func ListSessions(ctx context.Context, s SessionStore, projectKey string) ([]SessionInfo, error) {
	if l, ok := s.(SessionLister); ok {
		return l.ListSessions(ctx, projectKey)
	}
	return nil, unsupported("list sessions", Key{ProjectKey: projectKey})
}

// ListSessionSummaries lists the kept summaries of a project's sessions if the
// store can. The error wraps [errors.ErrUnsupported] if it can't.
func ListSessionSummaries(ctx context.Context, s SessionStore, projectKey string) ([]SessionSummary, error) {
	if l, ok := s.(SummaryLister); ok {
		return l.ListSessionSummaries(ctx, projectKey)
	}
	return nil, unsupported("list session summaries", Key{ProjectKey: projectKey})
}

// ListProjects lists the project keys of a store if it can. The error wraps
// [errors.ErrUnsupported] if it can't.
func ListProjects(ctx context.Context, s SessionStore) ([]string, error) {
	if l, ok := s.(ProjectLister); ok {
		return l.ListProjects(ctx)
	}
	return nil, unsupported("list projects", Key{})
}

// ListOrphans lists the sessions of a project that have no main transcript if
// the store can. The error wraps [errors.ErrUnsupported] if it can't.
func ListOrphans(ctx context.Context, s SessionStore, projectKey string) ([]string, error) {
	if l, ok := s.(OrphanLister); ok {
		return l.ListOrphans(ctx, projectKey)
	}
	return nil, unsupported("list orphans", Key{ProjectKey: projectKey})
}

// ListSubkeys lists the subpaths of a session if the store can. The error
// wraps [errors.ErrUnsupported] if it can't.
func ListSubkeys(ctx context.Context, s SessionStore, projectKey, sessionID string) ([]string, error) {
	if l, ok := s.(SubkeyLister); ok {
		return l.ListSubkeys(ctx, projectKey, sessionID)
	}
	return nil, unsupported("list subkeys", Key{ProjectKey: projectKey, SessionID: sessionID})
}

// Delete deletes a session or a subpath transcript. On a store that cannot
// delete it does nothing and succeeds, because an archive that only grows is a
// legal store.
func Delete(ctx context.Context, s SessionStore, key Key) error {
	if d, ok := s.(Deleter); ok {
		if err := d.Delete(ctx, key); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Stream reads a transcript in bounded memory if the store can, and loads it
// whole if it can't.
func Stream(ctx context.Context, s SessionStore, key Key) iter.Seq2[Entry, error] {
	if st, ok := s.(Streamer); ok {
		return st.Stream(ctx, key)
	}
	return func(yield func(Entry, error) bool) {
		entries, err := s.Load(ctx, key)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Purge deletes the sessions last written before olderThan if the store can.
// The error wraps [errors.ErrUnsupported] if it can't.
func Purge(ctx context.Context, s SessionStore, olderThan time.Time) (PurgeReport, error) {
	if p, ok := s.(Purger); ok {
		return p.Purge(ctx, olderThan)
	}
	return PurgeReport{}, unsupported("purge", Key{})
}
