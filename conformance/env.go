package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// wantLoad checks that the transcript holds exactly these bytes.
func (c *env) wantLoad(k key, want ...entry) {
	c.Helper()
	if d := diff(c.load(k), want); d != "" {
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
		c.Fatalf("ListSubkeys(%q, %q) = %v, want no error", k.ProjectKey, k.SessionID, err)
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

func (c *env) wantError(call string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s = %v, want an error that wraps %q", call, err, want)
	}
}

func (c *env) wantStrings(call string, got, want []string) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("%s = %q, want %q", call, got, want)
	}
}

// diff says how two transcripts differ, or nothing.
func diff(got, want []entry) string {
	same := 0
	for same < len(got) && same < len(want) && string(got[same]) == string(want[same]) {
		same++
	}
	if same == len(got) && same == len(want) {
		return ""
	}
	return fmt.Sprintf("%s,\nwant %s;\nthe first %d are equal, after them got %s, want %s",
		brief(got), brief(want), same, at(got, same), at(want, same))
}

func at(entries []entry, i int) string {
	if i >= len(entries) {
		return "nothing"
	}
	return clip(entries[i], 300)
}

// brief shows entries in a line of bearable length.
func brief(entries []entry) string {
	const most = 6
	if entries == nil {
		return "nil"
	}
	var shown []string
	for _, e := range entries[:min(len(entries), most)] {
		shown = append(shown, clip(e, 60))
	}
	if n := len(entries) - most; n > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("%d entries [%s]", len(entries), strings.Join(shown, " "))
}

func clip(e entry, most int) string {
	if len(e) <= most {
		return fmt.Sprintf("%+q", string(e))
	}
	return fmt.Sprintf("%+q… (%d bytes)", string(e[:most]), len(e))
}
