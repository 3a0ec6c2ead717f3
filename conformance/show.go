package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// Messages show what differs in lines of bearable length.

// Errorf and Fatalf shorten what they are given.
func (c *env) Errorf(format string, args ...any) {
	c.Helper()
	c.TB.Errorf(format, short(args)...)
}

func (c *env) Fatalf(format string, args ...any) {
	c.Helper()
	c.TB.Fatalf(format, short(args)...)
}

func short(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case key:
			args[i] = show(arg)
		case error:
			args[i] = middle(arg.Error())
		case []string:
			args[i] = shortList(arg)
		}
	}
	return args
}

// show is key.String with long parts cut.
func show(k key) string {
	const most = 64
	if len(k.ProjectKey) <= most && len(k.SessionID) <= most && len(k.Subpath) <= most {
		return k.String()
	}
	s := showPart(k.ProjectKey) + "/" + showPart(k.SessionID)
	if k.Subpath != "" {
		s += "#" + showPart(k.Subpath)
	}
	return s
}

func showPart(s string) string {
	const most, shown = 64, 24
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:shown], len(s))
}

// middle cuts the middle out of the text of an error: the end has the cause.
func middle(s string) string {
	const most, head, tail = 400, 120, 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:head], "") + " … " + strings.ToValidUTF8(s[len(s)-tail:], "")
}

func shortList(list []string) []string {
	const most = 20
	var out []string
	for _, s := range list[:min(len(list), most)] {
		if len(s) > 64 {
			s = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:24], ""), len(s))
		}
		out = append(out, s)
	}
	if n := len(list) - most; n > 0 {
		out = append(out, fmt.Sprintf("… and %d more", n))
	}
	return out
}

// asStored returns what a transcript should hold, in the form that got has
// where there is a choice: an entry with line breaks may have become one line.
func asStored(want, got []entry) []entry {
	out := want
	for i := range min(len(want), len(got)) {
		if len(got[i]) == len(want[i]) {
			continue
		}
		if line := want[i].Line(); string(got[i]) == string(line) {
			if &out[0] == &want[0] {
				out = append([]entry(nil), want...)
			}
			out[i] = line
		}
	}
	return out
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
	return fmt.Sprintf("%s,\nwant %s;\nthe first %d are equal, after them %s",
		brief(got), brief(want), same, firstDifference(got[same:], want[same:]))
}

// firstDifference shows where the first entries begin to differ.
func firstDifference(got, want []entry) string {
	const before, shown = 40, 120
	switch {
	case len(got) == 0:
		return "got nothing, want " + clip(want[0], shown)
	case len(want) == 0:
		return "got " + clip(got[0], shown) + ", want nothing"
	}
	g, w := got[0], want[0]
	n := 0
	for n < len(g) && n < len(w) && g[n] == w[n] {
		n++
	}
	from := n - before
	if from <= 0 || max(len(g), len(w)) <= shown {
		return "got " + clip(g, shown) + ", want " + clip(w, shown)
	}
	return fmt.Sprintf("an entry differs at byte %d: got …%s, want …%s", n, clip(g[from:], shown), clip(w[from:], shown))
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
