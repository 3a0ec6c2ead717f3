package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

type forkOptions struct{ project, upTo, title string }

func newFork(a *app) *cobra.Command {
	var opts forkOptions
	cmd := &cobra.Command{
		Use:   "fork SESSION",
		Short: "Copy the conversation of a session into a new one",
		Long: `Copy the conversation of a session into a new session of the same project, and
print the new id. The copy can be resumed and goes its own way; the source stays
as it is. Subagents are not copied. The id of the session must be a UUID.

With --up-to the copy ends with that message of the main transcript. "show
--json" has the uuids of messages.

JSON: one object with sessionId (the new one), projectKey, forkedFrom.`,
		Example: `  sessionstore fork -s file:backup 814ed2c4
  sessionstore fork -s file:backup 814ed2c4 --up-to ceb76c8a-3e77-4dcc-b3e7-018d9ca4f030 --title "another way"`,
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.fork(cmd.Context(), args[0], opts)
		},
	}
	a.projectFlag(cmd, &opts.project)
	cmd.Flags().StringVar(&opts.upTo, "up-to", "", "`UUID` of the last message to copy")
	cmd.Flags().StringVar(&opts.title, "title", "", "`TITLE` of the new session")
	noFileCompletion(cmd, "up-to", "title")
	return cmd
}

type forkJSON struct {
	SessionID  string `json:"sessionId"`
	ProjectKey string `json:"projectKey"`
	ForkedFrom string `json:"forkedFrom"`
}

func (a *app) fork(ctx context.Context, arg string, opts forkOptions) (err error) {
	h, err := a.openStore(ctx, writing)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	key, err := a.findWholeSession(ctx, h, arg, opts.project)
	if err != nil {
		return err
	}
	id, err := session.Fork(ctx, h.store, key, &session.ForkOptions{UpTo: opts.upTo, Title: opts.title})
	if err != nil {
		return cmp.Or(unknownMessage(ctx, h, key, opts.upTo), noEntries(h, key, err))
	}
	if a.json {
		err = a.printJSON(forkJSON{id, key.ProjectKey, key.SessionID})
	} else {
		a.printf("%s\n", id)
	}
	// The session is there. Its id must not get lost.
	if err = cmp.Or(err, a.stdout.Flush()); err != nil {
		return fmt.Errorf("the new session is %s; write output: %w", id, err)
	}
	return nil
}

// unknownMessage returns an error if that is why a session could not be forked:
// its main transcript does not have the message.
func unknownMessage(ctx context.Context, h *handle, key sessionstore.Key, uuid string) error {
	if uuid == "" {
		return nil
	}
	for e, err := range sessionstore.Stream(ctx, h.store, key) {
		if err != nil || e.UUID() == uuid && !gjson.GetBytes(e, "isSidechain").Bool() {
			return nil
		}
	}
	return notFoundf("message %s is not in the session %v; \"show --json\" has the uuids of messages", uuid, key)
}
