package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

func newSubagents(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "subagents SESSION",
		Short: "List the subagents of a session",
		Long: `List the subagents of a session: id, type, number of stored entries, what they
were asked for and what they said last. An id, or enough of it, is what
"show --subpath" takes. The transcripts of the subagents are read.

JSON fields: agentId, subpath, entries, bytes; where they are known also type,
description, parentToolUseId, parentAgentId, lastWords.`,
		Example: `  sessionstore subagents 814ed2c4
  sessionstore subagents -s file:backup 814ed2c4 --json`,
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.subagents(cmd.Context(), args[0], project)
		},
	}
	a.projectFlag(cmd, &project)
	return cmd
}

func (a *app) subagents(ctx context.Context, arg, project string) (err error) {
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	key, err := a.findWholeSession(ctx, h, arg, project)
	if err != nil {
		return err
	}
	subpaths, err := sessionstore.ListSubkeys(ctx, h.store, key.ProjectKey, key.SessionID)
	if err != nil {
		err = h.passOver(ctx, err)
	}
	if err != nil {
		return err
	}
	agents, err := readAgents(ctx, h, key, subpaths)
	if err != nil {
		return err
	}
	if len(agents) == 0 && !a.json && !h.unread {
		a.note("session %v has no subagents", key)
	}
	return a.printAgents(slices.DeleteFunc(agents, func(f agentFacts) bool { return f.unread }))
}

type agentJSON struct {
	AgentID         string `json:"agentId"`
	Subpath         string `json:"subpath"`
	Entries         int    `json:"entries"`
	Bytes           int64  `json:"bytes"`
	Type            string `json:"type,omitempty"`
	Description     string `json:"description,omitempty"`
	ParentToolUseID string `json:"parentToolUseId,omitempty"`
	ParentAgentID   string `json:"parentAgentId,omitempty"`
	LastWords       string `json:"lastWords,omitempty"`
}

func (a *app) printAgents(agents []agentFacts) error {
	if a.json {
		for _, f := range agents {
			j := agentJSON{f.id, f.subpath, f.entries, f.bytes, f.kind, f.description, f.toolUse, f.parent, f.said}
			if err := a.printJSON(j); err != nil {
				return err
			}
		}
		return nil
	}
	if len(agents) == 0 {
		return nil
	}
	const kindWidth, descriptionWidth = 16, 24
	cells := make([][]string, len(agents))
	for i, f := range agents {
		cells[i] = []string{
			name(f.id), cut(oneLineOf(f.kind), kindWidth), number(int64(f.entries)),
			cut(oneLineOf(f.description), descriptionWidth), cut(oneLineOf(f.said), maxTextWidth),
		}
	}
	a.tableCut([]string{"SUBAGENT", "TYPE", "ENTRIES", "DESCRIPTION", "LAST WORDS"}, cells, cut)
	return nil
}
