package conformance

import (
	"strings"
)

const bytesSentence = "Entries are kept as the bytes they came in."

// kept is a kind of bytes that careless stores change.
type kept struct {
	name     string
	contract string
	entries  []entry
}

// values returns an entry for each JSON value, with the value at the top, in a
// nested object and in an array.
func values(vs ...string) []entry {
	var all []entry
	for _, v := range vs {
		all = append(all, entry(`{"type":"user","v":`+v+`,"o":{"a":{"b":`+v+`}},"l":[1,`+v+`,[`+v+`]]}`))
	}
	return all
}

// names returns an entry for each text between the quotes of a key.
func names(ks ...string) []entry {
	var all []entry
	for _, k := range ks {
		all = append(all, entry(`{"`+k+`":1,"o":{"`+k+`":{"`+k+`":2}},"l":[{"`+k+`":3}]}`))
	}
	return all
}

var keptBytes = []kept{
	{"BigIntegers", "Integers beyond 2^53 keep all digits.", values("9007199254740993", "-9007199254740993", "1234567890123456789", "18446744073709551616", "123456789012345678901234567890")},
	{"Fractions", "Fractions keep all digits: `1.0` does not become `1`.", values("1.0", "1.10", "0.1", "100.00", "3.141592653589793238462643383279")},
	{"Exponents", "Exponents stay as they are written, `1e400` and `1e-400` too.", values("1e400", "1e2", "1E2", "1e+2", "1e-400", "-1e200000", "5e-324", "0e0")},
	{"NegativeZero", "`-0.0` keeps its sign.", values("-0.0", "-0", "-0e0", "0.0")},
	{"RepeatedKeys", "Of repeated object keys every one stays.", []entry{
		entry(`{"k":1,"k":2,"type":"a","type":"b"}`), entry(`{"o":{"k":1,"k":1},"l":[{"k":{"k":1,"k":2},"k":null}]}`), entry(`{"k":1,"\u006b":2}`)}},
	{"KeyOrder", "Object keys keep their order.", []entry{
		entry(`{"z":1,"a":2,"m":{"z":1,"a":2},"10":1,"9":2,"":3}`), entry(`{"uuid":"1","type":"user"}`), entry(`{"type":"user","uuid":"2"}`)}},
	{"NULInValues", "`\\u0000` in a value stays.", values(`"\u0000"`, `"x\u0000y"`, `"\u0000\u0000"`, `"\u0001\u001f"`)},
	{"NULInKeys", "`\\u0000` in a key stays.", names(`a\u0000b`, `\u0000`, `a\u0000`)},
	{"LoneSurrogates", "A lone surrogate such as `\\ud83d` stays.", append(values(`"ok \ud83d"`, `"\udc00"`, `"\ud800x"`, `"\udc00\ud800"`, `"\ud99c \ubcf4"`, `"\uD83D"`), names(`\ud83d`)...)},
	{"SurrogatePairs", "An escape stays an escape and a raw character stays raw.", values(`"\ud83d\ude00"`, `"😀"`, `"\u00e9"`, `"é"`, `"\u0041"`, `"\/"`, `"/"`, `"\u002F"`)},
	{"LineSeparators", "Raw U+2028 and U+2029 stay raw.", append(values("\"a\u2028b\u2029c\""), names("\u2028")...)},
	{"HTML", "`<`, `>` and `&` stay as they are.", append(values(`"<script>&amp;</script>"`, `"\u003c\u003e\u0026"`), names(`<a>&`)...)},
	{"EscapedBackslashes", "`\\\\u0000` is a backslash and five characters, and not `\\u0000`.", append(values(`"x\\u0000y"`, `"\\\\u0000"`, `"\\\u0000"`, `"\\ud83d"`, `"C:\\new\\table"`), names(`a\\u0000b`)...)},
	{"Quotes", "Quotes, braces and placeholders in a string mean nothing to a store.", append(values(`"a\"b"`, `"{,}"`, `"\\"`, `"'"`, `"$1 :x ?"`, `"NULL"`, `"\b\f\n\r\t"`, `"%s%d"`, `"\"}{\""`), names(`a\"b`, `{}`, `'`)...)},
	{"Spaces", "Spaces and tabs between tokens stay.", []entry{
		entry(`{ "a" : 1 , "b" : [ 1 , 2 ] }`), entry(`  {"a":1}  `), entry("\t{\t\"a\"\t:\t1\t}\t"), entry(`{"a":  "  x  "}`)}},
	{"EmptyObject", "An entry without members is an entry.", []entry{entry(`{}`), entry(`{ }`), entry(`{"":{}}`), entry(`{"a":[],"b":{},"c":"","d":null}`)}},
	{"Scripts", "Text in any script stays, in the normal form it came in.", append(values(`"日本語 עברית العربية हिन्दी"`, "\"e\u0301 \u00e9 \u212b\"", "\"\u202e\ufeff\u200d\"", `"👩‍👩‍👧"`, "\"\U0010ffff\ue000\ufffd\uffff\"", "\"\u007f\u0080\""), names(`clé`, "e\u0301")...)},
	{"Lines", "An entry that looks like a line of some other format is an entry.", []entry{
		entry(`{"type":"transcript_mirror","filePath":"/x","entries":[{"type":"user","uuid":"1"}]}`), entry(`{"data":"a\nb\n{\"type\":\"x\"}"}`), entry(`{"_id":1,"position":2,"batch":"b"}`)}},
}

