package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/redisstore"
)

// repairer is a store with an index that can be rebuilt from the data.
type repairer interface {
	Repair(ctx context.Context, projectKey string) (redisstore.RepairReport, error)
}

func newRepair(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "repair [PROJECT|DIR]",
		Short: "Rebuild the indexes of a Redis or S3 store, tidy a directory",
		Long: `Rebuild the index of a project, or without an argument those of all projects,
from the data of a Redis store. Use it when an index was lost. It looks at all
keys of the server, a few at a time, and blocks nobody. Transcripts of which a
part is gone are listed, and the exit code is then 1.

In a directory it removes the summaries, which hold prompts and titles, of sessions
that somebody else has deleted.

JSON: one object for each damaged transcript, with projectKey, sessionId,
subpath; then one with sessions, added, damaged (numbers). Of a directory one
object with strays (a number).`,
		Example: `  sessionstore repair -s redis://localhost:6379
  sessionstore repair -s redis-cluster://localhost:7000 -home-dev-app`,
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repair(cmd.Context(), args)
		},
	}
}

func (a *app) repair(ctx context.Context, args []string) (err error) {
	h, err := a.openStore(ctx, writing)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	project := ""
	if len(args) > 0 {
		if project, err = projectIn(ctx, h, args[0]); err != nil {
			return err
		}
	}
	if t, ok := h.store.(*filestore.Store); ok {
		return a.dropStrays(ctx, t, project)
	}
	r, ok := h.store.(repairer)
	if !ok {
		return fmt.Errorf("repair %s: it has no index: %w", h.name, errors.ErrUnsupported)
	}
	report, err := r.Repair(ctx, project)
	if err != nil {
		return err
	}
	return a.printRepair(report)
}

// dropStrays is the repair of a directory.
func (a *app) dropStrays(ctx context.Context, s *filestore.Store, project string) error {
	if project != "" {
		return usagef("a directory is repaired as a whole; give no project")
	}
	n, err := s.DropStrays(ctx)
	if a.json {
		err = cmp.Or(a.printJSON(struct {
			Strays int `json:"strays"`
		}{n}), err)
	} else {
		a.printf("%s of deleted sessions removed\n", plural(n, "summary"))
	}
	return err
}

func (a *app) printRepair(r redisstore.RepairReport) error {
	for _, k := range r.Damaged {
		if !a.json {
			a.printf("damaged: %v\n", k)
		} else if err := a.printJSON(removalJSON{k.ProjectKey, k.SessionID, k.Subpath}); err != nil {
			return err
		}
	}
	if a.json {
		err := a.printJSON(struct {
			Sessions int `json:"sessions"`
			Added    int `json:"added"`
			Damaged  int `json:"damaged"`
		}{r.Sessions, r.Added, len(r.Damaged)})
		if err != nil {
			return err
		}
	} else {
		a.printf("%s, %s added to an index\n", plural(r.Sessions, "session"), number(int64(r.Added)))
	}
	if len(r.Damaged) > 0 {
		return errReported
	}
	return nil
}
