package conformance

import (
	"time"

	"github.com/sessionstore/sessionstore"
)

const (
	purgeSentence  = "Purge deletes whole sessions whose time, as ListSessions gives it, is before olderThan."
	reportSentence = "The report says what had been deleted: whole sessions, and the main and subpath transcripts among them."
)

// oldAndNew writes sessions until the time of "new" is behind that of "old",
// and returns the time of "new".
func (c *env) oldAndNew() time.Time {
	c.Helper()
	c.append(session(c.key, "old"), user("1"))
	c.append(sub(session(c.key, "old"), "a"), user("1"))
	c.append(sub(session(c.key, "old"), "a/b"), user("1"))
	times := map[string]int64{}
	for deadline := time.Now().Add(3 * time.Second); times["new"] <= times["old"] && time.Now().Before(deadline); {
		c.tick()
		c.append(session(c.key, "new"), title("t"))
		for _, s := range c.sessions(c.key.ProjectKey) {
			times[s.SessionID] = s.Mtime
		}
	}
	c.append(sub(session(c.key, "new"), "a"), user("2"))
	return time.UnixMilli(times["new"])
}

var purgeCases = []testCase{
	{
		name:     "Purge/OnlyOlder",
		contract: purgeSentence,
		needs:    Purge | Lister,
		run: func(c *env) {
			limit := c.oldAndNew()
			want := c.load(session(c.key, "new"))
			c.purge(limit)
			c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{"new"})
			c.wantUnknown(session(c.key, "old"))
			c.wantLoad(session(c.key, "new"), want...)
			c.wantLoad(sub(session(c.key, "new"), "a"), user("2"))
		},
	},
	{
		name:     "Purge/WholeSessions",
		contract: purgeSentence,
		needs:    Purge,
		run: func(c *env) {
			for _, path := range []string{"", "a", "a/b"} {
				c.append(c.sub(path), user("1"))
			}
			c.purge(future())
			for _, path := range []string{"", "a", "a/b"} {
				c.wantUnknown(c.sub(path))
			}
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Purge/Report",
		contract: reportSentence,
		needs:    Purge | Lister,
		run: func(c *env) {
			limit := c.oldAndNew()
			if got, want := c.purge(limit), (sessionstore.PurgeReport{Sessions: 1, Transcripts: 3}); got != want {
				c.Errorf("Purge = %+v, want %+v", got, want)
			}
			if got, want := c.purge(limit), (sessionstore.PurgeReport{}); got != want {
				c.Errorf("a second Purge = %+v, want %+v", got, want)
			}
		},
	},
	{
		name:     "Purge/AllProjects",
		contract: purgeSentence,
		needs:    Purge,
		run: func(c *env) {
			keys := []key{in("p", "s", ""), in("q", "s", ""), in("q", "t", ""), in("r/s", "s", "")}
			for _, k := range keys {
				c.append(k, user("1"))
			}
			c.purge(future())
			for _, k := range keys {
				c.wantUnknown(k)
			}
		},
	},
	{
		name:     "Purge/NothingOlder",
		contract: purgeSentence,
		needs:    Purge,
		run: func(c *env) {
			c.append(c.key, user("1"))
			c.append(c.sub("a"), user("1"))
			for _, t := range []time.Time{{}, time.UnixMilli(0), time.Now().Add(-365 * 24 * time.Hour)} {
				if got := c.purge(t); got != (sessionstore.PurgeReport{}) {
					c.Errorf("Purge of what is older than %v = %+v, want nothing", t, got)
				}
			}
			c.wantLoad(c.key, user("1"))
			c.wantLoad(c.sub("a"), user("1"))
		},
	},
	{
		name:     "Purge/SameUUIDs",
		contract: recreateSentence,
		needs:    Purge,
		run: func(c *env) {
			for range 2 {
				c.append(c.key, users("u", 2)...)
				c.append(c.sub("a"), users("u", 2)...)
				c.wantLoad(c.key, users("u", 2)...)
				c.wantLoad(c.sub("a"), users("u", 2)...)
				c.purge(future())
			}
		},
	},
}
