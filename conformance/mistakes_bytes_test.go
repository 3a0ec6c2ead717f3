package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// rewriting changes the bytes of entries that are given away.
func rewriting(f func(e entry) entry) func(*testStore) {
	return func(s *testStore) { s.give = func(e entry) entry { return f(slices.Clone(e)) } }
}

// changes are what stores do to bytes, reduced to one text each.
var changes = []struct{ name, old, new string }{
	{"BigIntegers", "9007199254740993", "9007199254740992"},
	{"Fractions", "3.141592653589793238462643383279", "3.141592653589793"},
	{"Exponents", "1e+2", "100"},
	{"NegativeZero", "-0.0", "0.0"},
	{"RepeatedKeys", `"k":1,"k":2`, `"k":2`},
	{"KeyOrder", `"z":1,"a":2`, `"a":2,"z":1`},
	{"NULInValues", `x\u0000y`, `xy`},
	{"NULInKeys", `"a\u0000b":`, `"ab":`},
	{"LoneSurrogates", `ok \ud83d`, "ok \ufffd"},
	{"SurrogatePairs", `\ud83d\ude00`, "😀"},
	{"LineSeparators", "a\u2028b", `a\u2028b`},
	{"HTML", `<script>`, `\u003cscript\u003e`},
	{"EscapedBackslashes", `x\\u0000y`, `x\u0000y`},
	{"Quotes", `$1 :x ?`, `NULL`},
	{"EmptyObject", `{ }`, `{}`},
	{"Scripts", "e\u0301", "\u00e9"},
	{"Lines", `"_id":1,`, ``},
}

func bytesMistakes() []mistake {
	var all []mistake
	for _, c := range changes {
		all = append(all, mistake{
			name: "changes " + c.name,
			want: []string{"Bytes/" + c.name},
			make: rewriting(func(e entry) entry { return bytes.ReplaceAll(e, []byte(c.old), []byte(c.new)) }),
		})
	}
	return append(all, moreBytesMistakes...)
}

var moreBytesMistakes = []mistake{
	{name: "trims entries", want: []string{"Bytes/Spaces"}, make: rewriting(func(e entry) entry { return bytes.TrimSpace(e) })},
	{name: "compacts entries", want: []string{"Bytes/Spaces", "Bytes/EmptyObject", "Bytes/LineBreaks", "Bytes/SplitAtLineFeeds"}, make: rewriting(func(e entry) entry {
		var b bytes.Buffer
		_ = json.Compact(&b, e)
		return b.Bytes()
	})},
	{name: "encodes entries anew", broad: true, want: []string{
		"Bytes/BigIntegers", "Bytes/Fractions", "Bytes/Exponents", "Bytes/NegativeZero", "Bytes/RepeatedKeys",
		"Bytes/KeyOrder", "Bytes/LoneSurrogates", "Bytes/SurrogatePairs", "Bytes/LineSeparators", "Bytes/HTML",
		"Bytes/Spaces",
	},
		make: rewriting(func(e entry) entry {
			var v any
			if json.Unmarshal(e, &v) != nil {
				return e
			}
			b, _ := json.Marshal(v)
			return b
		})},
	{name: "puts spaces for line breaks", want: []string{"Bytes/LineBreaks"}, make: func(s *testStore) {
		s.keep = func(e entry) entry { return bytes.ReplaceAll(e, []byte("\n"), []byte(" ")) }
	}},
	{name: "cuts entries at line breaks", want: []string{"Bytes/LineBreaks"}, make: func(s *testStore) {
		s.keep = func(e entry) entry { first, _, _ := bytes.Cut(e, []byte("\n")); return slices.Clone(first) }
	}},
	{name: "splits at all line ends of Unicode", want: []string{"Bytes/SplitAtLineFeeds", "Bytes/LineSeparators", "Bytes/Scripts?"},
		make: afterLoad(func(_ key, got []entry) []entry {
			var lines []entry
			for _, e := range got {
				for _, l := range bytes.FieldsFunc(e, func(r rune) bool { return r == '\u0085' || r == '\u2028' || r == '\u2029' }) {
					lines = append(lines, l)
				}
			}
			if got == nil {
				return nil
			}
			return lines
		})},
	{name: "cuts long text", want: []string{"Bytes/LongText"}, make: rewriting(func(e entry) entry {
		if len(e) > 5_000 && len(e) < 10_000 {
			e = e[:5_000]
		}
		return e
	})},
	{name: "cuts huge entries", want: []string{"Size/HugeEntry"}, make: rewriting(func(e entry) entry { return e[:min(len(e), 32<<10)] })},
}

func naming(f func(k key) string) func(*testStore) { return func(s *testStore) { s.name = f } }

