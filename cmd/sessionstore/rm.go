package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

type rmOptions struct {
	project   string
	subpath   string
	olderThan string
	all       bool
	yes       bool
	dryRun    bool
}

func newRm(a *app) *cobra.Command {
	var opts rmOptions
	cmd := &cobra.Command{
		Use:     "rm SESSION... | --project P --all | --older-than AGE",
		Aliases: []string{"delete"},
		Short:   "Delete sessions",
		Long: `Delete sessions with all their transcripts, or one transcript with --subpath.
It lists what would go and asks; without a terminal it needs --yes.

--older-than takes a number and s, m, h, d or w, and counts from the last write
of the main transcript in this store. For a copied session that is when it was
copied, not when its agent last wrote.

JSON: one object for each session or transcript that was chosen, with
projectKey, sessionId, subpath; then one with deleted (a number), dryRun.`,
		Example: `  sessionstore rm -s file:backup 814ed2c4
  sessionstore rm -s file:backup 814ed2c4 --subpath agent-a54a --yes
  sessionstore rm -s file:backup --project -home-dev-app --all
  sessionstore rm -s file:backup --older-than 30d --dry-run`,
		Args:              argCount(0, -1),
		ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.rm(cmd.Context(), args, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.project, "project", "p", "", "`PROJECT` of the sessions: a key, or the directory it stands for")
	flags.StringVar(&opts.subpath, "subpath", "", "`NAME` of the only transcript to delete")
	flags.StringVar(&opts.olderThan, "older-than", "", "delete sessions last written longer ago than this `AGE`, such as 30d")
	flags.BoolVar(&opts.all, "all", false, "delete all sessions of --project")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "only list what would be deleted")
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
	must(cmd.RegisterFlagCompletionFunc("subpath", a.completeSubpaths))
	return cmd
}

func (o rmOptions) check(args []string) error {
	byName, byAge := len(args) > 0, o.olderThan != ""
	switch {
	case !byName && !byAge && !o.all:
		return usagef("what should go? give SESSION, or --project P --all, or --older-than AGE")
	case byName && (byAge || o.all):
		return usagef("give sessions, or --all or --older-than, not both")
	case byAge && o.all:
		return usagef("give --all or --older-than, not both")
	case o.all && o.project == "":
		return usagef("--all needs --project")
	case o.subpath != "" && len(args) != 1:
		return usagef("--subpath needs exactly one session")
	}
	return nil
}

// removal is what rm is going to delete.
type removal struct {
	keys []sessionstore.Key
	// olderThan is set when a whole store is purged by age.
	olderThan time.Time
}

func (a *app) rm(ctx context.Context, args []string, opts rmOptions) (err error) {
	if err := opts.check(args); err != nil {
		return err
	}
	mode := writing
	if opts.dryRun {
		mode = reading
	}
	h, err := a.openStore(ctx, mode)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	plan, err := a.planRemoval(ctx, h, args, opts)
	if err != nil {
		return err
	}
	if len(plan.keys) == 0 {
		a.note("nothing to delete in %s", h.name)
	} else if !opts.dryRun && !opts.yes {
		if err := a.confirm(ctx, h, plan.keys); err != nil {
			return err
		}
	}
	if opts.dryRun || len(plan.keys) == 0 {
		return a.printRemoval(plan.keys, 0, opts.dryRun)
	}
	deleted, err := a.remove(ctx, h, plan)
	if err != nil {
		return fmt.Errorf("after %s: %w", plural(deleted, "deletion"), err)
	}
	return a.printRemoval(plan.keys, deleted, false)
}

func (a *app) planRemoval(ctx context.Context, h *handle, args []string, opts rmOptions) (plan removal, err error) {
	if len(args) == 0 {
		return a.planByScope(ctx, h, opts)
	}
	for _, arg := range args {
		key, err := a.findTranscript(ctx, h, arg, opts.project, opts.subpath)
		if err != nil {
			return plan, err
		}
		if !slices.Contains(plan.keys, key) {
			plan.keys = append(plan.keys, key)
		}
	}
	return plan, nil
}

