package session

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// Subagents returns the ids of a session's subagents, sorted, each once. They
// come from subpaths whose first segment is "subagents" and whose last one is
// "agent-" and the id. Other subpaths there, such as journals, are no agents.
// An unknown session has none. On a store that can't list subpaths the error
// wraps [errors.ErrUnsupported]. If a part of them can't be listed, the ids of
// the others are returned together with the error.
func Subagents(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) ([]string, error) {
	if err := checkReadable(key); err != nil {
		return nil, opError("subagents", key, err)
	}
	if !isUUID(key.SessionID) {
		return nil, nil
	}
	subpaths, err := sessionstore.ListSubkeys(ctx, store, key.ProjectKey, key.SessionID)
	var ids []string
	for _, sub := range subpaths {
		if id, ok := agentID(sub); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), opError("subagents", key, err)
}

const (
	subagentsPrefix = "subagents/"
	agentPrefix     = "agent-"
)

// agentID returns the id of the subagent that a subpath belongs to.
func agentID(subpath string) (string, bool) {
	rest, ok := strings.CutPrefix(subpath, subagentsPrefix)
	if !ok {
		return "", false
	}
	id, ok := strings.CutPrefix(rest[strings.LastIndexByte(rest, '/')+1:], agentPrefix)
	return id, ok && id != ""
}

// SubagentMessages returns the conversation of a subagent: the messages from
// the root to the last user or assistant entry of its transcript, those of
// sidechains and those that the agent put in included. Each names the tool call
// and the agent that started the subagent.
//
// An unknown session or subagent has no messages. When several subpaths end in
// the same id, the one directly under "subagents" counts, otherwise the first.
func SubagentMessages(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key, agentID string, opts *MessagesOptions) (Conversation, error) {
	found, err := findAgent(ctx, store, &key, agentID)
	if err != nil || !found {
		return Conversation{}, opError("subagent messages", key, err)
	}
	r := messageReader{source: source{store: store, key: key}}
	c, err := r.run(ctx, opts, (*graph).subagent)
	return c, opError("subagent messages", key, err)
}

// findAgent sets the subpath of the key, and reports false for what is no
// session or no subagent.
func findAgent(ctx context.Context, store sessionstore.SessionStore, key *sessionstore.Key, agentID string) (bool, error) {
	if err := checkReadable(*key); err != nil {
		return false, err
	}
	if !isUUID(key.SessionID) || agentID == "" || strings.ContainsAny(agentID, "/\x00") {
		return false, nil
	}
	return findSubagent(ctx, store, key, agentID)
}

// findSubagent sets the subpath of the key. A store that can't list subpaths
// has the subagent where agents put theirs, or not at all.
func findSubagent(ctx context.Context, store sessionstore.SessionStore, key *sessionstore.Key, id string) (bool, error) {
	direct := subagentsPrefix + agentPrefix + id
	subpaths, err := sessionstore.ListSubkeys(ctx, store, key.ProjectKey, key.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		key.Subpath = direct
		return true, nil
	}
	slices.Sort(subpaths)
	if err != nil && !slices.Contains(subpaths, direct) {
		return false, err // it may be among those that could not be listed
	}
	for _, sub := range subpaths {
		if sub == direct {
			key.Subpath = sub
			break
		}
		if got, ok := agentID(sub); ok && got == id && key.Subpath == "" {
			key.Subpath = sub
		}
	}
	return key.Subpath != "", nil
}
