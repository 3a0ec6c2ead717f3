package conformance

import (
	"errors"

	"github.com/sessionstore/sessionstore"
)

const outageSentence = `An outage, a truncated body or a missing part is an error, never "unknown" and never a shorter transcript.`

// wantFailure checks for an error that blames the backend, not the caller.
func (c *env) wantFailure(call string, err error) {
	c.Helper()
	switch {
	case err == nil:
		c.Errorf("%s = no error, want one", call)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, sessionstore.ErrInvalidKey),
		errors.Is(err, sessionstore.ErrInvalidEntry), errors.Is(err, sessionstore.ErrNotFound):
		c.Errorf("%s = %v, want the error of the backend", call, err)
	}
}

// drain reads a stream to its first error.
func (c *env) drain(k key) error {
	for _, err := range sessionstore.Stream(c.Context(), c.store, k) {
		if err != nil {
			return err
		}
	}
	return nil
}

// cutOff stores something and takes the backend away.
func (c *env) cutOff() {
	c.Helper()
	c.append(c.key, users("u", 3)...)
	c.append(c.sub("a"), user("1"))
	c.h.Outage(c, c.store)
}

var outageCases = []testCase{
	{
		name:     "Outage/Append",
		contract: wholeSentence,
		needs:    Outage,
		run: func(c *env) {
			c.cutOff()
			c.wantFailure("Append during an outage", c.store.Append(c.Context(), c.key, []entry{user("new")}))
		},
	},
	{
		name:     "Outage/Load",
		contract: outageSentence,
		needs:    Outage,
		run: func(c *env) {
			c.cutOff()
			for _, k := range []key{c.key, c.sub("a"), c.sub("unknown")} {
				_, err := c.store.Load(c.Context(), k)
				c.wantFailure("Load of "+show(k)+" during an outage", err)
			}
		},
	},
	{
		name:     "Outage/Stream",
		contract: outageSentence,
		needs:    Outage | Stream,
		run: func(c *env) {
			c.cutOff()
			c.wantFailure("Stream during an outage", c.drain(c.key))
			c.wantFailure("Stream of an unknown key during an outage", c.drain(c.sub("unknown")))
		},
	},
	{
		name:     "Outage/ListSessions",
		contract: outageSentence,
		needs:    Outage | Lister,
		run: func(c *env) {
			c.cutOff()
			_, err := sessionstore.ListSessions(c.Context(), c.store, c.key.ProjectKey)
			c.wantFailure("ListSessions during an outage", err)
		},
	},
	{
		name:     "Outage/ListSessionSummaries",
		contract: outageSentence,
		needs:    Outage | Summaries,
		run: func(c *env) {
			c.cutOff()
			_, err := sessionstore.ListSessionSummaries(c.Context(), c.store, c.key.ProjectKey)
			c.wantFailure("ListSessionSummaries during an outage", err)
		},
	},
	{
		name:     "Outage/ListProjects",
		contract: outageSentence,
		needs:    Outage | Projects,
		run: func(c *env) {
			c.cutOff()
			_, err := sessionstore.ListProjects(c.Context(), c.store)
			c.wantFailure("ListProjects during an outage", err)
		},
	},
	{
		name:     "Outage/ListSubkeys",
		contract: outageSentence,
		needs:    Outage | Subkeys,
		run: func(c *env) {
			c.cutOff()
			_, err := sessionstore.ListSubkeys(c.Context(), c.store, c.key.ProjectKey, c.key.SessionID)
			c.wantFailure("ListSubkeys during an outage", err)
		},
	},
	{
		name:     "Outage/Delete",
		contract: outageSentence,
		needs:    Outage | Delete,
		run: func(c *env) {
			c.cutOff()
			c.wantFailure("Delete during an outage", sessionstore.Delete(c.Context(), c.store, c.key))
		},
	},
	{
		name:     "Outage/Purge",
		contract: "When it fails or is cancelled the report says what had been deleted by then.",
		needs:    Outage | Purge,
		run: func(c *env) {
			c.cutOff()
			report, err := sessionstore.Purge(c.Context(), c.store, future())
			c.wantFailure("Purge during an outage", err)
			if report != (sessionstore.PurgeReport{}) {
				c.Errorf("Purge during an outage reports %+v, want nothing", report)
			}
		},
	},
}

// damage stores several batches and takes a part of them away.
func (c *env) damage(k key) {
	c.Helper()
	for _, e := range users("u", 6) {
		c.append(k, e)
	}
	c.h.Damage(c, c.store, k)
}

var damageCases = []testCase{
	{
		name:     "Damage/Load",
		contract: outageSentence,
		needs:    Damage,
		run: func(c *env) {
			for _, k := range []key{c.key, c.sub("a")} {
				c.damage(k)
				got, err := c.store.Load(c.Context(), k)
				c.wantFailure("Load of a damaged transcript", err)
				if err != nil && len(got) != 0 {
					c.Errorf("Load of a damaged transcript gives %s beside its error", brief(got))
				}
			}
		},
	},
	{
		name:     "Damage/Stream",
		contract: outageSentence,
		needs:    Damage | Stream,
		run: func(c *env) {
			c.damage(c.key)
			c.wantFailure("Stream of a damaged transcript", c.drain(c.key))
		},
	},
	{
		name:     "Damage/Delete",
		contract: "What cannot be read can still be deleted, and written anew.",
		needs:    Damage | Delete,
		run: func(c *env) {
			// What cannot be read can still be deleted, and written anew.
			c.damage(c.key)
			c.delete(c.key)
			c.wantUnknown(c.key)
			c.append(c.key, users("u", 6)...)
			c.wantLoad(c.key, users("u", 6)...)
		},
	},
}