func bytesCases() []testCase {
	var all []testCase
	for _, k := range keptBytes {
		all = append(all, testCase{
			name:     "Bytes/" + k.name,
			contract: k.contract,
			run: func(c *env) {
				c.append(c.key, k.entries...)
				c.wantLoad(c.key, k.entries...)
				c.append(c.sub("a"), k.entries...)
				c.wantLoad(c.sub("a"), k.entries...)
			},
		})
	}
	return append(all, lineCases...)
}

var lineCases = []testCase{
	{
		name:     "Bytes/LineBreaks",
		contract: "Load gives the entry as it was appended or as `Entry.Line` makes it.",
		run: func(c *env) {
			given := []entry{
				entry("{\n  \"type\": \"user\",\r\n  \"a\": [\n 1,\n 2 ]\n}\n"), entry("\n{\"b\":\r1}"), entry(`{"c":"\n"}`),
			}
			c.append(c.key, given...)
			c.wantLoad(c.key, given...)
			c.append(c.sub("a"), user("before"), given[0], user("after"))
			c.wantLoad(c.sub("a"), user("before"), given[0], user("after"))
		},
	},
	{
		name:     "Bytes/SplitAtLineFeeds",
		contract: "A store that keeps lines splits them at 0x0A only: U+0085, U+2028 and U+2029 are text.",
		run: func(c *env) {
			// Each of these ends a line for some reader of text.
			batch := []entry{}
			for _, r := range "\u0085\u2028\u2029" {
				batch = append(batch, entry(`{"a":"`+string(r)+`{\"b\":1}`+string(r)+`"}`))
			}
			batch = append(batch, entry("{\"a\":1 , \t\"b\":2}"), entry("{\"a\":\"\x7f\"}"))
			for _, e := range batch {
				c.append(c.key, e)
			}
			c.wantLoad(c.key, batch...)
		},
	},
	{
		name:     "Bytes/LongText",
		contract: bytesSentence,
		run: func(c *env) {
			for _, unit := range []string{`\u0000`, `\\`, `\ud83d`, "é", `\"`} {
				e := entry(`{"a":"` + strings.Repeat(unit, c.size.text/len(unit)) + `"}`)
				k := sub(c.key, "a")
				k.SessionID = unit
				c.append(k, e)
				c.wantLoad(k, e)
			}
		},
	},
}
