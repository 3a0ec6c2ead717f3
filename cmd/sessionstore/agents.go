package main

import (
	"context"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
)

// agentOf returns the id of the subagent that a subpath belongs to, if any.
func agentOf(subpath string) (id string, ok bool) {
	last := subpath[strings.LastIndexByte(subpath, '/')+1:]
	id, ok = strings.CutPrefix(last, "agent-")
	return id, ok && id != "" && strings.HasPrefix(subpath, "subagents/")
}

// agentFacts is what a subagent's transcript says about it.
type agentFacts struct {
	id, subpath       string
	kind, description string // from the last metadata
	toolUse, parent   string // the call that started it, and the agent that called
	said              string // its last words
	entries           int
	bytes             int64
	unread            bool // it can't be read
}

// readAgent reads a subagent's transcript. It holds one entry at a time.
func readAgent(ctx context.Context, h *handle, key sessionstore.Key) (agentFacts, error) {
	id, _ := agentOf(key.Subpath)
	f := agentFacts{id: id, subpath: key.Subpath}
	for e, err := range sessionstore.Stream(ctx, h.store, key) {
		if err != nil {
			return f, err
		}
		f.add(e)
	}
	return f, nil
}

func (f *agentFacts) add(e sessionstore.Entry) {
	f.entries++
	f.bytes += int64(len(e.Line())) + 1
	switch e.Type() {
	case sessionstore.MetadataType:
		meta := gjson.ParseBytes(e)
		f.kind, f.description = stringOf(meta, "agentType"), stringOf(meta, "description")
		f.toolUse, f.parent = stringOf(meta, "toolUseId"), stringOf(meta, "parentAgentId")
	case "assistant":
		for _, p := range parseMessage(e).parts {
			if p.kind == partText {
				f.said = p.text
			}
		}
	}
}

func stringOf(object gjson.Result, field string) string {
	if v := object.Get(field); v.Type == gjson.String {
		return v.String()
	}
	return ""
}

// label is the line that names a subagent for people.
func (f *agentFacts) label() string {
	text := f.kind
	if f.description != "" {
		text = strings.TrimPrefix(text+": "+f.description, ": ")
	}
	return text
}

// listSubpaths is sessionstore.ListSubkeys for commands that can do without.
func listSubpaths(ctx context.Context, h *handle, key sessionstore.Key) ([]string, error) {
	subpaths, err := sessionstore.ListSubkeys(ctx, h.store, key.ProjectKey, key.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		err = h.passOver(ctx, err)
	}
	return subpaths, err
}

// readAgents reads what the subagents of a session say about themselves. Of one
// that can't be read only the id is known.
func readAgents(ctx context.Context, h *handle, key sessionstore.Key, subpaths []string) ([]agentFacts, error) {
	var list []agentFacts
	for _, sub := range subpaths {
		if _, ok := agentOf(sub); !ok {
			continue
		}
		key.Subpath = sub
		f, err := readAgent(ctx, h, key)
		if err != nil {
			if err := h.passOver(ctx, err); err != nil {
				return nil, err
			}
			id, _ := agentOf(sub)
			f = agentFacts{id: id, subpath: sub, unread: true}
		}
		list = append(list, f)
	}
	return list, nil
}
