package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

func newLs(a *app) *cobra.Command {
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:     "ls [PROJECT|DIR]",
		Aliases: []string{"list"},
		Short:   "List the sessions of a project, newest first",
		Long: `List the sessions of a project, newest first: id, time of the last write, age
and project. A directory stands for the project of the sessions that ran in
it; without an argument that is the current directory. No transcript is read.

JSON fields: sessionId, projectKey, mtime (milliseconds since 1970), time.`,
		Example: `  sessionstore ls
  sessionstore ls ~/src/app --limit 5
  sessionstore ls --all --json
  sessionstore ls -s file:backup -home-dev-app`,
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeProjectsOrDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ls(cmd.Context(), args, all, limit)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "the sessions of all projects")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "at most `N` sessions (0: all)")
	return cmd
}

func (a *app) ls(ctx context.Context, args []string, all bool, limit int) error {
	if limit < 0 {
		return usagef("--limit %d: write a positive number, or 0 for no limit", limit)
	}
	if all && len(args) > 0 {
		return usagef("give a project or --all, not both")
	}
	rows, err := a.rowsFor(ctx, all, args)
	if err != nil {
		return err
	}
	if limit > 0 && len(rows) > limit {
		if !a.json {
			defer a.note("%s more; see --limit", number(int64(len(rows)-limit)))
		}
		rows = rows[:limit]
	}
	return a.printRows(rows)
}

func (a *app) rowsFor(ctx context.Context, all bool, args []string) (_ []row, err error) {
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return nil, err
	}
	defer h.closeInto(&err)
	if all {
		rows, err := listAllSessions(ctx, h)
		if err == nil && len(rows) == 0 {
			a.note("no sessions in %s", h.name)
		}
		return rows, err
	}
	project, err := lsProject(args)
	if err != nil {
		return nil, err
	}
	rows, err := listSessions(ctx, h, []string{project})
	if err == nil && len(rows) == 0 {
		return nil, noSessions(h, project, args)
	}
	return rows, err
}

func lsProject(args []string) (string, error) {
	if len(args) == 1 {
		return projectArg(args[0])
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("current directory: %w", err)
	}
	return sessionstore.ProjectKey(dir)
}

func noSessions(h *handle, project string, args []string) error {
	where := "for the current directory"
	if len(args) == 1 {
		where = "for " + args[0]
	}
	if len(args) == 0 || args[0] != project {
		where += " (project " + name(project) + ")"
	}
	return notFoundf(`no sessions %s in %s; try "sessionstore projects" or "sessionstore ls --all"`, where, h.name)
}
