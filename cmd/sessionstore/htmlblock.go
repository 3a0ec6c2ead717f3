package main

import (
	"bytes"
	"encoding/json"
	"html/template"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// block is one entry on a page. Its texts are clean, and not escaped.
type block struct {
	Kind    string // user, assistant, note or mark
	ID      string // of the element, empty if it needs none
	Speaker string // empty if the block before is of the same one
	Time    string // for machines
	Clock   string // for people
	Mark    string // of a mark
	Broken  bool   // the mark is a gap
	Parts   []blockPart
}

// blockPart is one part of a block as it stands on the page.
type blockPart struct {
	HTML   template.HTML
	Agents []*section // that the tool call has started
}

// pagePart is what a part of a page shows. Exactly one of its kinds has a
// value.
type pagePart struct {
	Text     []paragraph
	Thinking string
	Tool     *toolPart
	Result   *resultPart
	Image    imageURL
	Other    string
}

// imageURL is a URL that holds an image.
type imageURL string

type toolPart struct{ Name, Summary, Input string }

type resultPart struct {
	Title, Summary, Text string
	Failed               bool
	Images               []imageURL
}

// toolCall is what the result of a call is called by. The description tells
// calls apart that were made at once.
type toolCall struct{ name, description string }

func (c toolCall) titleOf(failed bool) string {
	title := "result"
	switch {
	case failed && c.name != "":
		title = c.name + " failed"
	case failed:
		title = "failed"
	case c.name != "":
		title = "result of " + c.name
	}
	if c.description != "" {
		title += ": " + c.description
	}
	return title
}

// blocks makes the blocks of one transcript.
type blocks struct {
	page    *page
	stored  bool
	anchors bool // messages get ids; those of other transcripts may repeat them
	speaker string
	at      time.Time // in the last heading
	day     string
}

func (b *blocks) of(it prepared) block {
	if it.gap != nil {
		b.speaker = ""
		return block{Kind: "mark", Mark: it.gapMark(), Broken: true}
	}
	m := it.message
	if m.speaker == "" {
		b.speaker = ""
		return block{Kind: "mark", Mark: oneLineOf(m.mark)}
	}
	out := block{Kind: kindOf(m.speaker)}
	if b.anchors {
		out.ID = elementID(m.uuid)
	}
	// A result is an answer to the assistant, so it opens no block of the user.
	onlyResults := true
	for i, p := range m.parts {
		onlyResults = onlyResults && p.kind == partResult
		part := blockPart{HTML: it.parts[i]}
		if p.kind == partTool {
			part.Agents = b.page.startedBy(stringOf(p.block, "id"))
		}
		out.Parts = append(out.Parts, part)
	}
	if onlyResults {
		out.Kind = "assistant"
		return out
	}
	if m.speaker != b.speaker || laterMinute(b.at, m.time) {
		b.speaker, b.at, out.Speaker = m.speaker, m.time, m.speaker
		out.Time, out.Clock = b.clock(m.time)
	}
	return out
}

func kindOf(speaker string) string {
	switch speaker {
	case speakerUser, speakerAssistant:
		return speaker
	}
	return "note"
}

// elementID makes messages addressable: page.html#UUID.
func elementID(uuid string) string {
	if uuidForm.MatchString(uuid) {
		return uuid
	}
	return ""
}

var uuidForm = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

func (b *blocks) clock(t time.Time) (machine, people string) {
	if t.IsZero() {
		return "", ""
	}
	t = t.Local()
	people = t.Format(time.TimeOnly)
	if day := t.Format(time.DateOnly); day != b.day {
		b.day = day
		people = day + " " + people
	}
	return t.Format(time.RFC3339), people
}

const nameWidth, summaryWidth = 40, 160 // in cells

// pagePart makes what the page shows of a part. The title is that of a
// result.
func (p part) pagePart(title string) pagePart {
	switch p.kind {
	case partText:
		return pagePart{Text: markup(clean(p.text))}
	case partThinking:
		return pagePart{Thinking: trimmed(p.text)}
	case partTool:
		return pagePart{Tool: &toolPart{
			Name: cut(oneLineOf(p.name), nameWidth), Summary: cut(oneLineOf(p.text), summaryWidth),
			Input: toolInputText(p.block.Get("input")),
		}}
	case partResult:
		r := &resultPart{
			Title: title, Text: trimmed(p.text), Failed: p.failed,
			Images: resultImages(p.block.Get("content")),
		}
		r.Summary = cut(oneLineOf(r.Text), summaryWidth)
		return pagePart{Result: r}
	}
	if image := imageOf(p.block); image != "" {
		return pagePart{Image: image}
	}
	return pagePart{Other: oneLineOf(p.text)}
}

// toolCallOf is what the results of a tool call will be called by.
func toolCallOf(p part) toolCall {
	description := oneLineOf(stringOf(p.block, "input.description"))
	return toolCall{cut(oneLineOf(p.name), nameWidth), cut(description, nameWidth)}
}

func trimmed(text string) string { return strings.Trim(clean(text), "\n") }

// toolInputText writes the input of a tool call as readable as it can be: one
// text as it is, anything else as indented JSON. Where that would be much longer
// than what is stored, it is shown as stored.
func toolInputText(input gjson.Result) string {
	if command := input.Get("command"); command.Type == gjson.String && hasOneMember(input) {
		return trimmed(command.String())
	}
	var out bytes.Buffer
	if input.Raw == "{}" || indentedSize(input.Raw) > 4*len(input.Raw)+1024 {
		return trimmed(input.Raw)
	}
	if err := json.Indent(&out, []byte(input.Raw), "", indentation); err != nil {
		return trimmed(input.Raw)
	}
	return clean(out.String())
}

func hasOneMember(object gjson.Result) bool {
	n := 0
	object.ForEach(func(_, _ gjson.Result) bool { n++; return n < 2 })
	return n == 1
}

const indentation = "  "

// indentedSize returns about how long a JSON value is once it is indented. With
// deep nesting that is the square of its length.
func indentedSize(raw string) int {
	size, depth, inString := len(raw), 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			size += 1 + depth*len(indentation)
		case c == '}', c == ']':
			depth--
			size += 1 + depth*len(indentation)
		case c == ',':
			size += 1 + depth*len(indentation)
		}
	}
	return size
}

func resultImages(content gjson.Result) (list []imageURL) {
	if !content.IsArray() {
		return nil
	}
	content.ForEach(func(_, block gjson.Result) bool {
		if image := imageOf(block); image != "" {
			list = append(list, image)
		}
		return true
	})
	return list
}

// imageOf returns the image of a block with its data. Kinds that can hold
// scripts or links are not among those it takes.
func imageOf(block gjson.Result) imageURL {
	if block.Get("type").String() != "image" {
		return ""
	}
	kind, data := stringOf(block, "source.media_type"), stringOf(block, "source.data")
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if data != "" && isBase64(data) {
			return imageURL("data:" + kind + ";base64," + data)
		}
	}
	return ""
}

func isBase64(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}
