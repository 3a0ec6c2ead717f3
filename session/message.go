package session

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// Message is an entry as a conversation shows it. Its JSON form has the members
// of the official SDK's session messages.
type Message struct {
	Type      string `json:"type"` // "user", "assistant" or "system"
	UUID      string `json:"uuid"`
	SessionID string `json:"session_id,omitempty"`
	// Message is the model's message, as the entry spells it. System entries
	// have none.
	Message json.RawMessage `json:"message,omitempty"`
	// ParentToolUseID and ParentAgentID say, in a subagent's conversation,
	// which tool call started it and which subagent made that call. They are
	// nil where there is none.
	ParentToolUseID *string `json:"parent_tool_use_id"`
	ParentAgentID   *string `json:"parent_agent_id"`
	// IsCompactSummary marks the summary that a compaction put in the place of
	// the messages before it. No person wrote it.
	IsCompactSummary bool `json:"isCompactSummary,omitempty"`
	// IsMeta marks what the agent put in itself, compaction summaries included.
	IsMeta bool `json:"is_meta,omitempty"`
	// IsCompletedLocalCommand marks a slash command that ran in the agent
	// itself, and its output.
	IsCompletedLocalCommand bool             `json:"isCompletedLocalCommand,omitempty"`
	ToolResultMeta          []ToolResultMeta `json:"tool_result_meta,omitempty"`
	Timestamp               string           `json:"timestamp,omitempty"`
	// Origin says what a message that no person typed comes from, as the entry
	// spells it.
	Origin json.RawMessage `json:"origin,omitempty"`

	// Entry is the whole entry, with what is not above: compactMetadata of a
	// compaction, toolUseResult, cwd and so on.
	Entry sessionstore.Entry `json:"-"`
}

// ToolResultMeta says why a tool call was not carried out.
type ToolResultMeta struct {
	ID               string `json:"id"` // of the tool use
	NonExecutionKind string `json:"non_execution_kind"`
}

// newMessage makes a message of an entry. It owns nothing of the fields: the
// message shares the bytes of the entry.
func newMessage(e sessionstore.Entry, f *fields) Message {
	kind := f.kind()
	m := Message{
		Type:             kindNames[kind],
		UUID:             text(f.uuid),
		SessionID:        text(f.sessionID),
		IsCompactSummary: truthy(f.isCompactSummary),
		Timestamp:        text(f.timestamp),
		Entry:            e,
	}
	m.IsMeta = truthy(f.isMeta) || m.IsCompactSummary || truthy(f.isVisibleInTranscriptOnly)
	if truthy(f.origin) {
		m.Origin = slices.Clip(json.RawMessage(f.origin))
	}
	if kind == kindSystem {
		m.IsMeta = false // system entries are no one's messages
		return m
	}
	m.Message = slices.Clip(json.RawMessage(f.message))
	if kind == kindUser {
		m.IsCompletedLocalCommand = f.isLocalCommand()
		m.ToolResultMeta = f.toolResultMeta()
	}
	return m
}

// isLocalCommand reports whether a user entry is a command that the agent ran
// itself, or its output.
func (f *fields) isLocalCommand() bool {
	if !isText(f.rowSource, "local") {
		return false
	}
	content := get(f.message, "content")
	if !jsonscan.IsString(content) {
		return false
	}
	start := bytes.TrimSpace(jsonscan.Unquote(content))
	for _, tag := range []string{"<command-name>", "<local-command-stdout>", "<local-command-stderr>"} {
		if bytes.HasPrefix(start, []byte(tag)) {
			return true
		}
	}
	return false
}

func (f *fields) toolResultMeta() (list []ToolResultMeta) {
	if !isID(f.toolDenialKind) {
		return nil
	}
	f.eachBlock(func(block []byte) {
		if id := get(block, "tool_use_id"); isText(get(block, "type"), "tool_result") && isID(id) {
			list = append(list, ToolResultMeta{ID: text(id), NonExecutionKind: text(f.toolDenialKind)})
		}
	})
	return list
}
