package main

import (
	"cmp"
	"context"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore/mirror"
)

type replayOptions struct {
	to     string
	dryRun bool
}

func newReplay(a *app) *cobra.Command {
	var opts replayOptions
	cmd := &cobra.Command{
		Use:   "replay DIR --to URL",
		Short: "Deliver batches that a mirror has kept while its store was away",
		Long: `A host's mirror that cannot reach its store keeps what it gives up in a
directory (Options.Spill of package mirror). This command appends these batches
to a store, in their order, and removes each file once its batch is stored. What
the store holds already is not stored again, so it may be interrupted and run
again at any time, also while the host runs. A damaged file is named, and those
behind it wait until it is mended or moved away. "watch --once" brings in what
was in a file that is damaged or missing, from the agent's own files.

JSON: one object for each transcript, with projectKey, sessionId, subpath,
batches (delivered), entries (appended), already (entries that the store held),
left (batches still in files), missing (files that lack between others), error.`,
		Example: `  sessionstore replay /var/lib/host/spill --to postgres://me@localhost/agents
  sessionstore replay /var/lib/host/spill --to file:backup --dry-run`,
		Args:              argCount(1, 1),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.replay(cmd.Context(), args[0], opts)
		},
	}
	cmd.Flags().StringVar(&opts.to, "to", "", "`URL` of the store (default --store or $SESSIONSTORE_URL)")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "compare and count, change nothing")
	must(cmd.RegisterFlagCompletionFunc("to", a.completeStores))
	return cmd
}

type replayJSON struct {
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	Subpath    string `json:"subpath,omitempty"`
	Batches    int    `json:"batches"`
	Entries    int    `json:"entries"`
	Already    int    `json:"already"`
	Left       int    `json:"left"`
	Missing    int    `json:"missing,omitempty"`
	Error      string `json:"error,omitempty"`
}

func (a *app) replay(ctx context.Context, dir string, opts replayOptions) (err error) {
	to := cmp.Or(opts.to, a.storeURL, os.Getenv("SESSIONSTORE_URL"))
	if to == "" {
		return usagef("where to? name the store with --to")
	}
	if dir, err = expandHome(dir); err != nil {
		return err
	}
	if !isDir(dir) {
		return notFoundf("no directory %s", dir)
	}
	if err := checkSpill(dir); err != nil {
		return err
	}
	dst, err := a.openDestination(ctx, to, &handle{name: dir, dir: dir}, opts.dryRun)
	if err != nil {
		return err
	}
	defer dst.closeInto(&err)
	var failed error
	report, err := mirror.Replay(ctx, dir, dst.store, &mirror.ReplayOptions{
		DryRun: opts.dryRun,
		OnError: func(e *mirror.Error) {
			a.warn("warning: %v: refused, and not stored: %s", e.Key, errorText(e.Err))
		},
		OnKey: func(k mirror.ReplayKey) { failed = cmp.Or(failed, a.printReplayed(k)) },
	})
	if failed != nil {
		return failed
	}
	if !a.json && (err == nil || report.Batches > 0) {
		a.printReplay(report, opts.dryRun)
	}
	if err != nil && ctx.Err() == nil {
		return errReported // each transcript's error stands above
	}
	return err
}

func (a *app) printReplay(report mirror.ReplayReport, dryRun bool) {
	verb := "stored"
	if dryRun {
		verb = "would store"
	}
	a.printf("%s %s of %s, %s were there already\n", verb, plural(report.Entries, "entry"),
		plural(report.Keys, "transcript"), number(int64(report.Already)))
}

var spillName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// checkSpill refuses a directory of something else, in which replay would only
// fail, or remove what is empty. A spill that was delivered is empty itself.
func checkSpill(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !(e.IsDir() && spillName.MatchString(e.Name())) {
			return usagef("%s is not a directory that a mirror spills to: it holds %s", dir, e.Name())
		}
	}
	return nil
}

func (a *app) printReplayed(k mirror.ReplayKey) error {
	text := ""
	if k.Err != nil {
		text = errorText(k.Err)
	}
	if a.json {
		return a.printJSON(replayJSON{k.Key.ProjectKey, k.Key.SessionID, k.Key.Subpath, k.Batches, k.Entries, k.Already, k.Left, k.Missing, text})
	}
	if k.Err != nil {
		a.warn("%s; %s left", text, plural(k.Left, "file"))
	}
	return nil
}
