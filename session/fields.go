package session

import (
	"bytes"
	"fmt"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// fields are the top-level values of an entry that decide about its place in
// a conversation and how it is shown, as they stand in the entry. The last one
// of a repeated key counts.
type fields struct {
	typ, uuid, parentUUID, logicalParentUUID, sessionID, timestamp, message []byte

	isSidechain, isMeta, isCompactSummary, isVisibleInTranscriptOnly, teamName []byte

	subtype, compactMetadata, origin, rowSource, toolDenialKind []byte

	toolUseID, parentAgentID          []byte // of agent_metadata
	atis, tools, replacements, reqSID []byte // of what a fork carries over
}

// read takes the fields of an entry. A store that returns anything else than
// entries has lost data.
func (f *fields) read(e sessionstore.Entry) error {
	*f = fields{}
	if err := jsonscan.Object(e, f.member); err != nil {
		return fmt.Errorf("%w: the store returned an entry that is none: %w", sessionstore.ErrCorrupt, err)
	}
	return nil
}

// readAgain is read for an entry that has been read before. It finds its way
// several times as fast, because nothing has to be checked.
func (f *fields) readAgain(e sessionstore.Entry) {
	*f = fields{}
	object := e[jsonscan.SkipSpace(e, 0):]
	members(object, func(m member) {
		f.member(object[m.keyStart:m.keyEnd], object[m.valueStart:m.valueEnd])
	})
}

func (f *fields) member(key, value []byte) {
	if p := f.field(key); p != nil {
		*p = value
	}
}

func (f *fields) field(key []byte) *[]byte {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = jsonscan.Unquote(key)
	}
	switch string(name) {
	case "type":
		return &f.typ
	case "uuid":
		return &f.uuid
	case "parentUuid":
		return &f.parentUUID
	case "logicalParentUuid":
		return &f.logicalParentUUID
	case "sessionId":
		return &f.sessionID
	case "timestamp":
		return &f.timestamp
	case "message":
		return &f.message
	case "isSidechain":
		return &f.isSidechain
	case "isMeta":
		return &f.isMeta
	case "isCompactSummary":
		return &f.isCompactSummary
	case "isVisibleInTranscriptOnly":
		return &f.isVisibleInTranscriptOnly
	case "teamName":
		return &f.teamName
	}
	return f.rareField(name)
}

func (f *fields) rareField(name []byte) *[]byte {
	switch string(name) {
	case "subtype":
		return &f.subtype
	case "compactMetadata":
		return &f.compactMetadata
	case "origin":
		return &f.origin
	case "rowSource":
		return &f.rowSource
	case "toolDenialKind":
		return &f.toolDenialKind
	case "toolUseId":
		return &f.toolUseID
	case "parentAgentId":
		return &f.parentAgentID
	case "atis":
		return &f.atis
	case "tools":
		return &f.tools
	case "replacements":
		return &f.replacements
	case "requestSessionId":
		return &f.reqSID
	}
	return nil
}

// kinds of entries that make up the graph of a conversation.
const (
	kindOther = iota
	kindUser
	kindAssistant
	kindSystem
	kindAttachment
	kindProgress // a link between others and nothing else
)

var kindNames = [...]string{kindUser: "user", kindAssistant: "assistant", kindSystem: "system",
	kindAttachment: "attachment", kindProgress: "progress"}

func (f *fields) kind() uint8 {
	if jsonscan.IsString(f.typ) {
		for kind := kindUser; kind <= kindProgress; kind++ {
			if jsonscan.KeyIs(f.typ, kindNames[kind]) {
				return uint8(kind)
			}
		}
	}
	return kindOther
}

// isID reports whether a value can name an entry: a string with something in it.
func isID(value []byte) bool { return jsonscan.IsString(value) && len(value) > 2 }

// eachBlock calls f for the content blocks of the entry's message.
func (f *fields) eachBlock(visit func(block []byte)) {
	content := get(f.message, "content")
	if isArray(content) {
		elements(content, func(start, end int) { visit(content[start:end]) })
	}
}

func (f *fields) hasToolResult() bool {
	found := false
	f.eachBlock(func(block []byte) {
		found = found || isText(get(block, "type"), "tool_result")
	})
	return found
}
