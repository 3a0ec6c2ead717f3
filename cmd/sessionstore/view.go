package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// view prints transcripts for people. It holds one entry at a time.
type view struct {
	w     io.Writer
	err   error // the first one of w
	st    style
	width int
	full  bool

	resultLines int  // how much of a tool's result is shown
	stored      bool // entries come in stored order, not as a conversation

	speaker string    // whose block is open
	at      time.Time // the time in its heading
	day     string    // of the last time that was printed
	began   bool      // anything was printed
	shown   int       // entries of this transcript
	hidden  countsOf  // entries by kind, of this transcript
	total   int       // entries of this transcript
}

func newView(w io.Writer, st style, width int, full bool) *view {
	return &view{w: w, st: st, width: max(width, 30), full: full, resultLines: 3}
}

func (v *view) print(line string) {
	if v.err == nil {
		_, v.err = io.WriteString(v.w, line+"\n")
	}
}

// title begins another transcript. The label may be empty.
func (v *view) title(key sessionstore.Key, label string) {
	if v.began {
		v.print("")
	}
	text := name(key.SessionID)
	if key.Subpath != "" {
		text = strings.TrimPrefix(key.String(), key.Main().String()+"#")
	}
	if label != "" {
		text += ", " + label
	}
	v.rule(text, v.st.bold)
	v.speaker, v.day, v.began = "", "", true
}

// entry prints one entry or counts it for the footer.
func (v *view) entry(e sessionstore.Entry) {
	v.total++
	m := parseMessage(e)
	if m.meta && v.stored {
		m.hidden = m.kind + " (meta)"
	}
	if m.hidden != "" {
		v.hidden.add(m.hidden)
		return
	}
	v.shown++
	if m.speaker == "" {
		v.separator(m.mark, v.st.mark)
		return
	}
	for _, part := range m.parts {
		v.part(m, part)
	}
}

// gap marks a place where the conversation is broken.
func (v *view) gap(mark string) { v.separator(mark, v.st.bad) }

func (v *view) separator(mark string, color func(string) string) {
	if v.began {
		v.print("")
	}
	v.rule(mark, color)
	v.speaker, v.began = "", true
}

// rule prints a line across the screen with text in it.
func (v *view) rule(text string, color func(string) string) {
	text = cut(oneLineOf(text), v.width-8)
	fill := max(3, v.width-textWidth(text)-6)
	v.print(v.st.dim("── ") + color(text) + " " + v.st.dim(strings.Repeat("─", fill)))
}

// part prints a piece of a message under the heading of its speaker.
func (v *view) part(m message, p part) {
	switch p.kind {
	case partText:
		v.heading(m)
		v.paragraph("  ", p.text, nil)
	case partThinking:
		v.heading(m)
		v.print("  " + v.st.dim("(thinking)"))
		v.paragraph("    ", p.text, v.st.dim)
	case partTool:
		v.heading(m)
		v.line("  ", v.st.tool("→ "+cut(oneLineOf(p.name), 40)), p.text)
	case partResult:
		// A result is an entry of the user by form and an answer to the
		// assistant by meaning, so it goes under the heading that is open.
		if v.speaker == "" {
			v.heading(m)
		}
		v.result(p)
	case partOther:
		v.heading(m)
		v.print("  " + v.st.dim(cut("["+oneLineOf(p.text)+"]", v.width-2)))
	}
}

func (v *view) heading(m message) {
	if v.speaker == m.speaker && !laterMinute(v.at, m.time) {
		return
	}
	if v.began {
		v.print("")
	}
	v.speaker, v.at, v.began = m.speaker, m.time, true
	color := v.st.assistant
	if m.speaker != speakerAssistant {
		color = v.st.user
	}
	line := color(m.speaker)
	if !m.time.IsZero() {
		line += "  " + v.st.dim(v.clock(m.time))
	}
	v.print(line)
}

// laterMinute reports whether a message needs a heading of its own for its time.
func laterMinute(heading, t time.Time) bool {
	return !t.IsZero() && !t.Truncate(time.Minute).Equal(heading.Truncate(time.Minute))
}

