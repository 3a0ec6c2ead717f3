package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Harness tells the suite how to make stores and how to disturb them. Only
// Open is required. A case that needs a missing function is skipped, or fails
// if the capability is in Require.
type Harness struct {
	// Open returns a new, empty store: no other store shares its data. It is
	// called at least once per case. Use tb.Cleanup to tear the store down.
	Open func(tb testing.TB) sessionstore.SessionStore

	// Reopen returns another handle on the data of s, as another host would
	// open it: the two share no memory, only the backend.
	Reopen func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore

	// ReopenBehind is Reopen on a host whose clock runs behind by d. A store
	// that never looks at the clock of its host can call Reopen.
	ReopenBehind func(tb testing.TB, s sessionstore.SessionStore, d time.Duration) sessionstore.SessionStore

	// LoseReply arranges that the next Append on s lands and yet returns an
	// error, as it does when the reply of the backend is lost.
	LoseReply func(tb testing.TB, s sessionstore.SessionStore)

	// Outage cuts s off from its backend until the end of the case.
	Outage func(tb testing.TB, s sessionstore.SessionStore)

	// Damage takes away, behind the back of s, a part of the stored transcript
	// that holds at least one whole entry and is not all of it.
	Damage func(tb testing.TB, s sessionstore.SessionStore, key sessionstore.Key)

	// Require lists what must not be absent: a case that needs it then fails
	// instead of being skipped. Name everything that the store and the harness
	// have.
	Require Capability

	// CommitOrder says that writers on several handles land in the order in
	// which they commit, so that a reader only ever sees a transcript grow at
	// its end. Without it a batch that is appended at the same moment may come
	// before batches already seen.
	CommitOrder bool

	// LastMetadataOnly says that of the agent_metadata entries of a subpath
	// transcript the store keeps only the last one, and gives it first. This
	// is what the file layout of the agent itself can hold.
	LastMetadataOnly bool

	// RefusesTwins says that the store may refuse a key that differs from one
	// it holds only in letter case or in Unicode normal form.
	RefusesTwins bool

	// Short scales the heavy cases down. It is implied by go test -short.
	Short bool
}

// Capability is a set of optional things that a store or a harness can do.
type Capability uint

// The capabilities. Those of a store are found by asserting its interfaces. A
// store whose method answers with [errors.ErrUnsupported] does not have it.
const (
	Lister         Capability = 1 << iota // sessionstore.SessionLister
	Summaries                             // sessionstore.SummaryLister
	Projects                              // sessionstore.ProjectLister
	Subkeys                               // sessionstore.SubkeyLister
	Orphans                               // sessionstore.OrphanLister
	Delete                                // sessionstore.Deleter
	Stream                                // sessionstore.Streamer
	Purge                                 // sessionstore.Purger
	Handover                              // Harness.Reopen
	HandoverBehind                        // Harness.ReopenBehind
	LostReply                             // Harness.LoseReply
	Outage                                // Harness.Outage
	Damage                                // Harness.Damage
	CommitOrder                           // Harness.CommitOrder

	capabilityEnd
)

// All is every optional operation of a store.
const All = Lister | Summaries | Projects | Subkeys | Orphans | Delete | Stream | Purge

var capabilityNames = map[Capability]string{
	Lister:         "sessionstore.SessionLister",
	Summaries:      "sessionstore.SummaryLister",
	Projects:       "sessionstore.ProjectLister",
	Subkeys:        "sessionstore.SubkeyLister",
	Orphans:        "sessionstore.OrphanLister",
	Delete:         "sessionstore.Deleter",
	Stream:         "sessionstore.Streamer",
	Purge:          "sessionstore.Purger",
	Handover:       "Harness.Reopen",
	HandoverBehind: "Harness.ReopenBehind",
	LostReply:      "Harness.LoseReply",
	Outage:         "Harness.Outage",
	Damage:         "Harness.Damage",
	CommitOrder:    "Harness.CommitOrder",
}

// String returns the names of the interfaces and harness fields in the set.
func (c Capability) String() string {
	var names []string
	for one := range c.each {
		names = append(names, capabilityNames[one])
	}
	return strings.Join(names, ", ")
}

