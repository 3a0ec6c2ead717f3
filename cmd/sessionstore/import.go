package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

type importOptions struct {
	from, to string
	transferFlags
}

func newImport(a *app) *cobra.Command {
	var opts importOptions
	cmd := &cobra.Command{
		Use:   "import [DIR|URL] [PROJECT|SESSION] --to URL",
		Short: "Bring sessions into a store, by default the agent's own",
		Long: `Copy sessions from a directory that an agent writes, or from any store, into a
store. Without DIR or URL the source is the agent's own directory. The first
argument is the source if it is a URL or an existing directory and no project
key that begins with a dash; behind --from
arguments name only what to import, and a directory then stands for the
project of the sessions that ran in it.

` + transferHelp,
		Example: `  sessionstore import --to file:backup
  sessionstore import ~/.claude/projects --to file:/mnt/backup
  sessionstore import --from file:~/.claude/projects --to file:backup .
  sessionstore import --to file:backup 814ed2c4`,
		Args:              argCount(0, 2),
		ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importSessions(cmd.Context(), args, opts)
		},
	}
	cmd.Flags().StringVar(&opts.from, "from", "", "`URL` of the source (default: the agent's own directory)")
	cmd.Flags().StringVar(&opts.to, "to", "", "`URL` of the destination (default --store or $SESSIONSTORE_URL)")
	must(cmd.RegisterFlagCompletionFunc("from", a.completeStores))
	must(cmd.RegisterFlagCompletionFunc("to", a.completeStores))
	opts.register(cmd)
	return cmd
}

// importArgs finds out which argument is the source and which the scope.
func importArgs(args []string, from string) (source, scope string, err error) {
	source, rest := from, args
	if from == "" && len(args) > 0 && isSource(args[0]) {
		source, rest = args[0], args[1:]
	}
	switch {
	case len(rest) > 1:
		return "", "", usagef("%s is no store and no existing directory, so %s is one argument too many", rest[0], rest[1])
	case len(rest) == 1:
		scope = rest[0]
	}
	if source == "" {
		source, err = agentDir()
	}
	return source, scope, err
}

func isSource(arg string) bool {
	if _, _, ok := cutScheme(arg); ok {
		return true
	}
	dir, err := expandHome(arg)
	return err == nil && !looksLikeKey(arg) && (looksLikePath(dir) || isDir(dir))
}

func (a *app) importSessions(ctx context.Context, args []string, opts importOptions) (err error) {
	to := cmp.Or(opts.to, a.storeURL, os.Getenv("SESSIONSTORE_URL"))
	if to == "" {
		return usagef("where to? name the destination with --to")
	}
	from, what, err := importArgs(args, opts.from)
	if err != nil {
		return err
	}
	src, err := a.open(ctx, from, reading)
	if errors.Is(err, sessionstore.ErrNotFound) && opts.from == "" && len(args) == 1 {
		return notFoundf("%v; if %s is the directory of a project, name the source with --from", err, args[0])
	}
	if err != nil {
		return err
	}
	defer src.closeInto(&err)
	scope, err := importScope(ctx, src, what)
	if err != nil {
		return err
	}
	dst, err := a.openDestination(ctx, to, src, opts.dryRun)
	if err != nil {
		return err
	}
	defer dst.closeInto(&err)
	return a.transfer(ctx, dst, src, scope, opts.transferFlags)
}

// importScope finds what to import. It fails if there is nothing, because a
// mistyped source would otherwise look like success.
func importScope(ctx context.Context, src *handle, what string) (sessionstore.Key, error) {
	projects, err := sessionstore.ListProjects(ctx, src.store)
	if err != nil {
		return sessionstore.Key{}, err
	}
	if len(projects) == 0 {
		return sessionstore.Key{}, notFoundf("no sessions in %s; a source holds a directory per project, as ~/.claude/projects does", src.name)
	}
	if what == "" {
		return sessionstore.Key{}, nil
	}
	project, err := projectIn(ctx, src, what)
	if err != nil {
		return sessionstore.Key{}, err
	}
	if slices.Contains(projects, project) {
		return sessionstore.Key{ProjectKey: project}, nil
	}
	if project != what {
		return sessionstore.Key{}, notFoundf("no sessions of %s (project %s) in %s", what, name(project), src.name)
	}
	return findSession(ctx, src, what, "")
}
