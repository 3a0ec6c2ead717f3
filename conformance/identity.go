package conformance

import (
	"fmt"
	"strings"
)

const (
	repeatSentence   = "An entry whose uuid the transcript holds already is dropped; the first one stays, in its place."
	inBatchSentence  = "This counts inside one batch too."
	noUUIDSentence   = "Entries without uuid are never dropped for being equal to another."
	idFieldsSentence = "`message.id`, `requestId` and `messageId` are not identities."
	uuidKeySentence  = "A top-level `uuid` key is matched by exact case; the last one counts if it is repeated; an empty or non-string uuid is no identity."
	idScopeSentence  = "The scope is the key, never the session, the project or the store."
	uuidTextSentence = "Two uuids are the same if their decoded text is the same, byte by byte: letter case, spaces, NUL and lone surrogates count."
)

// wantOneOf appends each entry on its own and checks that only the first is
// kept.
func (c *env) wantOneOf(entries ...entry) {
	c.Helper()
	for _, e := range entries {
		c.append(c.key, e)
	}
	c.wantLoad(c.key, entries[0])
}

// wantAllOf appends each entry on its own, and again all in one batch to
// another key, and checks that none is dropped.
func (c *env) wantAllOf(entries ...entry) {
	c.Helper()
	for _, e := range entries {
		c.append(c.key, e)
	}
	c.wantLoad(c.key, entries...)
	c.append(c.sub("one-batch"), entries...)
	c.wantLoad(c.sub("one-batch"), entries...)
}

