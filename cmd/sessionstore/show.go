package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

type showOptions struct {
	project   string
	subpath   string
	subagents bool
	full      bool
	noPager   bool
	html      string
	conversationOptions
}

const showLong = `Print the conversation of a session as the agent sees it: who said what and
when, tool calls as one line, tool results shortened, summaries of compactions
marked. Control characters in a transcript are made visible, so it cannot
control the terminal. On a terminal, output that is longer than the screen goes
through $PAGER (default: less -FRX).

A message that names a parent that is missing leaves a gap: what lies before it
cannot be reached. It is marked and reported; --bridge goes on with the entry
stored before it. --all prints all messages in stored order: also abandoned
branches, what lies before a compaction, and notices of the agent. A session
whose id is no UUID, or which has no conversation, is printed like that too.
Entries that are no messages are only counted; --json prints all entries.

--html writes a page that needs nothing else, with the subagents inside and
with nothing shortened.

With --json the raw entries are printed, one a line, byte for byte as stored and
in stored order; with --subagents those of all transcripts, main transcript
first.`

func newShow(a *app) *cobra.Command {
	var opts showOptions
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Print the conversation of a session, or make a page of it",
		Long:  showLong,
		Example: `  sessionstore show 814ed2c4
  sessionstore show 814ed2c4 --subagents --full
  sessionstore show 814ed2c4 --subpath agent-a54a
  sessionstore show 814ed2c4 --html session.html
  sessionstore show -s file:backup -home-dev-app/814ed2c4 --json | jq .type`,
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.check(a); err != nil {
				return err
			}
			return a.show(cmd.Context(), args[0], opts)
		},
	}
	a.projectFlag(cmd, &opts.project)
	flags := cmd.Flags()
	flags.StringVar(&opts.subpath, "subpath", "", "`NAME` of one transcript of the session to print")
	must(cmd.RegisterFlagCompletionFunc("subpath", a.completeSubpaths))
	flags.BoolVar(&opts.subagents, "subagents", false, "print all other transcripts after the main one")
	flags.BoolVar(&opts.full, "full", false, "do not shorten anything")
	flags.BoolVarP(&opts.all, "all", "a", false, "all messages in stored order, not just the conversation")
	flags.BoolVar(&opts.system, "system", false, "also notices of the agent, such as where it compacted")
	flags.BoolVar(&opts.bridge, "bridge", false, "go on before a gap with the entry stored before it")
	flags.BoolVar(&opts.noPager, "no-pager", false, "print straight to the terminal")
	flags.StringVar(&opts.html, "html", "", "write a web page to `FILE` (-: standard output)")
	return cmd
}

func (o showOptions) check(a *app) error {
	switch {
	case a.json && o.html != "":
		return usagef("give --json or --html, not both")
	case a.json && (o.system || o.bridge):
		return usagef("--json prints the stored entries; --system and --bridge have no use there")
	case o.all && o.bridge:
		return usagef("--all prints the messages as they are stored; --bridge has no use there")
	}
	return nil
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
	var subpaths []string
	if key.Subpath == "" {
		if subpaths, err = listSubpaths(ctx, h, key); err != nil {
			return err
		}
	}
	if opts.html != "" {
		return a.showHTML(ctx, h, key, subpaths, opts)
	}
	keys := []sessionstore.Key{key}
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
	return a.showReadable(ctx, h, keys, subpaths, opts)
}

// findTranscript finds what SESSION, --project and --subpath name together.
func (a *app) findTranscript(ctx context.Context, h *handle, arg, project, subpath string) (sessionstore.Key, error) {
	var err error
	if project != "" {
		if project, err = projectIn(ctx, h, project); err != nil {
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
		err := a.writeLines(ctx, h, key)
		if err != nil && key.Subpath != "" && len(keys) > 1 {
			err = h.passOver(ctx, err)
		}
		if err != nil {
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

func (a *app) showReadable(ctx context.Context, h *handle, keys []sessionstore.Key, subpaths []string, opts showOptions) error {
	var withGaps []transcript // reported when the pager is gone
	var unread []error        // of subagents beside others; the same
	err := a.paged(ctx, opts.noPager, func(ctx context.Context) error {
		v := newView(a.stdout, a.style(), min(a.out.width, maxTextWidth), opts.full)
		for _, key := range keys {
			t, err := a.showOne(ctx, h, v, key, len(keys) > 1, opts)
			if err != nil && v.err == nil && key.Subpath != "" && len(keys) > 1 && h.isLocal(ctx, err) {
				unread, err = append(unread, err), nil
			}
			if err != nil {
				return err
			}
			if len(t.gaps) > 0 {
				withGaps = append(withGaps, transcript{key: key, gaps: t.gaps})
			}
		}
		if len(keys) == 1 && len(subpaths) > 0 {
			v.subpaths(subpaths)
		}
		return v.err
	})
	for _, t := range withGaps {
		a.reportGaps(t)
	}
	for _, e := range unread {
		err = cmp.Or(err, h.passOver(ctx, e))
	}
	return err
}

// showOne prints one transcript, with a title if there are others.
func (a *app) showOne(ctx context.Context, h *handle, v *view, key sessionstore.Key, others bool, opts showOptions) (transcript, error) {
	t, err := openTranscript(ctx, h, key, opts.conversationOptions)
	if err == nil && (others || key.Subpath != "") {
		err = a.showTitle(ctx, h, v, key)
	}
	if err == nil {
		err = a.showTranscript(v, t)
	}
	return t, err
}

// showTitle begins one of several transcripts. A subagent's says what it is.
func (a *app) showTitle(ctx context.Context, h *handle, v *view, key sessionstore.Key) error {
	label := ""
	if _, ok := agentOf(key.Subpath); ok {
		f, err := readAgent(ctx, h, key)
		if err != nil {
			return err
		}
		label = f.label()
	}
	v.title(key, label)
	return nil
}

func (a *app) showTranscript(v *view, t transcript) error {
	v.stored = t.stored
	for it, err := range t.items {
		if err != nil {
			return err
		}
		if it.gap != nil {
			v.gap(it.gapMark())
		} else {
			v.entry(it.entry)
		}
		if a.out.is { // let the reader begin
			if err := a.stdout.Flush(); err != nil {
				return err
			}
		}
		if v.err != nil {
			return v.err
		}
	}
	v.footer()
	return v.err
}
