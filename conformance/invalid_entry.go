package conformance

import (
	"bytes"
	"fmt"

	"github.com/sessionstore/sessionstore"
)

const (
	rejectedSentence = "An entry is refused with `ErrInvalidEntry` if it is not JSON, not an object, not valid UTF-8, nested too deep or too long."
	wholeBatchFails  = "An invalid key or entry fails the whole batch before anything is written: the error wraps `ErrInvalidKey` or `ErrInvalidEntry`."
	deepestLevel     = 10_000
)

var notJSON = []entry{
	nil,
	entry(``),
	entry(` `),
	entry(`{`),
	entry(`{"a":1`),
	entry(`{"a":"x`),
	entry(`{"a":1,}`),
	entry(`{"a":[1,]}`),
	entry(`{a:1}`),
	entry(`{'a':1}`),
	entry(`{"a":NaN}`),
	entry(`{"a":01}`),
	entry(`{"a":.5}`),
	entry(`{"a":+1}`),
	entry(`{"a":True}`),
	entry(`{"a":"\x41"}`),
	entry(`{"a":"\u12"}`),
	entry("{\"a\":\"tab\there\"}"),
	entry("{\"a\":\"line\nbreak\"}"),
	entry(`{"a":1} {"b":2}`),
	entry(`{"a":1}x`),
	entry("{\"a\":1}\x00"),
	entry("\xEF\xBB\xBF{\"a\":1}"),
	entry("{\"a\":1}\u00A0"),
	entry(`{"a":1 /* comment */}`),
}

var notObjects = []entry{
	entry(`null`), entry(`true`), entry(`42`), entry(`-1.5e3`), entry(`"text"`), entry(`[]`), entry(`[{"a":1}]`),
}

var notUTF8 = []entry{
	entry("{\"a\":\"\xff\"}"),
	entry("{\"a\xc3\":1}"),
	entry("{\"a\":\"\xc3\"}"),
	entry("{\"a\":\"\xc0\x80\"}"),
	entry("{\"a\":\"\xed\xa0\xbd\"}"),     // a surrogate
	entry("{\"a\":\"\xf4\x90\x80\x80\"}"), // beyond U+10FFFF
}

// wantRejected checks that an entry makes Append fail.
func (c *env) wantRejected(entries ...entry) {
	c.Helper()
	for _, e := range entries {
		err := c.store.Append(c.Context(), c.key, []entry{e})
		c.wantError("Append of the entry "+clip(e, 80), err, sessionstore.ErrInvalidEntry)
	}
}

var invalidEntryCases = []testCase{
	{
		name:     "InvalidEntry/NotJSON",
		contract: rejectedSentence,
		run:      func(c *env) { c.wantRejected(notJSON...) },
	},
	{
		name:     "InvalidEntry/NotObject",
		contract: rejectedSentence,
		run:      func(c *env) { c.wantRejected(notObjects...) },
	},
	{
		name:     "InvalidEntry/NotUTF8",
		contract: rejectedSentence,
		run:      func(c *env) { c.wantRejected(notUTF8...) },
	},
	{
		name:     "InvalidEntry/TooDeep",
		contract: rejectedSentence,
		run:      func(c *env) { c.wantRejected(nested(deepestLevel + 1)) },
	},
	{
		name:     "InvalidEntry/DeepestIsValid",
		contract: "An entry may be nested 10,000 levels deep, itself included.",
		run: func(c *env) {
			c.append(c.key, nested(deepestLevel))
			c.wantLoad(c.key, nested(deepestLevel))
		},
	},
	{
		name:     "InvalidEntry/TooLong",
		contract: "The longest entry that stores accept has 268,435,456 bytes.",
		run: func(c *env) {
			if c.size.tooLong == 0 {
				c.Skip("needs an entry of 256 MiB")
			}
			e := bytes.Repeat([]byte("x"), c.size.tooLong)
			copy(e, `{"a":"`)
			copy(e[len(e)-2:], `"}`)
			c.wantRejected(e)
		},
	},
	{
		name:     "InvalidEntry/WritesNothing",
		contract: wholeBatchFails,
		run: func(c *env) {
			c.appendInvalid(func(k key) {
				c.wantUnknown(k)
				c.wantNowhere(k)
			})
		},
	},
	{
		name:     "InvalidEntry/LeavesTranscript",
		contract: wholeBatchFails,
		run: func(c *env) {
			c.appendInvalid(func(k key) {
				// The good neighbours of the invalid entry are not held back.
				c.append(k, user("a"), title("t"), user("b"))
				c.wantLoad(k, user("a"), title("t"), user("b"))
			})
		},
	},
}

// appendInvalid appends batches in which one entry is invalid, at each place
// and each to another project, and calls check after each that failed. That
// they fail is the subject of other cases.
func (c *env) appendInvalid(check func(k key)) {
	c.Helper()
	for i, bad := range []entry{notJSON[3], notObjects[0], notUTF8[0], nested(deepestLevel + 1)} {
		for j, batch := range [][]entry{
			{user("a"), title("t"), bad, user("b")},
			{bad, user("a"), user("b")},
			{user("a"), user("b"), bad},
		} {
			k := in(fmt.Sprintf("p%d%d", i, j), fmt.Sprintf("s%d%d", i, j), "")
			if c.store.Append(c.Context(), k, batch) != nil {
				check(k)
			}
			if c.Failed() {
				c.Fatalf("a batch with the invalid entry %s was not refused as a whole", clip(bad, 40))
			}
		}
	}
}