// eachPart names a transcript after its parts, each changed by f.
func eachPart(f func(s string) string) func(*testStore) {
	return naming(func(k key) string { return fmt.Sprintf("%q %q %q", f(k.ProjectKey), f(k.SessionID), f(k.Subpath)) })
}

var keyMistakes = []mistake{
	{name: "joins with colons", want: []string{
		"Keys/Joined",
	}, make: naming(func(k key) string { return k.ProjectKey + ":" + k.SessionID + ":" + k.Subpath })},
	{name: "joins with dashes", want: []string{
		"Keys/Joined",
	}, make: naming(func(k key) string { return fmt.Sprintf("%q", k.ProjectKey+"-"+k.SessionID) + k.Subpath })},
	{name: "joins with slashes", want: []string{
		"Keys/Slashes",
	}, make: naming(func(k key) string { return k.ProjectKey + "/" + k.SessionID + "/" + k.Subpath })},
	{name: "deletes by prefix", want: []string{"Keys/[^C]*"}, make: func(s *testStore) {
		s.cascade = func(d, k key) bool {
			return d == k || d.Subpath == "" && d.ProjectKey == k.ProjectKey && strings.HasPrefix(k.SessionID, d.SessionID)
		}
	}},
	{name: "deletes numbered sessions too", want: []string{"Keys/Prefixes", "Keys/Flags", "Keys/Escapes"}, make: func(s *testStore) {
		s.cascade = func(d, k key) bool {
			rest, ok := strings.CutPrefix(k.SessionID, d.SessionID)
			_, err := strconv.Atoi(rest)
			return d == k || d.Subpath == "" && d.ProjectKey == k.ProjectKey && ok && (rest == "" || err == nil)
		}
	}},
	{name: "deletes by pattern", want: []string{"Keys/Patterns", "Keys/Quotes"}, make: func(s *testStore) {
		s.cascade = func(d, k key) bool {
			ok, _ := path.Match(d.SessionID, k.SessionID)
			return d == k || d.Subpath == "" && d.ProjectKey == k.ProjectKey && (ok || d.SessionID == k.SessionID)
		}
	}},
	{name: "folds case", want: []string{
		"Keys/LetterCase", "Keys/UnicodeForms", "Keys/Escapes", "Keys/Flags", "ListProjects/Sorted",
	}, make: eachPart(strings.ToLower)},
	{name: "composes letters", want: []string{
		"Keys/UnicodeForms",
	}, make: eachPart(func(s string) string { return strings.ReplaceAll(s, "e\u0301", "\u00e9") })},
	{name: "drops braces", want: []string{"Keys/HashTags", "Keys/Flags"}, make: eachPart(func(s string) string { return strings.Trim(s, "{}") })},
	{name: "unescapes percent signs", want: []string{"Keys/Escapes"}, make: eachPart(func(s string) string {
		if u, err := url.PathUnescape(s); err == nil {
			return u
		}
		return s
	})},
	{name: "has an index beside sessions", want: []string{
		"Keys/Reserved",
	}, make: eachPart(func(s string) string { return strings.TrimPrefix(s, "__") })},
	{name: "takes file suffixes off", want: []string{
		"Keys/FileNames",
	}, make: eachPart(func(s string) string { return strings.TrimSuffix(s, ".jsonl") })},
	{name: "drops trailing dots", want: []string{"Keys/Dots"}, make: eachPart(func(s string) string { return strings.TrimRight(s, ".") })},
	{name: "trims space", want: []string{"Keys/Spaces", "Keys/Controls"}, make: eachPart(strings.TrimSpace)},
	{name: "takes backslashes for slashes", want: []string{
		"Keys/Quotes",
	}, make: eachPart(func(s string) string { return strings.ReplaceAll(s, `\\`, `\`) })},
	{name: "reads names as numbers", want: []string{"Keys/Flags"}, make: eachPart(func(s string) string {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return fmt.Sprint(f)
		}
		return s
	})},
	{name: "writes question marks for letters", want: []string{
		"Keys/Scripts", "Keys/LetterCase", "Keys/UnicodeForms", "Keys/Spaces", "Keys/Controls",
	}, make: eachPart(func(s string) string {
		return strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII {
				return '?'
			}
			return r
		}, s)
	})},
	{name: "drops control characters", want: []string{"Keys/Controls", "Keys/Spaces"}, make: eachPart(func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return '_'
			}
			return r
		}, s)
	})},
	{name: "hides names with underscores", want: []string{"Keys/Reserved"}, make: func(s *testStore) {
		afterSessions(dropInfos(func(id string) bool { return strings.HasPrefix(id, "__") }))(s)
	}},
}
