package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newCopy(a *app) *cobra.Command {
	var flags transferFlags
	var scope scopeFlags
	cmd := &cobra.Command{
		Use:     "copy SRC DST",
		Aliases: []string{"cp"},
		Short:   "Copy sessions from one store to another",
		Long: `Copy everything, a project or a session, with all its transcripts, between any
two stores.

` + transferHelp,
		Example: `  sessionstore copy file:~/.claude/projects file:/mnt/backup
  sessionstore copy file:a file:b --project -home-dev-app --dry-run
  sessionstore copy file:a file:b --session 814ed2c4`,
		Args:              argCount(2, 2),
		ValidArgsFunction: a.completeStores,
		Annotations:       map[string]string{usesNoStore: "its stores are arguments"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.copyStores(cmd.Context(), args[0], args[1], scope, flags)
		},
	}
	flags.register(cmd)
	scope.register(a, cmd)
	return cmd
}

func (f *scopeFlags) register(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.project, "project", "p", "", "only this `PROJECT`: a key, or the directory it stands for")
	cmd.Flags().StringVar(&f.session, "session", "", "only this `SESSION`, with all its transcripts")
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
	must(cmd.RegisterFlagCompletionFunc("session", a.completeSessions))
}

func (a *app) copyStores(ctx context.Context, from, to string, f scopeFlags, flags transferFlags) (err error) {
	src, err := a.open(ctx, from, reading)
	if err != nil {
		return err
	}
	defer src.closeInto(&err)
	scope, err := f.scope(ctx, src)
	if err != nil {
		return err
	}
	dst, err := a.openDestination(ctx, to, src, flags.dryRun)
	if err != nil {
		return err
	}
	defer dst.closeInto(&err)
	return a.transfer(ctx, dst, src, scope, flags)
}
