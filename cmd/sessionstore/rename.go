package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

func newRename(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "rename SESSION TITLE",
		Short: "Give a session a title",
		Long: `Give a session a title. An entry is appended to its main transcript; nothing in
it is changed. The id of the session must be a UUID.

It becomes different from what it was copied from, so a later import or copy into
this store finds that the session has diverged, and refuses it. Do it in a store
that nothing is imported into.

JSON: one object with sessionId, projectKey, title.`,
		Example: `  sessionstore rename -s file:sessions 814ed2c4 "count the leaves"
  sessionstore rename -s file:sessions -- 814ed2c4 --title-with-dashes`,
		Args:              argCount(2, 2),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			title := strings.TrimSpace(args[1])
			if title == "" {
				return usagef("the title is empty")
			}
			return a.change(cmd.Context(), args[0], project, func(ctx context.Context, h *handle, key sessionstore.Key) error {
				return a.rename(ctx, h, key, title)
			})
		},
	}
	a.projectFlag(cmd, &project)
	return cmd
}

func (a *app) rename(ctx context.Context, h *handle, key sessionstore.Key, title string) error {
	if err := session.Rename(ctx, h.store, key, title); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(changedJSON{SessionID: key.SessionID, ProjectKey: key.ProjectKey, Title: title})
	}
	a.printf("renamed %v: %s\n", key, oneLine(title))
	return nil
}

// changedJSON is what rename and tag print.
type changedJSON struct {
	SessionID  string  `json:"sessionId"`
	ProjectKey string  `json:"projectKey"`
	Title      string  `json:"title,omitempty"`
	Tag        *string `json:"tag,omitempty"`
}

// change changes one session of a store that was named as one to write to.
func (a *app) change(ctx context.Context, arg, project string, do func(context.Context, *handle, sessionstore.Key) error) (err error) {
	h, err := a.openStore(ctx, writing)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	key, err := a.findWholeSession(ctx, h, arg, project)
	if err != nil {
		return err
	}
	return noEntries(h, key, do(ctx, h, key))
}

// noEntries tells a session that is there and has nothing to change from one
// that is not there.
func noEntries(h *handle, key sessionstore.Key, err error) error {
	if errors.Is(err, sessionstore.ErrNotFound) && !errors.As(err, new(*notFoundError)) {
		return fmt.Errorf("session %v is in %s, but its main transcript has no entry that can be read", key, h.name)
	}
	return err
}
