package main

import (
	"html"
	"html/template"
	"strings"
)

// The parts of messages are most of a page. The template would take longer for
// them than everything else together, so they are written here: every text
// through text, and nothing else that comes from a transcript.
type partWriter struct{ strings.Builder }

func (w *partWriter) text(s string) { w.WriteString(html.EscapeString(s)) }

// html returns a part as HTML.
func (p *pagePart) html() template.HTML {
	var w partWriter
	for i := range p.Text {
		w.paragraph(&p.Text[i])
	}
	switch {
	case p.Thinking != "":
		w.WriteString(`<details class="thinking"><summary><b>thinking</b></summary><div class="inner" dir="auto">`)
		w.text(p.Thinking)
		w.WriteString(`</div></details>`)
	case p.Tool != nil:
		w.summary("tool", p.Tool.Name, p.Tool.Summary)
		w.pre(p.Tool.Input)
		w.WriteString(`</details>`)
	case p.Result != nil:
		w.result(p.Result)
	case p.Image != "":
		w.image(p.Image)
	case p.Other != "":
		w.WriteString(`<div class="other">[`)
		w.text(p.Other)
		w.WriteString(`]</div>`)
	}
	return template.HTML(w.String())
}

func (w *partWriter) paragraph(p *paragraph) {
	if p.Kind == "code" {
		w.WriteString(`<pre>`)
		for _, s := range p.Spans {
			w.text(s.Text)
		}
		w.WriteString(`</pre>`)
		return
	}
	w.WriteString(`<p class="` + p.Kind)
	if p.Depth != "" {
		w.WriteString(` d` + p.Depth)
	}
	w.WriteString(`" dir="auto">`)
	for _, s := range p.Spans {
		w.span(s)
	}
	w.WriteString(`</p>`)
}

func (w *partWriter) span(s span) {
	before, after := "", ""
	switch s.Kind {
	case "code":
		before, after = `<code>`, `</code>`
	case "bold":
		before, after = `<strong>`, `</strong>`
	case "mark":
		before, after = `<span class="mark">`, `</span>`
	}
	w.WriteString(before)
	w.text(s.Text)
	w.WriteString(after)
}

// summary opens what is folded.
func (w *partWriter) summary(class, title, line string) {
	w.WriteString(`<details class="` + class + `"><summary><b>`)
	w.text(title)
	w.WriteString(`</b><span class="line">`)
	w.text(line)
	w.WriteString(`</span></summary>`)
}

func (w *partWriter) pre(text string) {
	if text != "" {
		w.WriteString(`<pre>`)
		w.text(text)
		w.WriteString(`</pre>`)
	}
}

func (w *partWriter) result(r *resultPart) {
	class, line := "result", r.Summary
	if r.Failed {
		class = "result bad"
	}
	if line == "" {
		line = "(no output)"
	}
	w.summary(class, r.Title, line)
	w.pre(r.Text)
	for _, image := range r.Images {
		w.image(image)
	}
	w.WriteString(`</details>`)
}

// image takes what imageURL has checked.
func (w *partWriter) image(url imageURL) {
	w.WriteString(`<img src="`)
	w.text(string(url))
	w.WriteString(`" alt="image">`)
}