var identityCases = []testCase{
	{
		name:     "Identity/LaterBatch",
		contract: repeatSentence,
		run: func(c *env) {
			c.append(c.key, user("1"), user("2"))
			c.append(c.key, user("2"))
			c.append(c.key, user("1"))
			c.wantLoad(c.key, user("1"), user("2"))
		},
	},
	{
		name:     "Identity/OneBatch",
		contract: inBatchSentence,
		run: func(c *env) {
			c.append(c.key, user("1"), user("1"), user("2"), user("1"))
			c.wantLoad(c.key, user("1"), user("2"))
		},
	},
	{
		name:     "Identity/FirstStays",
		contract: repeatSentence,
		run: func(c *env) {
			c.append(c.key, userSays("1", "first"), user("2"))
			c.append(c.key, userSays("1", "second"), user("3"))
			c.wantLoad(c.key, userSays("1", "first"), user("2"), user("3"))
		},
	},
	{
		name:     "Identity/FirstStaysInBatch",
		contract: inBatchSentence,
		run: func(c *env) {
			c.append(c.key, userSays("1", "first"), user("2"), userSays("1", "second"), user("3"))
			c.wantLoad(c.key, userSays("1", "first"), user("2"), user("3"))
		},
	},
	{
		name:     "Identity/RestOfBatchStays",
		contract: repeatSentence,
		run: func(c *env) {
			c.append(c.key, user("1"), user("2"))
			c.append(c.key, user("2"), title("t"), user("1"), user("3"))
			c.wantLoad(c.key, user("1"), user("2"), title("t"), user("3"))
		},
	},
	{
		name:     "Identity/OnlyRepeats",
		contract: repeatSentence,
		run: func(c *env) {
			c.append(c.key, users("u", 3)...)
			c.append(c.key, users("u", 3)...)
			c.append(c.key, users("u", 3)...)
			c.wantLoad(c.key, users("u", 3)...)
			if c.has(Lister) {
				c.wantStrings("ListSessions", c.sessionIDs(c.key.ProjectKey), []string{c.key.SessionID})
			}
		},
	},
	{
		name:     "Identity/Subpath",
		contract: repeatSentence,
		run: func(c *env) {
			c.append(c.sub("a"), user("1"), user("1"))
			c.append(c.sub("a"), user("2"), user("1"))
			c.wantLoad(c.sub("a"), user("1"), user("2"))
		},
	},
	{
		name:     "Identity/AnyType",
		contract: repeatSentence,
		run: func(c *env) {
			for _, typ := range []string{`"type":"system",`, `"type":"progress",`, `"type":"tag",`, `"type":1,`, ``} {
				e := entry(fmt.Sprintf(`{%s"uuid":"of %d"}`, typ, len(typ)))
				k := session(c.key, fmt.Sprint("s", len(typ)))
				c.append(k, e)
				c.append(k, e)
				c.wantLoad(k, e)
			}
		},
	},
	{
		name:     "Identity/EqualWithoutUUID",
		contract: noUUIDSentence,
		run: func(c *env) {
			c.append(c.key, title("same"))
			c.append(c.key, title("same"))
			c.append(c.key, title("same"), user("1"))
			c.wantLoad(c.key, title("same"), title("same"), title("same"), user("1"))
		},
	},
	{
		name:     "Identity/EqualWithoutUUIDInBatch",
		contract: noUUIDSentence,
		run: func(c *env) {
			c.append(c.key, title("same"), title("same"), user("1"), title("same"))
			c.wantLoad(c.key, title("same"), title("same"), user("1"), title("same"))
		},
	},
	{
		name:     "Identity/KeyCase",
		contract: uuidKeySentence,
		run: func(c *env) {
			c.wantAllOf(entry(`{"UUID":"1","n":1}`), entry(`{"Uuid":"1","n":2}`), entry(`{"uuid":"1","n":3}`),
				entry(`{"uuid ":"1","n":4}`), entry(`{"UUID":"1","n":5}`))
		},
	},
	{
		name:     "Identity/ValueCase",
		contract: uuidTextSentence,
		run:      func(c *env) { c.wantAllOf(user("ab"), user("AB"), user("aB"), user(" ab"), user("ab ")) },
	},
	{
		name:     "Identity/EscapedKey",
		contract: uuidKeySentence,
		run: func(c *env) {
			c.wantOneOf(entry(`{"uuid":"1"}`), entry(`{"\u0075uid":"1","n":2}`), entry(`{"\u0075\u0075\u0069\u0064":"1"}`))
		},
	},
	{
		name:     "Identity/EscapedValue",
		contract: uuidTextSentence,
		run: func(c *env) {
			c.wantOneOf(entry(`{"uuid":"aé/😀"}`), entry(`{"uuid":"\u0061\u00e9\/\ud83d\ude00","n":2}`),
				entry(`{"uuid":"\u0061\u00E9/\uD83D\uDE00","n":3}`))
		},
	},
	{
		name:     "Identity/LastKeyCounts",
		contract: uuidKeySentence,
		run: func(c *env) {
			c.append(c.key, user("last"), user("first"))
			c.append(c.key, entry(`{"uuid":"first","uuid":"last","n":1}`))
			c.append(c.key, entry(`{"uuid":"first","uuid":"new","n":2}`))
			c.append(c.key, entry(`{"uuid":"first","uuid":7,"n":3}`))
			c.wantLoad(c.key, user("last"), user("first"), entry(`{"uuid":"first","uuid":"new","n":2}`),
				entry(`{"uuid":"first","uuid":7,"n":3}`))
		},
	},
	{
		name:     "Identity/LoneSurrogates",
		contract: uuidTextSentence,
		run: func(c *env) {
			c.wantAllOf(entry(`{"uuid":"\ud800"}`), entry(`{"uuid":"\ud801"}`), entry(`{"uuid":"\udc00"}`),
				entry(`{"uuid":"\ufffd"}`), entry(`{"uuid":"\udc00\ud800"}`))
		},
	},
	{
		name:     "Identity/NULInside",
		contract: uuidTextSentence,
		run: func(c *env) {
			c.wantAllOf(entry(`{"uuid":"a"}`), entry(`{"uuid":"a\u0000"}`), entry(`{"uuid":"a\u0000b"}`), entry(`{"uuid":"a\\u0000b"}`))
			c.append(c.key, entry(`{"uuid":"a\u0000b","n":2}`))
			if n := len(c.load(c.key)); n != 4 {
				c.Errorf("the repeat of a uuid with NUL was kept: %d entries, want 4", n)
			}
		},
	},
	{
		name:     "Identity/Empty",
		contract: uuidKeySentence,
		run:      func(c *env) { c.wantAllOf(user(""), user(""), user("1"), user("")) },
	},
	{
		name:     "Identity/NotString",
		contract: uuidKeySentence,
		run: func(c *env) {
			var all []entry
			for _, v := range []string{`7`, `null`, `true`, `["1"]`, `{"a":"1"}`, `1.50`} {
				e := entry(`{"uuid":` + v + `}`)
				all = append(all, e, e)
			}
			c.wantAllOf(all...)
		},
	},
	{
		name:     "Identity/Nested",
		contract: uuidKeySentence,
		run: func(c *env) {
			c.wantAllOf(entry(`{"message":{"uuid":"1"},"n":1}`), entry(`{"message":{"uuid":"1"},"n":2}`),
				entry(`{"a":[{"uuid":"1"}]}`), entry(`{"a":[{"uuid":"1"}]}`), entry(`{"text":"\"uuid\":\"1\""}`), user("1"))
		},
	},
	{
		name:     "Identity/OtherFields",
		contract: idFieldsSentence,
		run: func(c *env) {
			var all []entry
			for _, same := range []string{
				`"message":{"id":"m"}`, `"requestId":"r"`, `"messageId":"m"`, `"id":"i"`, `"sessionId":"s"`,
				`"parentUuid":"p"`, `"leafUuid":"l"`,
			} {
				all = append(all, entry(`{`+same+`,"uuid":"1 `+fmt.Sprint(len(all))+`"}`), entry(`{`+same+`}`), entry(`{`+same+`}`))
			}
			// A snapshot names the message that follows it.
			all = append(all, entry(`{"type":"file-history-snapshot","messageId":"next"}`), user("next"))
			c.wantAllOf(all...)
		},
	},
	{
		name:     "Identity/Long",
		contract: repeatSentence,
		run: func(c *env) {
			id := strings.Repeat("0123456789abcdef", c.size.id/16)
			c.wantAllOf(user(id+"a"), user(id+"b"), user("a"+id))
			c.append(c.key, userSays(id+"b", "repeat"))
			if n := len(c.load(c.key)); n != 3 {
				c.Errorf("the repeat of a uuid of %d bytes was kept: %d entries, want 3", len(id)+1, n)
			}
		},
	},
}

var identityScopeCases = []testCase{
	{
		name:     "IdentityScope/Subpaths",
		contract: idScopeSentence,
		run: func(c *env) {
			c.wantEverywhere(c.key, c.sub("a"), c.sub("a/b"), c.sub("b"))
		},
	},
	{
		name:     "IdentityScope/Sessions",
		contract: "A resumed copy of a session under another id keeps all its entries, although most have the same uuids.",
		run:      func(c *env) { c.wantEverywhere(c.key, session(c.key, "copy"), session(c.key, "copy2")) },
	},
	{
		name:     "IdentityScope/Projects",
		contract: idScopeSentence,
		run: func(c *env) {
			other := c.key
			other.ProjectKey = "other"
			c.wantEverywhere(c.key, other)
		},
	},
}

// wantEverywhere appends the same entries to several keys.
func (c *env) wantEverywhere(keys ...key) {
	c.Helper()
	for _, k := range keys {
		c.append(k, users("same", 3)...)
	}
	for _, k := range keys {
		c.wantLoad(k, users("same", 3)...)
	}
}
