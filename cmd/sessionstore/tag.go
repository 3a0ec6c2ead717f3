package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

func newTag(a *app) *cobra.Command {
	var project string
	var clearTag bool
	cmd := &cobra.Command{
		Use:   "tag SESSION TAG | --clear",
		Short: "Give a session a tag, or take it away",
		Long: `Give a session a tag in the place of the one it has, or take it away with
--clear. An entry is appended to its main transcript; nothing in it is changed.
The id of the session must be a UUID.

It becomes different from what it was copied from, so a later import or copy into
this store finds that the session has diverged, and refuses it. Do it in a store
that nothing is imported into.

JSON: one object with sessionId, projectKey, tag (empty: taken away).`,
		Example: `  sessionstore tag -s file:sessions 814ed2c4 keep
  sessionstore tag -s file:sessions 814ed2c4 --clear`,
		Args:              argCount(1, 2),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			tag, err := tagArg(args, clearTag)
			if err != nil {
				return err
			}
			return a.change(cmd.Context(), args[0], project, func(ctx context.Context, h *handle, key sessionstore.Key) error {
				return a.tag(ctx, h, key, tag)
			})
		},
	}
	a.projectFlag(cmd, &project)
	cmd.Flags().BoolVar(&clearTag, "clear", false, "take the tag away")
	return cmd
}

// tagArg returns the tag to give, nil for none.
func tagArg(args []string, clearTag bool) (*string, error) {
	switch {
	case clearTag && len(args) == 2:
		return nil, usagef("give a tag or --clear, not both")
	case clearTag:
		return nil, nil
	case len(args) == 1:
		return nil, usagef("which tag? give TAG, or --clear to take it away")
	}
	tag := strings.TrimSpace(args[1])
	if tag == "" {
		return nil, usagef("the tag is empty; --clear takes a tag away")
	}
	return &tag, nil
}

func (a *app) tag(ctx context.Context, h *handle, key sessionstore.Key, tag *string) error {
	if err := session.Tag(ctx, h.store, key, tag); err != nil {
		return err
	}
	switch {
	case a.json && tag == nil:
		tag = new(string)
		fallthrough
	case a.json:
		return a.printJSON(changedJSON{SessionID: key.SessionID, ProjectKey: key.ProjectKey, Tag: tag})
	case tag == nil:
		a.printf("untagged %v\n", key)
	default:
		a.printf("tagged %v: %s\n", key, oneLine(*tag))
	}
	return nil
}