// clock writes the date only when it changes.
func (v *view) clock(t time.Time) string {
	t = t.Local()
	day := t.Format(time.DateOnly)
	if day == v.day {
		return t.Format(time.TimeOnly)
	}
	v.day = day
	return day + " " + t.Format(time.TimeOnly)
}

func (v *view) paragraph(indent, text string, color func(string) string) {
	wrap(strings.Trim(clean(text), "\n"), v.width-len(indent), func(l string) {
		switch {
		case l == "":
			v.print("")
		case color != nil:
			v.print(indent + color(l))
		default:
			v.print(indent + l)
		}
	})
}

// line prints a coloured head and as much of the text as fits, or all of it.
func (v *view) line(indent, head, text string) {
	plainHead := colorCodes.ReplaceAllString(head, "")
	if v.full {
		v.print(indent + head)
		wrap(strings.Trim(clean(text), "\n"), v.width-4, func(l string) { v.print(strings.TrimRight("    "+l, " ")) })
		return
	}
	room := v.width - textWidth(indent) - textWidth(plainHead) - 2
	v.print(strings.TrimRight(indent+head+"  "+cut(oneLineOf(text), max(room, 10)), " "))
}

func (v *view) result(p part) {
	color, mark := v.st.dim, "← "
	if p.failed {
		color, mark = v.st.bad, "← failed: "
	}
	text := strings.Trim(clean(p.text), "\n")
	if text == "" {
		v.print("  " + color(mark+"(no output)"))
		return
	}
	n, more := 0, 0
	emit := func(l string) {
		v.print(strings.TrimRight("  "+color(mark+l), " "))
		mark = "  "
	}
	if v.full {
		wrap(text, v.width-2-textWidth(mark), emit)
		return
	}
	for l := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.TrimSpace(l) == "":
		case n < v.resultLines:
			emit(cut(l, v.width-2-textWidth(mark)))
			n++
		default:
			more++
		}
	}
	if more > 0 {
		emit(fmt.Sprintf("… %s", plural(more, "more line")))
	}
}

// footer says what a transcript holds beside its conversation.
func (v *view) footer() {
	if v.began {
		v.print("")
	}
	text := plural(v.total, "message")
	if v.stored {
		text = plural(v.total, "entry")
	}
	if rest := v.hidden.String(); rest != "" {
		text += fmt.Sprintf(", %d shown; not shown: %s", v.shown, rest)
	}
	switch {
	case !v.stored:
		text += "; --all shows all messages, --json all entries"
	case v.shown < v.total:
		text += "; --json shows all entries"
	}
	v.note(text)
	v.total, v.shown, v.hidden, v.speaker, v.began = 0, 0, countsOf{}, "", true
}

func (v *view) subpaths(subpaths []string) {
	const few = 10
	v.note(plural(len(subpaths), "more transcript") + " in this session (--subagents, or --subpath):")
	for i, sub := range subpaths {
		if i == few && len(subpaths) > few+1 {
			v.note("  … " + number(int64(len(subpaths)-few)) + " more")
			return
		}
		v.note("  " + oneLine(sub))
	}
}

func (v *view) note(text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	wrap(clean(text[len(indent):]), v.width-len(indent), func(l string) { v.print(indent + v.st.dim(l)) })
}

// countsOf counts kinds, and puts the rarer ones of very many together.
type countsOf struct{ n map[string]int }

func (c *countsOf) add(kind string) {
	const kinds = 30
	if c.n == nil {
		c.n = make(map[string]int)
	}
	if _, known := c.n[kind]; !known && len(c.n) >= kinds {
		kind = "other"
	}
	c.n[kind]++
}

func (c *countsOf) String() string {
	names := slices.SortedFunc(maps.Keys(c.n), func(a, b string) int {
		if d := c.n[b] - c.n[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, k := range names {
		names[i] = fmt.Sprintf("%d %s", c.n[k], cut(oneLineOf(k), 40))
	}
	return strings.Join(names, ", ")
}
