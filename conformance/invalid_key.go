package conformance

import (
	"strconv"
	"strings"

	"github.com/sessionstore/sessionstore"
)

const (
	invalidKeySentence = "Every operation, those of the optional interfaces too, refuses an invalid key with `ErrInvalidKey`."
	limitSentence      = "A key beyond a limit is refused with an error that names the limit."
)

// wantRefused checks that Append refuses keys.
func (c *env) wantRefused(keys ...key) {
	c.Helper()
	for _, k := range keys {
		err := c.store.Append(c.Context(), k, []entry{user("1")})
		c.wantError("Append to "+show(k), err, sessionstore.ErrInvalidKey)
	}
}

// wantRefusedFor checks that the error names the limit.
func (c *env) wantRefusedFor(limit int, keys ...key) {
	c.Helper()
	c.wantRefused(keys...)
	for _, k := range keys {
		err := c.store.Append(c.Context(), k, []entry{user("1")})
		if err != nil && !strings.Contains(err.Error(), strconv.Itoa(limit)) {
			c.Errorf("Append to %v = %v, want an error that names the limit %d", k, err, limit)
		}
	}
}

var invalidKeyCases = []testCase{
	{
		name:     "InvalidKey/Empty",
		contract: wholeBatchFails,
		run:      func(c *env) { c.wantRefused(key{}, key{ProjectKey: "p"}, key{SessionID: "s"}, key{Subpath: "a"}) },
	},
	{
		name:     "InvalidKey/NUL",
		contract: wholeBatchFails,
		run:      func(c *env) { c.wantRefused(everywhere("a\x00b")...) },
	},
	{
		name:     "InvalidKey/NotUTF8",
		contract: wholeBatchFails,
		run:      func(c *env) { c.wantRefused(append(everywhere("a\xff"), everywhere("\xed\xa0\x80")...)...) },
	},
	{
		name:     "InvalidKey/DotSegments",
		contract: wholeBatchFails,
		run: func(c *env) {
			for _, path := range []string{".", "..", "../x", "a/../b", "a/.", "a/..", "./a", "a/./b"} {
				c.wantRefused(c.sub(path))
			}
		},
	},
	{
		name:     "InvalidKey/EmptySegments",
		contract: wholeBatchFails,
		run: func(c *env) {
			for _, path := range []string{"/", "/a", "a/", "a//b", "//"} {
				c.wantRefused(c.sub(path))
			}
		},
	},
	{
		name:     "InvalidKey/WritesNothing",
		contract: wholeBatchFails,
		run: func(c *env) {
			// A store that cleans keys would write to the cleaned one.
			for _, path := range []string{"a/", "/a", "./a", "b/../a", "../" + c.key.SessionID, "a\x00", ".."} {
				_ = c.store.Append(c.Context(), c.sub(path), []entry{user("1")})
			}
			_ = c.store.Append(c.Context(), key{ProjectKey: c.key.ProjectKey}, []entry{user("1")})
			c.wantUnknown(c.key)
			c.wantUnknown(c.sub("a"))
			c.wantNowhere(c.key)
		},
	},
	{
		name:     "InvalidKey/EmptyBatch",
		contract: wholeBatchFails,
		run: func(c *env) {
			err := c.store.Append(c.Context(), key{}, nil)
			c.wantError("Append of an empty batch to an empty key", err, sessionstore.ErrInvalidKey)
		},
	},
	{
		name:     "InvalidKey/Load",
		contract: invalidKeySentence,
		run: func(c *env) {
			for _, k := range invalidKeys(c.key) {
				_, err := c.store.Load(c.Context(), k)
				c.wantError("Load of "+show(k), err, sessionstore.ErrInvalidKey)
			}
		},
	},
	{
		name:     "InvalidKey/Stream",
		contract: invalidKeySentence,
		needs:    Stream,
		run: func(c *env) {
			for _, k := range invalidKeys(c.key) {
				var last error
				for _, err := range sessionstore.Stream(c.Context(), c.store, k) {
					last = err
				}
				c.wantError("Stream of "+show(k), last, sessionstore.ErrInvalidKey)
			}
		},
	},
	{
		name:     "InvalidKey/Delete",
		contract: invalidKeySentence,
		needs:    Delete,
		run: func(c *env) {
			for _, k := range invalidKeys(c.key) {
				err := sessionstore.Delete(c.Context(), c.store, k)
				c.wantError("Delete of "+show(k), err, sessionstore.ErrInvalidKey)
			}
		},
	},
	{
		name:     "InvalidKey/ListSubkeys",
		contract: invalidKeySentence,
		needs:    Subkeys,
		run: func(c *env) {
			for _, k := range []key{{}, {ProjectKey: "p"}, {SessionID: "s"}, {ProjectKey: "p", SessionID: "\xff"}} {
				_, err := sessionstore.ListSubkeys(c.Context(), c.store, k.ProjectKey, k.SessionID)
				c.wantError("ListSubkeys of "+show(k), err, sessionstore.ErrInvalidKey)
			}
		},
	},
	{
		name:     "InvalidKey/ListSessions",
		contract: invalidKeySentence,
		needs:    Lister,
		run: func(c *env) {
			for _, project := range []string{"", "\xff", "a\x00", long(sessionstore.MaxSegmentLen + 1)} {
				_, err := sessionstore.ListSessions(c.Context(), c.store, project)
				c.wantError("ListSessions of "+showPart(project), err, sessionstore.ErrInvalidKey)
			}
		},
	},
	{
		name:     "InvalidKey/ListSessionSummaries",
		contract: invalidKeySentence,
		needs:    Summaries,
		run: func(c *env) {
			for _, project := range []string{"", "\xff", "a\x00", long(sessionstore.MaxSegmentLen + 1)} {
				_, err := sessionstore.ListSessionSummaries(c.Context(), c.store, project)
				c.wantError("ListSessionSummaries of "+showPart(project), err, sessionstore.ErrInvalidKey)
			}
		},
	},
}

