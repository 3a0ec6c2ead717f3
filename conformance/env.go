package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Short names for what nearly every line of the suite mentions.
type (
	key   = sessionstore.Key
	entry = sessionstore.Entry
)

// env is what a case works with: a store, and operations on it that end the
// case when they fail.
type env struct {
	testing.TB
	h     Harness
	size  sizes
	store sessionstore.SessionStore
	key   key // a main transcript that nothing has been written to
	known map[Capability]bool
}

// has reports whether the store or the harness has one capability.
func (c *env) has(one Capability) bool {
	found, ok := c.known[one]
	if !ok {
		found = c.h.has(c.Context(), c.store, one)
		c.known[one] = found
	}
	return found
}

// on returns the same operations on another store.
func (c *env) on(s sessionstore.SessionStore) *env {
	other := *c
	other.store = s
	return &other
}

func (c *env) fresh() *env  { return c.on(c.h.Open(c)) }
func (c *env) reopen() *env { return c.on(c.h.Reopen(c, c.store)) }
func (c *env) reopenBehind() *env {
	return c.on(c.h.ReopenBehind(c, c.store, time.Hour))
}

// sub is the key of a subpath transcript of the case's session.
func (c *env) sub(path string) key { return sub(c.key, path) }

// tick waits until the clock of the storage, which counts milliseconds, has
// moved on.
func (c *env) tick() { time.Sleep(c.size.tick) }

func (c *env) append(k key, entries ...entry) {
	c.Helper()
	if err := c.store.Append(c.Context(), k, entries); err != nil {
		c.Fatalf("Append(%v, %s) = %v, want nil", k, brief(entries), err)
	}
}

// appendLost appends while the reply gets lost.
func (c *env) appendLost(k key, entries ...entry) {
	c.Helper()
	c.h.LoseReply(c, c.store)
	if err := c.store.Append(c.Context(), k, entries); err == nil {
		c.Fatalf("Append(%v, %s) = nil after Harness.LoseReply, want an error", k, brief(entries))
	}
}

func (c *env) load(k key) []entry {
	c.Helper()
	got, err := c.store.Load(c.Context(), k)
	if err != nil {
		c.Fatalf("Load(%v) = %v, want no error", k, err)
	}
	return got
}

// wantLoad checks that the transcript holds exactly these bytes, except that an
// entry with line breaks may have become one line.
func (c *env) wantLoad(k key, want ...entry) {
	c.Helper()
	got := c.load(k)
	if d := diff(got, asStored(want, got)); d != "" {
		c.Errorf("Load(%v) = %s", k, d)
	}
}

func (c *env) wantUnknown(k key) {
	c.Helper()
	if got := c.load(k); got != nil {
		c.Errorf("Load(%v) = %s, want a nil slice", k, brief(got))
	}
}

// wantNowhere checks that the session is in no list that the store can give.
func (c *env) wantNowhere(k key) {
	c.Helper()
	if c.has(Lister) {
		if got := c.sessionIDs(k.ProjectKey); slices.Contains(got, k.SessionID) {
			c.Errorf("ListSessions(%q) = %q, want no %q", k.ProjectKey, got, k.SessionID)
		}
	}
	if c.has(Summaries) && len(c.summaries(k.ProjectKey)) != 0 {
		c.Errorf("ListSessionSummaries(%q) is not empty", k.ProjectKey)
	}
	if c.has(Subkeys) {
		if got := c.subkeys(k); len(got) != 0 {
			c.Errorf("ListSubkeys(%q, %q) = %q, want none", k.ProjectKey, k.SessionID, got)
		}
	}
	if c.has(Projects) {
		if got := c.projects(); slices.Contains(got, k.ProjectKey) {
			c.Errorf("ListProjects() = %q, want no %q", got, k.ProjectKey)
		}
	}
}

func (c *env) sessions(project string) []sessionstore.SessionInfo {
	c.Helper()
	got, err := sessionstore.ListSessions(c.Context(), c.store, project)
	if err != nil {
		c.Fatalf("ListSessions(%q) = %v, want no error", project, err)
	}
	return got
}

func (c *env) sessionIDs(project string) []string {
	c.Helper()
	ids := []string{}
	for _, s := range c.sessions(project) {
		ids = append(ids, s.SessionID)
	}
	return ids
}

// mtime returns the time of the case's session.
func (c *env) mtime() int64 {
	c.Helper()
	for _, s := range c.sessions(c.key.ProjectKey) {
		if s.SessionID == c.key.SessionID {
			return s.Mtime
		}
	}
	c.Fatalf("ListSessions(%q) has no %q", c.key.ProjectKey, c.key.SessionID)
	return 0
}

func (c *env) summaries(project string) []sessionstore.SessionSummary {
	c.Helper()
	got, err := sessionstore.ListSessionSummaries(c.Context(), c.store, project)
	if err != nil {
		c.Fatalf("ListSessionSummaries(%q) = %v, want no error", project, err)
	}
	return got
}

func (c *env) projects() []string {
	c.Helper()
	got, err := sessionstore.ListProjects(c.Context(), c.store)
	if err != nil {
		c.Fatalf("ListProjects() = %v, want no error", err)
	}
	return got
}

func (c *env) subkeys(k key) []string {
	c.Helper()
	got, err := sessionstore.ListSubkeys(c.Context(), c.store, k.ProjectKey, k.SessionID)
	if err != nil {
		c.Fatalf("ListSubkeys of %v = %v, want no error", k.Main(), err)
	}
	return got
}

func (c *env) delete(k key) {
	c.Helper()
	if err := sessionstore.Delete(c.Context(), c.store, k); err != nil {
		c.Fatalf("Delete(%v) = %v, want nil", k, err)
	}
}

func (c *env) stream(k key) []entry {
	c.Helper()
	var got []entry
	for e, err := range sessionstore.Stream(c.Context(), c.store, k) {
		if err != nil {
			c.Fatalf("Stream(%v) = %v after %d entries, want no error", k, err, len(got))
		}
		got = append(got, e)
	}
	return got
}

func (c *env) purge(olderThan time.Time) sessionstore.PurgeReport {
	c.Helper()
	report, err := sessionstore.Purge(c.Context(), c.store, olderThan)
	if err != nil {
		c.Fatalf("Purge(%v) = %v, want no error", olderThan, err)
	}
	return report
}

// named are the errors that the suite asks for, and how a store gets at them.
var named = map[error]string{
	sessionstore.ErrInvalidKey: "sessionstore.ErrInvalidKey (sessionstore.Check in Append, Key.Validate or " +
		"sessionstore.ValidateProjectKey elsewhere, return it)",
	sessionstore.ErrInvalidEntry: "sessionstore.ErrInvalidEntry (sessionstore.Check returns it)",
	context.Canceled:             "context.Canceled (ctx.Err returns it)",
}

func (c *env) wantError(call string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s = %v, want an error that wraps %s", call, err, named[want])
	}
}

func (c *env) wantStrings(call string, got, want []string) {
	c.Helper()
	same := 0
	for same < len(got) && same < len(want) && got[same] == want[same] {
		same++
	}
	if same < len(got) || same < len(want) {
		c.Errorf("%s = %q, want %q; the first %d are equal", call, got, want, same)
	}
}
