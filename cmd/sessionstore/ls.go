package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

// lsLimit is how many sessions are listed by default. In a directory that the
// agent writes to, transcripts have to be read to know their titles.
const lsLimit = 30

type lsOptions struct {
	project  string
	all      bool
	limit    int
	noTitles bool
	sameDir  bool
}

func newLs(a *app) *cobra.Command {
	var opts lsOptions
	cmd := &cobra.Command{
		Use:     "ls [PROJECT|DIR]",
		Aliases: []string{"list"},
		Short:   "List the newest sessions of a project with their titles",
		Long: fmt.Sprintf(`List the sessions of a project, newest first: id, time of the last write, age,
tag and title. A directory stands for the project of the sessions that ran in
it; without one that is the current directory. Sessions that have no
title (a subagent's own, for one), or an id that is no UUID, are listed without. A copied session was last
written when it was copied.

The newest %d are listed unless --limit says otherwise: in a directory that the
agent writes to, transcripts have to be read to know their titles. With
--no-titles nothing is read.

Different directories can stand for one project: /a/b-c and /a/b/c do. With
--same-dir, sessions that name another directory than DIR are left out.

JSON fields: sessionId, projectKey, mtime (milliseconds since 1970), time; where
they are known, unless --no-titles is given, also
%s.`, lsLimit, titleJSONHelp),
		Example: `  sessionstore ls
  sessionstore ls ~/src/app --limit 5
  sessionstore ls --all --json
  sessionstore ls --all --limit 0 --no-titles
  sessionstore ls -s file:backup -home-dev-app`,
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeProjectsOrDirs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ls(cmd.Context(), args, opts)
		},
	}
	cmd.Flags().StringVarP(&opts.project, "project", "p", "", "the same as the argument: a `PROJECT`, or the directory it stands for")
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
	cmd.Flags().BoolVarP(&opts.all, "all", "a", false, "the sessions of all projects")
	cmd.Flags().IntVarP(&opts.limit, "limit", "n", lsLimit, "at most `N` sessions (0: all)")
	cmd.Flags().BoolVar(&opts.noTitles, "no-titles", false, "read no transcript")
	cmd.Flags().BoolVar(&opts.sameDir, "same-dir", false, "no sessions of other directories with the same project")
	return cmd
}

func (a *app) ls(ctx context.Context, args []string, opts lsOptions) (err error) {
	if opts.limit < 0 {
		return usagef("--limit %d: write a positive number, or 0 for no limit", opts.limit)
	}
	args, err = opts.projects(args)
	if err != nil {
		return err
	}
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	rows, err := a.rowsFor(ctx, h, opts.all, args)
	if err != nil {
		return err
	}
	failed := false
	if opts.sameDir {
		if rows, failed, err = a.rowsOfDir(ctx, h, rows, args); err != nil {
			return err
		}
	}
	more := 0
	if opts.limit > 0 && len(rows) > opts.limit {
		more = len(rows) - opts.limit
		rows = rows[:opts.limit]
	}
	if !opts.noTitles && !opts.sameDir {
		if failed, err = a.readTitles(ctx, h, rows); err != nil {
			return err
		}
	}
	if err := a.printRows(rows, opts); err != nil {
		return err
	}
	if more > 0 {
		a.note("%s more; see --limit", number(int64(more)))
	}
	if failed {
		return errReported
	}
	return nil
}

// rowsOfDir leaves out sessions that name another working directory.
func (a *app) rowsOfDir(ctx context.Context, h *handle, rows []row, args []string) (left []row, failed bool, err error) {
	dir := "."
	if len(args) == 1 {
		if dir, err = expandHome(args[0]); err != nil {
			return nil, false, err
		}
		if !looksLikePath(dir) && !isDir(dir) {
			return nil, false, usagef("--same-dir: %s is no directory", name(args[0]))
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, false, err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // which is where an agent says it is
	}
	failed, err = a.readTitles(ctx, h, rows)
	return slices.DeleteFunc(rows, func(r row) bool {
		return r.about.Cwd != "" && filepath.Clean(r.about.Cwd) != dir
	}), failed, err
}

// projects takes --project for the argument.
func (o lsOptions) projects(args []string) ([]string, error) {
	if o.sameDir && (o.all || o.noTitles) {
		return nil, usagef("--same-dir is for one directory, and reads where its sessions ran; it does not go with --all or --no-titles")
	}
	if o.project != "" {
		if len(args) > 0 {
			return nil, usagef("give a project or --project, not both")
		}
		args = []string{o.project}
	}
	if o.all && len(args) > 0 {
		return nil, usagef("give a project or --all, not both")
	}
	return args, nil
}

func (a *app) rowsFor(ctx context.Context, h *handle, all bool, args []string) ([]row, error) {
	if all {
		rows, err := listAllSessions(ctx, h)
		if err == nil && len(rows) == 0 && !h.unread {
			a.note("no sessions in %s", h.name)
		}
		return rows, err
	}
	project, err := lsProject(ctx, h, args)
	if err != nil {
		return nil, err
	}
	rows, err := listSessions(ctx, h, []string{project})
	if err == nil && len(rows) == 0 {
		return nil, noSessions(h, project, args)
	}
	return rows, err
}

func lsProject(ctx context.Context, h *handle, args []string) (string, error) {
	if len(args) == 1 {
		return projectIn(ctx, h, args[0])
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
	return notFoundf(`no sessions %s in %s; try "sessionstore projects%s" or "sessionstore ls --all%[3]s"`, where, h.name, h.flag)
}

// printRows prints a listing as a table or as JSON.
func (a *app) printRows(rows []row, opts lsOptions) error {
	if a.json {
		for _, r := range rows {
			if err := a.printJSON(r.json()); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	columns := a.lsColumns(rows, opts)
	header := make([]string, len(columns))
	cells := make([][]string, len(rows))
	for i, c := range columns {
		header[i] = c.header
		for n, r := range rows {
			cells[n] = append(cells[n], c.cell(r))
		}
	}
	last := cutFront // the end of a project key says most
	if !opts.noTitles {
		last = cut
	}
	a.tableCut(header, cells, last)
	return nil
}

type lsColumn struct {
	header string
	cell   func(row) string
}

// lsColumns chooses what is shown. On a narrow terminal the age must do for the
// time. Tags have a column if there are any.
func (a *app) lsColumns(rows []row, opts lsOptions) []lsColumn {
	const narrow, projectWidth, tagWidth = 100, 30, 16
	columns := []lsColumn{{"SESSION", func(r row) string { return name(r.SessionID) }}}
	if !a.out.is || a.out.width >= narrow {
		columns = append(columns, lsColumn{"LAST WRITTEN", func(r row) string { return localTime(r.Mtime) }})
	}
	columns = append(columns, lsColumn{"AGE", func(r row) string { return a.age(r.Mtime) }})
	project := lsColumn{"PROJECT", func(r row) string { return name(r.project) }}
	if opts.noTitles {
		return append(columns, project)
	}
	if opts.all {
		columns = append(columns, lsColumn{"PROJECT", func(r row) string {
			if a.out.is {
				return cutFront(name(r.project), min(projectWidth, a.out.width/4))
			}
			return name(r.project)
		}})
	}
	for _, r := range rows {
		if r.about.Tag != "" {
			columns = append(columns, lsColumn{"TAG", func(r row) string { return cut(oneLineOf(r.about.Tag), tagWidth) }})
			break
		}
	}
	return append(columns, lsColumn{"TITLE", func(r row) string { return cut(oneLineOf(r.about.Summary), maxTextWidth) }})
}
