package conformance

import (
	"fmt"
	"maps"
	"slices"
)

const isolationSentence = "Two transcripts never mix."

// family is a set of names that some backend might take for one another. Each
// name is used as project key, as session id and, if it can be, as subpath.
type family struct {
	name  string
	names []string
	extra []key
	// twins differ only in letter case or in Unicode normal form.
	twins bool
}

var families = []family{
	{name: "Prefixes", names: []string{"s", "s1", "s10", "s-1", "s.1", "s_", "ss"}},
	{name: "Joined", names: []string{"a:b", "a", "b", "a|b", "a#b", "a,b", "a;b", "a=b", "a::b", "a--b"}, extra: []key{
		in("p", "a:b", "c"), in("p", "a", "b:c"), in("p:a", "b", "c"), in("p:a", "b:c", ""), in("p", "a:b:c", ""), in("p", "a|b", "c"), in("p", "a", "b|c"),
		in("p-a", "b", ""), in("p", "a-b", ""), in("p#a", "b", ""), in("p", "a", "b#c"), in("p", "a#b", "c"), in("p a", "b", ""), in("p", "a b", "")}},
	{name: "Slashes", names: []string{"a", "a/b", "a/b/c", "/a", "a/", "/", "//", "a//b"}, extra: []key{
		in("q", "x/y", ""), in("q/x", "y", ""), in("q", "x", "y"), in("q/x/y", "z", ""), in("q", "x", "y/z"), in("q/x", "y/z", ""), in("q", "x/y", "z")}},
	{name: "LetterCase", names: []string{"name", "Name", "NAME", "straße", "STRASSE", "İ", "ı", "K", "\u212a"}, twins: true},
	{name: "UnicodeForms", names: []string{"\u00e9", "e\u0301", "\u00c5", "\u212b", "A\u030a", "\ufb01", "fi", "\uff21", "A", "\u1e69", "s\u0323\u0307", "s\u0307\u0323"}, twins: true},
	{name: "Patterns", names: []string{"*", "a*", "?", "a?c", "abc", "[ab]", "a", "b", "{a,b}", "x\\*", "%", "a%", "_", "a_c", "a.c", ".*", "^a", "(a)"}},
	{name: "HashTags", names: []string{"{x}", "x", "}{", "{}", "{a}b", "{a}c", "{", "}", "{{x}}"}},
	{name: "Escapes", names: []string{"%", "%25", "%2F", "%2f", "a%2Fb", "!", "!2F", "!21", "a!2Fb", "+", "%20", "=2F", "~2F", "_2F", "\\u0041", "A", "&amp;", "&", "%00", "\\x00", "\\0"}},
	{name: "Reserved", names: []string{"__sessions", "__subkeys", "__index", "index", "main", "sessions", "meta", "summary", "part-", "part-0000000000001-abcdef.jsonl", "part-9999999999999-ffffff.jsonl", "entries", "ids"}},
	{name: "FileNames", names: []string{"x", "x.jsonl", "x.meta.json", ".meta.json", ".jsonl", "x.json", "x.jsonl.jsonl", "x.tmp", ".lock", "x.lock", "CON", "nul.txt", "x~", "#x#"}},
	{name: "Dots", names: []string{"..", ".", "...", ".a", "a.", "a..b", "a", "a.b", "..a", ". ."}, extra: []key{in("..", "..", "a"), in(".", ".", "a/.a"), in("p", "..", "a.../b")}},
	{name: "Spaces", names: []string{"a", " a", "a ", " ", "  ", "a b", "a\tb", "a\nb", "\n", "a\n", "a\r\nb", "\u00a0", "a\u200b", "\ufeffa", "\u2028"}},
	{name: "Quotes", names: []string{"'", "''", "\"", "`", "\\", "\\\\", "a\\b", "'; DROP TABLE entries; --", "$1", "$$", "%s", "$(x)", "${x}", "<a>&b", "--", "/*", "?1", ":x"}},
	{name: "Flags", names: []string{"-", "-s", "--version", "null", "nil", "NULL", "undefined", "true", "0", "00", "0.0", "-0", "1e0", "NaN", "[]", "{}", "\"\""}},
	{name: "Scripts", names: []string{"日本語", "日本", "עברית", "العربية", "हिन्दी", "😀", "👩‍👩‍👧", "👩", "\u202eabc", "abc", "\U0010ffff", "\ue000", "\uffff", "\ufffd"}},
	{name: "Controls", names: []string{"\x01", "\x1f", "\x7f", "\u0080", "\u0085", "\x1b[31m", "a\x08b", "\v", "\f"}},
}

