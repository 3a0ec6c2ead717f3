package main

import (
	"context"

	"github.com/spf13/cobra"
)

type exportOptions struct {
	project, subpath string
	transferFlags
}

func newExport(a *app) *cobra.Command {
	var opts exportOptions
	cmd := &cobra.Command{
		Use:   "export SESSION DIR|-",
		Short: "Write a session as files, or its transcript to standard output",
		Long: `Write a session into a directory in the layout that the agent uses, main
transcript and subagents, so that it can be read and resumed there. With "-"
the main transcript (or the one of --subpath) goes to standard output instead,
one entry a line, byte for byte as stored.

` + transferHelp,
		Example: `  sessionstore export -s file:backup 814ed2c4 ~/.claude/projects
  sessionstore export -s file:backup 814ed2c4 - > session.jsonl
  sessionstore export 814ed2c4 - --subpath agent-a54a`,
		Args:              argCount(2, 2),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.export(cmd.Context(), args[0], args[1], opts)
		},
	}
	cmd.Flags().StringVarP(&opts.project, "project", "p", "", "`PROJECT` of the session: a key, or the directory it stands for")
	cmd.Flags().StringVar(&opts.subpath, "subpath", "", "`NAME` of the only transcript to export")
	must(cmd.RegisterFlagCompletionFunc("subpath", a.completeSubpaths))
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
	opts.register(cmd)
	return cmd
}

func (a *app) export(ctx context.Context, arg, to string, opts exportOptions) (err error) {
	src, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer src.closeInto(&err)
	key, err := a.findTranscript(ctx, src, arg, opts.project, opts.subpath)
	if err != nil {
		return err
	}
	if to == "-" {
		if opts.asMirrored {
			src.store = asMirrored{src.store}
		}
		return a.writeLines(ctx, src, key)
	}
	name, _, isURL := cutScheme(to)
	if !isURL {
		to = "file:" + to
	} else if name != "file" {
		return usagef("export writes a directory; use copy --session %s for %s", arg, redact(to))
	}
	dst, err := a.openDestination(ctx, to, src, opts.dryRun)
	if err != nil {
		return err
	}
	defer dst.closeInto(&err)
	return a.transfer(ctx, dst, src, key, opts.transferFlags)
}
