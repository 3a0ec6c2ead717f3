package main

import (
	"regexp"
	"strings"
)

// paragraph is a piece of text as a page shows it. Texts of agents are mostly
// Markdown. Of that, what helps most is understood: fenced code, headings,
// lists, code and bold in a line. All else stays as it was written.
type paragraph struct {
	Kind  string // text, code, heading or item
	Spans []span
	Depth string // of an item, "0" to "3"
}

// span is text of one kind.
type span struct {
	Kind string // text, code or bold
	Text string
}

var (
	fenceLine   = regexp.MustCompile("^\\s*(```+|~~~+)")
	headingLine = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	itemLine    = regexp.MustCompile(`^( *)([-*+]|[0-9]{1,4}[.)]) +(.*)$`)
	inlineMark  = regexp.MustCompile("`([^`\n]+)`|\\*\\*([^*\n]+)\\*\\*")
)

// markup splits clean text.
func markup(text string) []paragraph {
	m := marker{}
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		m.line(line)
	}
	m.end()
	return m.list
}

type marker struct {
	list  []paragraph
	lines []string // of the paragraph or the code that is open
	fence string   // that opened the code
}

func (m *marker) line(l string) {
	// Most lines are plain text, which the first character tells.
	start := strings.TrimLeft(l, " ")
	first := byte(0)
	if start != "" {
		first = start[0]
	}
	var fence, heading, item []string
	switch {
	case first == '`', first == '~':
		fence = fenceLine.FindStringSubmatch(l)
	case first == '#':
		heading = headingLine.FindStringSubmatch(l)
	case first == '-', first == '*', first == '+', '0' <= first && first <= '9':
		item = itemLine.FindStringSubmatch(l)
	}
	switch {
	case m.fence != "":
		if fence != nil && strings.HasPrefix(fence[1], m.fence) && strings.TrimSpace(l) == fence[1] {
			m.end()
			return
		}
		m.lines = append(m.lines, l)
	case fence != nil:
		m.end()
		m.fence = fence[1]
	case strings.TrimSpace(l) == "":
		m.end()
	case heading != nil:
		m.end()
		m.add(paragraph{Kind: "heading", Spans: spans(heading[1])})
	case item != nil:
		m.end()
		m.item(item)
	default:
		m.lines = append(m.lines, l)
	}
}

func (m *marker) item(match []string) {
	depth, sign := min(len(match[1])/2, 3), match[2]
	if len(sign) == 1 {
		sign = "•"
	}
	m.add(paragraph{Kind: "item", Depth: string(rune('0' + depth)), Spans: append([]span{{"mark", sign}}, spans(match[3])...)})
}

func (m *marker) add(p paragraph) { m.list = append(m.list, p) }

// end closes what is open. Code whose end is missing ends with the text.
func (m *marker) end() {
	text := strings.Join(m.lines, "\n")
	switch {
	case m.fence != "":
		m.add(paragraph{Kind: "code", Spans: []span{{"text", text}}})
	case len(m.lines) > 0:
		m.add(paragraph{Kind: "text", Spans: spans(text)})
	}
	m.lines, m.fence = nil, ""
}

func spans(text string) []span {
	if text != "" && strings.IndexByte(text, '`') < 0 && !strings.Contains(text, "**") {
		return []span{{"text", text}}
	}
	var list []span
	from := 0
	for _, at := range inlineMark.FindAllStringSubmatchIndex(text, -1) {
		if at[0] > from {
			list = append(list, span{"text", text[from:at[0]]})
		}
		if at[2] >= 0 {
			list = append(list, span{"code", text[at[2]:at[3]]})
		} else {
			list = append(list, span{"bold", text[at[4]:at[5]]})
		}
		from = at[1]
	}
	if from < len(text) {
		list = append(list, span{"text", text[from:]})
	}
	return list
}