// keys returns the valid keys that the names make.
func (f family) keys() []key {
	base := in("p", "s", "")
	all := f.extra
	for _, n := range f.names {
		for _, k := range []key{in("p", n, ""), in(n, "s", ""), in("p", "s", n)} {
			if k.Validate() == nil && k != base && !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	// Sessions come behind their subpaths, so that deleting one by one gets to
	// all of them. Backwards, deleting a session takes its subpaths along.
	return append(slices.Clone(all), base)
}

func keysCases() []testCase {
	var all []testCase
	for _, f := range families {
		all = append(all, testCase{
			name:     "Keys/" + f.name,
			contract: isolationSentence,
			run: func(c *env) {
				stored := c.fill(f)
				c.wantIsolated(stored)
				if c.has(Delete) {
					c.deleteOneByOne(f.keys(), stored)
					again := c.fresh()
					backwards := f.keys()
					slices.Reverse(backwards)
					again.deleteOneByOne(backwards, again.fill(f))
				}
			},
		})
	}
	return all
}

// fill writes an entry of its own to each key and returns what is stored.
func (c *env) fill(f family) map[key]entry {
	c.Helper()
	stored := map[key]entry{}
	for i, k := range f.keys() {
		e := user(fmt.Sprint(i))
		if f.twins && c.h.RefusesTwins {
			if c.store.Append(c.Context(), k, []entry{e}) == nil {
				stored[k] = e
			}
			continue
		}
		c.append(k, e)
		stored[k] = e
	}
	return stored
}

// wantIsolated checks every transcript and every list.
func (c *env) wantIsolated(stored map[key]entry) {
	c.Helper()
	subpaths := map[key][]string{}
	sessions := map[string][]string{}
	for k, e := range stored {
		c.wantLoad(k, e)
		if k.Subpath == "" {
			sessions[k.ProjectKey] = append(sessions[k.ProjectKey], k.SessionID)
		} else {
			subpaths[k.Main()] = append(subpaths[k.Main()], k.Subpath)
		}
	}
	for project, ids := range sessions {
		if c.has(Lister) {
			c.wantSameSet(fmt.Sprintf("ListSessions(%q)", project), c.sessionIDs(project), ids)
		}
	}
	for main, paths := range subpaths {
		if c.has(Subkeys) {
			c.wantSameSet(fmt.Sprintf("ListSubkeys(%q, %q)", main.ProjectKey, main.SessionID), c.subkeys(main), paths)
		}
	}
	if c.has(Projects) {
		projects := map[string]bool{}
		for k := range stored {
			projects[k.ProjectKey] = true
		}
		c.wantSameSet("ListProjects()", c.projects(), slices.Collect(maps.Keys(projects)))
	}
}

// wantSameSet compares without order and repeats, which other cases check.
func (c *env) wantSameSet(call string, got, want []string) {
	c.Helper()
	set := func(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
	if !slices.Equal(set(got), set(want)) {
		c.Errorf("%s = %q, want %q in any order", call, set(got), set(want))
	}
}

// deleteOneByOne deletes the keys and checks before each deletion that those
// before it have not touched the transcript.
func (c *env) deleteOneByOne(keys []key, stored map[key]entry) {
	c.Helper()
	stored = maps.Clone(stored)
	for _, k := range keys {
		e, ok := stored[k]
		if !ok {
			continue
		}
		if d := diff(c.load(k), []entry{e}); d != "" {
			c.Errorf("after deleting other keys Load(%v) = %s", k, d)
		}
		c.delete(k)
		c.wantUnknown(k)
		for other := range stored {
			if other == k || k.Subpath == "" && other.Main() == k {
				delete(stored, other)
			}
		}
	}
}
