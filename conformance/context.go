package conformance

import (
	"context"
	"time"

	"github.com/sessionstore/sessionstore"
)

const cancelledSentence = "An operation whose context is cancelled before it begins fails with the error of the context and changes nothing."

// cancelled returns a context that is over.
func (c *env) cancelled() context.Context {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	return ctx
}

// future is later than the time of any session.
func future() time.Time { return time.Now().Add(24 * time.Hour) }

var contextCases = []testCase{
	{
		name:     "Context/Append",
		contract: cancelledSentence,
		run: func(c *env) {
			err := c.store.Append(c.cancelled(), c.key, users("u", 2))
			c.wantError("Append with a cancelled context", err, context.Canceled)
			c.wantUnknown(c.key)
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "Context/Load",
		contract: cancelledSentence,
		run: func(c *env) {
			c.append(c.key, user("1"))
			_, err := c.store.Load(c.cancelled(), c.key)
			c.wantError("Load with a cancelled context", err, context.Canceled)
			_, err = c.store.Load(c.cancelled(), c.sub("unknown"))
			c.wantError("Load of an unknown key with a cancelled context", err, context.Canceled)
		},
	},
	{
		name:     "Context/ListSessions",
		contract: cancelledSentence,
		needs:    Lister,
		run: func(c *env) {
			_, err := sessionstore.ListSessions(c.cancelled(), c.store, c.key.ProjectKey)
			c.wantError("ListSessions with a cancelled context", err, context.Canceled)
		},
	},
	{
		name:     "Context/ListSessionSummaries",
		contract: cancelledSentence,
		needs:    Summaries,
		run: func(c *env) {
			_, err := sessionstore.ListSessionSummaries(c.cancelled(), c.store, c.key.ProjectKey)
			c.wantError("ListSessionSummaries with a cancelled context", err, context.Canceled)
		},
	},
	{
		name:     "Context/ListProjects",
		contract: cancelledSentence,
		needs:    Projects,
		run: func(c *env) {
			_, err := sessionstore.ListProjects(c.cancelled(), c.store)
			c.wantError("ListProjects with a cancelled context", err, context.Canceled)
		},
	},
	{
		name:     "Context/ListSubkeys",
		contract: cancelledSentence,
		needs:    Subkeys,
		run: func(c *env) {
			_, err := sessionstore.ListSubkeys(c.cancelled(), c.store, c.key.ProjectKey, c.key.SessionID)
			c.wantError("ListSubkeys with a cancelled context", err, context.Canceled)
		},
	},
	{
		name:     "Context/Delete",
		contract: cancelledSentence,
		needs:    Delete,
		run: func(c *env) {
			c.append(c.key, user("1"))
			err := sessionstore.Delete(c.cancelled(), c.store, c.key)
			c.wantError("Delete with a cancelled context", err, context.Canceled)
			c.wantLoad(c.key, user("1"))
		},
	},
	{
		name:     "Context/Stream",
		contract: cancelledSentence,
		needs:    Stream,
		run: func(c *env) {
			c.append(c.key, user("1"))
			var last error
			for _, err := range sessionstore.Stream(c.cancelled(), c.store, c.key) {
				last = err
			}
			c.wantError("Stream with a cancelled context", last, context.Canceled)
		},
	},
	{
		name:     "Context/Purge",
		contract: cancelledSentence,
		needs:    Purge,
		run: func(c *env) {
			c.append(c.key, user("1"))
			report, err := sessionstore.Purge(c.cancelled(), c.store, future())
			c.wantError("Purge with a cancelled context", err, context.Canceled)
			if report != (sessionstore.PurgeReport{}) {
				c.Errorf("Purge with a cancelled context = %+v, want a report of nothing", report)
			}
			c.wantLoad(c.key, user("1"))
		},
	},
}
