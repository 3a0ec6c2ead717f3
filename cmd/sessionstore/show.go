package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

type showOptions struct {
	project   string
	subpath   string
	subagents bool
	full      bool
}

func newShow(a *app) *cobra.Command {
	var opts showOptions
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Print the conversation of a session",
		Long: `Print the conversation of a session in the order in which it was written: who
said what and when, tool calls as one line, tool results shortened. Control
characters in a transcript are made visible, so it cannot control the terminal.

With --json the raw entries are printed, one a line, byte for byte as stored;
with --subagents those of all transcripts, main transcript first.`,
		Example: `  sessionstore show 814ed2c4
  sessionstore show 814ed2c4 --subagents --full
  sessionstore show 814ed2c4 --subpath agent-a54a
  sessionstore show -s file:backup -home-dev-app/814ed2c4 --json | jq .type`,
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), args[0], opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.project, "project", "p", "", "`PROJECT` of the session: a key, or the directory it stands for")
	flags.StringVar(&opts.subpath, "subpath", "", "`NAME` of one transcript of the session to print")
	flags.BoolVar(&opts.subagents, "subagents", false, "print all other transcripts after the main one")
	flags.BoolVar(&opts.full, "full", false, "do not shorten anything")
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
	return cmd
}

func (a *app) show(ctx context.Context, arg string, opts showOptions) (err error) {
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	key, err := a.findTranscript(ctx, h, arg, opts.project, opts.subpath)
	if err != nil {
		return err
	}
	if key.Subpath != "" && opts.subagents {
		return usagef("--subagents is for whole sessions, not for the transcript %s", key.Subpath)
	}
	keys := []sessionstore.Key{key}
	var subpaths []string
	if key.Subpath == "" {
		subpaths, err = sessionstore.ListSubkeys(ctx, h.store, key.ProjectKey, key.SessionID)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if opts.subagents {
		for _, sub := range subpaths {
			k := key
			k.Subpath = sub
			keys = append(keys, k)
		}
	}
	if a.json {
		return a.showRaw(ctx, h, keys)
	}
	return a.showReadable(ctx, h, keys, subpaths, opts.full)
}

// findTranscript finds what SESSION, --project and --subpath name together.
func (a *app) findTranscript(ctx context.Context, h *handle, arg, project, subpath string) (sessionstore.Key, error) {
	var err error
	if project != "" {
		if project, err = projectArg(project); err != nil {
			return sessionstore.Key{}, err
		}
	}
	key, err := findSession(ctx, h, arg, project)
	if err != nil {
		return key, err
	}
	if subpath == "" {
		subpath = key.Subpath
	} else if key.Subpath != "" {
		return key, usagef("%s names a subpath, and so does --subpath", arg)
	}
	if subpath == "" {
		return key, nil
	}
	return findSubpath(ctx, h, key.Main(), subpath)
}

func (a *app) showRaw(ctx context.Context, h *handle, keys []sessionstore.Key) error {
	for _, key := range keys {
		if err := a.writeLines(ctx, h, key); err != nil {
			return err
		}
	}
	return nil
}

// writeLines prints the entries of one transcript, one a line.
func (a *app) writeLines(ctx context.Context, h *handle, key sessionstore.Key) error {
	for e, err := range sessionstore.Stream(ctx, h.store, key) {
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(e.Line()); err != nil {
			return err
		}
		if err := a.stdout.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showReadable(ctx context.Context, h *handle, keys []sessionstore.Key, subpaths []string, full bool) error {
	v := newView(a.stdout, a.style(), min(a.out.width, maxTextWidth), full)
	for _, key := range keys {
		if len(keys) > 1 || key.Subpath != "" {
			v.title(key)
		}
		for e, err := range sessionstore.Stream(ctx, h.store, key) {
			if err != nil {
				return err
			}
			v.entry(e)
			if a.out.is { // let the reader begin
				if err := a.stdout.Flush(); err != nil {
					return err
				}
			}
			if err := v.err; err != nil {
				return err
			}
		}
		v.footer()
	}
	if len(keys) == 1 && len(subpaths) > 0 {
		v.subpaths(subpaths)
	}
	return v.err
}