var keyLimitCases = []testCase{
	{
		name:     "KeyLimit/LongestSegment",
		contract: "`MaxSegmentLen` limits the project key, the session id and each segment of the subpath.",
		run: func(c *env) {
			for i, k := range everywhere(long(sessionstore.MaxSegmentLen)) {
				c.append(k, user(strconv.Itoa(i)))
				c.wantLoad(k, user(strconv.Itoa(i)))
			}
		},
	},
	{
		name:     "KeyLimit/SegmentTooLong",
		contract: limitSentence,
		run: func(c *env) {
			c.wantRefusedFor(sessionstore.MaxSegmentLen, everywhere(long(sessionstore.MaxSegmentLen+1))...)
		},
	},
	{
		name:     "KeyLimit/LongestKey",
		contract: "`MaxKeyLen` limits the three parts of a key together, with one byte between two of them.",
		run: func(c *env) {
			k := keyOfLength(sessionstore.MaxKeyLen)
			c.append(k, user("1"))
			c.wantLoad(k, user("1"))
			if c.has(Subkeys) {
				c.wantStrings("ListSubkeys", c.subkeys(k), []string{k.Subpath})
			}
		},
	},
	{
		name:     "KeyLimit/KeyTooLong",
		contract: limitSentence,
		run:      func(c *env) { c.wantRefusedFor(sessionstore.MaxKeyLen, keyOfLength(sessionstore.MaxKeyLen+1)) },
	},
	{
		name:     "KeyLimit/EscapesCount",
		contract: "An ASCII letter, digit, `-`, `_` or `.` counts 1 and any other byte counts 3.",
		run: func(c *env) {
			const spaces = sessionstore.MaxSegmentLen / 3
			for i, k := range everywhere(strings.Repeat(" ", spaces)) {
				c.append(k, user(strconv.Itoa(i)))
				c.wantLoad(k, user(strconv.Itoa(i)))
			}
			c.wantRefusedFor(sessionstore.MaxSegmentLen, everywhere(strings.Repeat(" ", spaces+1))...)
		},
	},
}

// everywhere returns keys that hold s as project key, as session id, as
// subpath and as a segment of one.
func everywhere(s string) []key {
	return []key{
		{ProjectKey: s, SessionID: "s"},
		{ProjectKey: "p", SessionID: s},
		{ProjectKey: "p", SessionID: "s", Subpath: s},
		{ProjectKey: "p", SessionID: "s", Subpath: "a/" + s + "/b"},
	}
}

// invalidKeys are keys of each kind that no store can hold.
func invalidKeys(valid key) []key {
	return append(everywhere("a\x00b"),
		key{},
		key{ProjectKey: valid.ProjectKey},
		key{SessionID: valid.SessionID},
		key{ProjectKey: "\xff", SessionID: valid.SessionID},
		sub(valid, ".."),
		sub(valid, "a//b"),
		sub(valid, "a/"),
		session(valid, long(sessionstore.MaxSegmentLen+1)),
		keyOfLength(sessionstore.MaxKeyLen+1),
	)
}

func long(n int) string { return strings.Repeat("n", n) }

// keyOfLength returns a key whose parts have n bytes with what is between them.
func keyOfLength(n int) key {
	k := key{ProjectKey: long(200), SessionID: long(200)}
	rest := n - 402
	k.Subpath = long(rest/2) + "/" + long(rest-rest/2-1)
	return k
}