// planByScope chooses sessions by project and age.
func (a *app) planByScope(ctx context.Context, h *handle, opts rmOptions) (plan removal, err error) {
	var rows []row
	if opts.project == "" {
		rows, err = listAllSessions(ctx, h)
	} else {
		var project string
		if project, err = projectIn(ctx, h, opts.project); err == nil {
			rows, err = listSessions(ctx, h, []string{project})
		}
	}
	if err == nil && opts.all && len(rows) == 0 && !h.unread {
		err = notFoundf("no sessions of project %s in %s; \"sessionstore projects%s\" lists those that have any", opts.project, h.name, h.flag)
	}
	if err != nil {
		return plan, err
	}
	if opts.olderThan != "" {
		d, err := parseAge(opts.olderThan)
		if err != nil {
			return plan, err
		}
		before := a.now().Add(-d)
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.Mtime >= before.UnixMilli() })
		if opts.project == "" {
			plan.olderThan = before
		}
	}
	for _, r := range rows {
		plan.keys = append(plan.keys, r.key())
	}
	return plan, nil
}

// confirm shows what would go and asks.
func (a *app) confirm(ctx context.Context, h *handle, keys []sessionstore.Key) error {
	const shown = 20
	if a.canAsk() {
		for _, k := range keys[:min(shown, len(keys))] {
			fmt.Fprintf(a.stderr, "  %v\n", k)
		}
		if n := len(keys) - shown; n > 0 {
			fmt.Fprintf(a.stderr, "  … %s\n", plural(n, "more session"))
		}
	}
	return a.ask(ctx, h, describeKeys(keys))
}

func (a *app) canAsk() bool { return a.in.is && a.err.is }

// ask lets the person at the terminal decide. No terminal, no question.
func (a *app) ask(ctx context.Context, h *handle, what string) error {
	if !a.canAsk() {
		return usagef("this would delete %s from %s; say --yes, or look first with rm --dry-run", what, h.name)
	}
	fmt.Fprintf(a.stderr, "Delete %s from %s? [y/N] ", what, oneLine(h.name))
	answer := make(chan string, 1)
	go func() { // reading can't be interrupted, so it is left behind
		line, err := bufio.NewReader(a.stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return ctx.Err()
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return errors.New("nothing was deleted")
	}
}

func describeKeys(keys []sessionstore.Key) string {
	if len(keys) == 1 && keys[0].Subpath != "" {
		return "the transcript " + keys[0].String()
	}
	return plural(len(keys), "session")
}

// remove deletes what was planned and returns how much of it is gone.
func (a *app) remove(ctx context.Context, h *handle, plan removal) (int, error) {
	if !plan.olderThan.IsZero() {
		report, err := sessionstore.Purge(ctx, h.store, plan.olderThan)
		if !errors.Is(err, errors.ErrUnsupported) {
			return report.Sessions, err
		}
	}
	// The helper of the library takes a store that can't delete for one that
	// should not. A person who asked wants to know.
	d, ok := h.store.(sessionstore.Deleter)
	if !ok {
		return 0, fmt.Errorf("delete from %s: %w", h.name, errors.ErrUnsupported)
	}
	p := a.progress()
	defer p.done()
	for i, key := range plan.keys {
		if err := d.Delete(ctx, key); err != nil {
			return i, err
		}
		p.step("deleting", i+1, len(plan.keys), "")
	}
	return len(plan.keys), nil
}

type removalJSON struct {
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	Subpath    string `json:"subpath,omitempty"`
}

type removedJSON struct {
	Deleted int  `json:"deleted"`
	DryRun  bool `json:"dryRun"`
}

func (a *app) printRemoval(keys []sessionstore.Key, deleted int, dryRun bool) error {
	if a.json {
		for _, k := range keys {
			if err := a.printJSON(removalJSON{k.ProjectKey, k.SessionID, k.Subpath}); err != nil {
				return err
			}
		}
		return a.printJSON(removedJSON{deleted, dryRun})
	}
	if len(keys) == 0 {
		return nil
	}
	if !dryRun {
		a.printf("deleted %s\n", plural(deleted, noun(keys)))
		return nil
	}
	for _, k := range keys {
		a.printf("%v\n", k)
	}
	a.note("would delete %s", describeKeys(keys))
	return nil
}

func noun(keys []sessionstore.Key) string {
	if len(keys) == 1 && keys[0].Subpath != "" {
		return "transcript"
	}
	return "session"
}
