package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

const (
	// A shell waits for completions, so a slow store gives none.
	completionTimeout = 2 * time.Second
	// More than a screen of ids helps nobody.
	completionLimit = 200
)

type completions = []cobra.Completion

// forCompletion opens the store that the command line names, if it can.
func (a *app) forCompletion(cmd *cobra.Command, args []string, use func(context.Context, *handle)) {
	unmaskFlags(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	h, err := a.openSource(ctx, cmd, args)
	if err != nil {
		return
	}
	defer h.closeInto(&err)
	h.app = nil // what can't be read is passed over in silence
	use(ctx, h)
}

// openSource opens the store whose sessions a command takes as arguments.
func (a *app) openSource(ctx context.Context, cmd *cobra.Command, args []string) (*handle, error) {
	switch cmd.Name() {
	case "import":
		from, err := cmd.Flags().GetString("from")
		if err == nil && from == "" {
			from, err = agentDir()
		}
		if err != nil {
			return nil, err
		}
		return a.open(ctx, from, reading)
	case "copy", "verify":
		if len(args) > 0 {
			return a.open(ctx, args[0], reading)
		}
	}
	return a.openStore(ctx, reading)
}

// completeSessions offers the newest session ids, with age and project.
func (a *app) completeSessions(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	var list completions
	a.forCompletion(cmd, args, func(ctx context.Context, h *handle) {
		rows, err := listAllSessions(ctx, h)
		if err != nil {
			return
		}
		ids := make(map[string]int)
		for _, r := range rows {
			ids[r.SessionID]++
		}
		for _, r := range rows[:min(len(rows), completionLimit)] {
			text := name(r.SessionID)
			if ids[r.SessionID] > 1 {
				text = r.key().String()
			}
			list = append(list, cobra.CompletionWithDesc(text, a.age(r.Mtime)+" ago, "+name(r.project)))
		}
	})
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeOneSession is for commands whose first argument is a session and
// whose second one, if any, is a directory.
func (a *app) completeOneSession(cmd *cobra.Command, args []string, toComplete string) (completions, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return a.completeSessions(cmd, args, toComplete)
	case len(args) == 1 && cmd.Name() == "export":
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeSubpaths offers the other transcripts of the session that stands
// before the flag.
func (a *app) completeSubpaths(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	var list completions
	if len(args) > 0 {
		a.forCompletion(cmd, args, func(ctx context.Context, h *handle) {
			session, err := findSession(ctx, h, args[0], "")
			if err != nil {
				return
			}
			list, _ = sessionstore.ListSubkeys(ctx, h.store, session.ProjectKey, session.SessionID)
		})
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeProjects(cmd *cobra.Command, args []string, _ string) (completions, cobra.ShellCompDirective) {
	var list completions
	a.forCompletion(cmd, args, func(ctx context.Context, h *handle) {
		projects, err := sessionstore.ListProjects(ctx, h.store)
		if err != nil {
			return
		}
		for _, p := range projects {
			list = append(list, name(p))
		}
	})
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeProjectsOrDirs offers project keys, and lets the shell offer
// directories when none fits.
func (a *app) completeProjectsOrDirs(cmd *cobra.Command, args []string, toComplete string) (completions, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := a.completeProjects(cmd, args, toComplete)
	return list, cobra.ShellCompDirectiveDefault
}

// completeStores offers the forms of store URLs, and paths.
func (a *app) completeStores(*cobra.Command, []string, string) (completions, cobra.ShellCompDirective) {
	var list completions
	for _, s := range schemes {
		list = append(list, cobra.CompletionWithDesc(s.name+":", s.form))
	}
	return list, cobra.ShellCompDirectiveNoSpace
}

// noFileCompletion is for flags whose values only the reader knows.
func noFileCompletion(cmd *cobra.Command, flags ...string) {
	for _, f := range flags {
		must(cmd.RegisterFlagCompletionFunc(f, cobra.NoFileCompletions))
	}
}
