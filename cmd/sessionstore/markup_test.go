package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkup(t *testing.T) {
	text := func(s string) []span { return []span{{"text", s}} }
	require.Equal(t, []paragraph{
		{Kind: "heading", Spans: text("Title")},
		{Kind: "text", Spans: text("two\nlines")},
		{Kind: "item", Depth: "0", Spans: append([]span{{"mark", "•"}}, text("one")...)},
		{Kind: "item", Depth: "1", Spans: append([]span{{"mark", "2."}}, text("two")...)},
		{Kind: "code", Spans: text("# no *title*\n\n- no item")},
		{Kind: "text", Spans: []span{{"text", "a "}, {"code", "x**y**"}, {"text", " b "}, {"bold", "c"}, {"text", " ** d `"}}},
		{Kind: "code", Spans: text("no end ```")},
	}, markup("# Title #\ntwo\nlines\n\n- one\n  2. two\n```go\n# no *title*\n\n- no item\n```\na `x**y**` b **c** ** d `\n\n````\nno end ```"))
	require.Empty(t, markup(""))
	require.Equal(t, []paragraph{{Kind: "text", Spans: text("#tag -x 1.5")}}, markup("\n#tag -x 1.5\n"))
}

// Whatever the text is, all its letters come out again, in order.
func FuzzMarkup(f *testing.F) {
	f.Add("# a\n- b `c` **d**\n```\ne\n```\n")
	f.Fuzz(func(t *testing.T, s string) {
		var out strings.Builder
		for _, p := range markup(clean(s)) {
			for _, sp := range p.Spans {
				if sp.Kind != "mark" {
					out.WriteString(sp.Text)
				}
			}
		}
		marks := strings.NewReplacer("#", "", "`", "", "*", "", "-", "", "+", "", "~", "", " ", "", "\n", "", "0", "", "1", "", "2", "", "3", "", "4", "",
			"5", "", "6", "", "7", "", "8", "", "9", "", ".", "", ")", "")
		want := clean(s)
		if strings.Contains(want, "```") || strings.Contains(want, "~~~") {
			return // the word behind a fence names a language
		}
		if got := marks.Replace(out.String()); got != marks.Replace(want) {
			t.Fatalf("markup(%q) = %q", want, out.String())
		}
	})
}