func (c Capability) each(yield func(Capability) bool) {
	for one := Capability(1); one < capabilityEnd; one <<= 1 {
		if c&one != 0 && !yield(one) {
			return
		}
	}
}

// has reports whether the harness or the store has one capability.
func (h Harness) has(ctx context.Context, s sessionstore.SessionStore, one Capability) bool {
	switch one {
	case Handover:
		return h.Reopen != nil
	case HandoverBehind:
		return h.ReopenBehind != nil
	case LostReply:
		return h.LoseReply != nil
	case Outage:
		return h.Outage != nil
	case Damage:
		return h.Damage != nil
	case CommitOrder:
		return h.CommitOrder
	}
	implemented, err := try(ctx, s, one)
	return implemented && !errors.Is(err, errors.ErrUnsupported)
}

// try calls an optional operation in a way that changes nothing.
func try(ctx context.Context, s sessionstore.SessionStore, one Capability) (implemented bool, err error) {
	key := sessionstore.Key{ProjectKey: "conformance", SessionID: "unknown"}
	switch one {
	case Lister:
		if l, ok := s.(sessionstore.SessionLister); ok {
			_, err = l.ListSessions(ctx, key.ProjectKey)
			return true, err
		}
	case Summaries:
		if l, ok := s.(sessionstore.SummaryLister); ok {
			_, err = l.ListSessionSummaries(ctx, key.ProjectKey)
			return true, err
		}
	case Projects:
		if l, ok := s.(sessionstore.ProjectLister); ok {
			_, err = l.ListProjects(ctx)
			return true, err
		}
	case Subkeys:
		if l, ok := s.(sessionstore.SubkeyLister); ok {
			_, err = l.ListSubkeys(ctx, key.ProjectKey, key.SessionID)
			return true, err
		}
	default:
		return tryMore(ctx, s, one, key)
	}
	return false, nil
}

func tryMore(ctx context.Context, s sessionstore.SessionStore, one Capability, key sessionstore.Key) (bool, error) {
	switch one {
	case Orphans:
		if l, ok := s.(sessionstore.OrphanLister); ok {
			_, err := l.ListOrphans(ctx, key.ProjectKey)
			return true, err
		}
	case Delete:
		if d, ok := s.(sessionstore.Deleter); ok {
			return true, d.Delete(ctx, key)
		}
	case Purge:
		if p, ok := s.(sessionstore.Purger); ok {
			_, err := p.Purge(ctx, time.Time{})
			return true, err
		}
	case Stream:
		if st, ok := s.(sessionstore.Streamer); ok {
			for _, err := range st.Stream(ctx, key) {
				return true, err
			}
			return true, nil
		}
	}
	return false, nil
}

// sizes says how much the heavy cases do.
type sizes struct {
	entry    int // bytes of the huge entry
	text     int // bytes of the long string of escapes
	id       int // bytes of a long uuid
	tooLong  int // bytes of the entry over the limit; 0 skips the case
	batch    int // entries of the huge batch
	batches  int
	subpaths int
	sessions int
	writers  int   // concurrent writers
	turns    int   // batches per writer
	large    crowd // few writers of large batches
	rounds   int   // rounds of races and of stopped streams
	tick     time.Duration
}

var fullSizes = sizes{
	entry: 64 << 20, text: 1 << 20, id: 10 << 10, tooLong: sessionstore.MaxEntryLen + 1,
	batch: 20_000, batches: 1_500, subpaths: 1_500, sessions: 1_200, writers: 20, turns: 10, large: crowd{8, 4, 1_000},
	rounds: 100, tick: 4 * time.Millisecond,
}

var shortSizes = sizes{
	entry: 1 << 20, text: 64 << 10, id: 10 << 10,
	batch: 2_000, batches: 100, subpaths: 50, sessions: 60, writers: 20, turns: 3, large: crowd{8, 4, 500},
	rounds: 20, tick: 4 * time.Millisecond,
}

func (h Harness) sizes() sizes {
	if h.Short || testing.Short() {
		return shortSizes
	}
	return fullSizes
}
