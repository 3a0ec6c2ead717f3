package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
)

const (
	speakerUser      = "user"
	speakerAssistant = "assistant"
	speakerSummary   = "summary of the earlier conversation"
	speakerMeta      = "put in by the agent"
)

type partKind int

const (
	partText partKind = iota
	partThinking
	partTool
	partResult
	partOther // something that a terminal can't show
)

// part is one piece of a message. Its text is as the transcript has it.
type part struct {
	kind   partKind
	name   string // of a tool
	text   string
	failed bool
	block  gjson.Result // all of it; nothing if the message is a string
}

// message is what people want to see of an entry.
type message struct {
	kind    string // the type of the entry
	uuid    string
	hidden  string // not empty: the kind of an entry that is only counted
	meta    bool   // the agent put it in itself
	speaker string // empty: a separator
	mark    string // of a separator
	time    time.Time
	parts   []part
}

// parseMessage reads an entry. Whatever it does not know is only counted.
func parseMessage(e sessionstore.Entry) message {
	f := fieldsOf(e)
	m := message{kind: cmp.Or(textOf(f.typ), "(no type)"), uuid: textOf(f.uuid)}
	m.time, _ = time.Parse(time.RFC3339Nano, textOf(f.timestamp))
	switch m.kind {
	case "user", "assistant":
		m.meta = f.isMeta.Bool()
		m.speaker = speaker(&f, m.kind)
		m.parts = parseContent(f.message.Get("content"))
		if len(m.parts) == 0 {
			m.hidden = m.kind + " (empty)"
		}
	case "system":
		m.mark = separatorText(&f)
		if m.mark == "" {
			m.hidden = "system/" + f.subtype.String()
		}
	default:
		m.hidden = m.kind
	}
	return m
}

// entryFields are the fields of an entry that parseMessage reads.
type entryFields struct {
	typ, uuid, timestamp, isMeta, isCompactSummary, message, subtype, content, compactMetadata gjson.Result
}

// fieldsOf finds the fields of an entry in one pass. The last one of a repeated
// key counts.
func fieldsOf(e sessionstore.Entry) (f entryFields) {
	gjson.ParseBytes(e).ForEach(func(key, value gjson.Result) bool {
		if field := f.field(key.Str); field != nil {
			*field = value
		}
		return true
	})
	return f
}

func (f *entryFields) field(name string) *gjson.Result {
	switch name {
	case "type":
		return &f.typ
	case "uuid":
		return &f.uuid
	case "timestamp":
		return &f.timestamp
	case "isMeta":
		return &f.isMeta
	case "isCompactSummary":
		return &f.isCompactSummary
	case "message":
		return &f.message
	case "subtype":
		return &f.subtype
	case "content":
		return &f.content
	case "compactMetadata":
		return &f.compactMetadata
	}
	return nil
}

// textOf returns a string, and nothing of another value.
func textOf(value gjson.Result) string {
	if value.Type != gjson.String {
		return ""
	}
	return value.Str
}

func speaker(f *entryFields, typ string) string {
	switch {
	case typ == "assistant":
		return speakerAssistant
	case f.isCompactSummary.Bool():
		return speakerSummary
	case f.isMeta.Bool():
		return speakerMeta
	}
	return speakerUser
}

func separatorText(f *entryFields) string {
	content := f.content
	if f.subtype.String() == "compact_boundary" {
		text := "conversation compacted"
		if t := f.compactMetadata.Get("trigger"); t.Type == gjson.String {
			text += " (" + t.String() + ")"
		}
		if n := f.compactMetadata.Get("preTokens"); n.Type == gjson.Number {
			text += fmt.Sprintf(", %s tokens before", number(n.Int()))
		}
		return text
	}
	if content.Type != gjson.String || content.String() == "" {
		return ""
	}
	return "system: " + content.String()
}

func parseContent(content gjson.Result) []part {
	if content.Type == gjson.String {
		return textPart(nil, partText, content)
	}
	var parts []part
	if content.IsArray() {
		content.ForEach(func(_, block gjson.Result) bool {
			n := len(parts)
			if parts = parseBlock(parts, block); len(parts) > n {
				parts[n].block = block
			}
			return true
		})
	}
	return parts
}

func parseBlock(parts []part, block gjson.Result) []part {
	switch typ := block.Get("type").String(); typ {
	case "text":
		return textPart(parts, partText, block.Get("text"))
	case "thinking":
		return textPart(parts, partThinking, block.Get("thinking"))
	case "redacted_thinking":
		return append(parts, part{kind: partOther, text: "thinking, encrypted"})
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return append(parts, part{kind: partTool, name: block.Get("name").String(), text: toolInput(block.Get("input"))})
	case "tool_result", "mcp_tool_result":
		return append(parts, part{kind: partResult, text: resultText(block.Get("content")), failed: block.Get("is_error").Bool()})
	case "image", "document":
		return append(parts, part{kind: partOther, text: mediaText(block)})
	default:
		return append(parts, part{kind: partOther, text: cmp.Or(typ, "content of unknown type")})
	}
}

func textPart(parts []part, kind partKind, text gjson.Result) []part {
	if s := text.String(); strings.TrimSpace(s) != "" {
		parts = append(parts, part{kind: kind, text: s})
	}
	return parts
}

// telling are the inputs that say best what a tool call is about.
var telling = []string{
	"command", "file_path", "notebook_path", "path", "pattern", "query", "url", "description", "prompt", "skill",
}

func toolInput(input gjson.Result) string {
	for _, field := range telling {
		if v := input.Get(field); v.Type == gjson.String && v.String() != "" {
			return v.String()
		}
	}
	if input.Raw == "{}" {
		return ""
	}
	return input.Raw
}

func resultText(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.String()
	}
	var lines []string
	content.ForEach(func(_, block gjson.Result) bool {
		switch block.Get("type").String() {
		case "text":
			lines = append(lines, block.Get("text").String())
		case "image", "document":
			lines = append(lines, "["+mediaText(block)+"]")
		default:
			lines = append(lines, "["+cmp.Or(block.Get("type").String(), "content of unknown type")+"]")
		}
		return true
	})
	return strings.Join(lines, "\n")
}

func mediaText(block gjson.Result) string {
	text := block.Get("type").String()
	if m := block.Get("source.media_type").String(); m != "" {
		text += ", " + m
	}
	if data := block.Get("source.data"); data.Type == gjson.String {
		text += ", " + size(int64(len(data.Raw))*3/4)
	}
	return text
}
