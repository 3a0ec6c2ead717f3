package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
	"github.com/sessionstore/sessionstore/session"
)

type resumeOptions struct {
	project      string
	latest, keep bool
}

func newResume(a *app) *cobra.Command {
	var opts resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [SESSION] [-- COMMAND [ARG…]]",
		Short: "Bring a session to this machine and go on with it",
		Long: `Write a session into a private temporary directory that an agent can use as its
config directory, with what it needs to start: credentials without refresh
tokens, and settings without plugins. The id must be a UUID. With --continue it
is the newest session of --project, or of the current directory.

With a command, run it with CLAUDE_CONFIG_DIR set; {} in its arguments becomes
the id. When it has ended, what it has written is added to the store, and the
directory is removed. The exit code is that of the command. If the store can't
take everything, or lines are damaged, the directory is kept and named, and the
exit code is not 0. Of a kept directory, with --keep too, the transcripts are
kept and nothing else. SIGTERM and SIGHUP are passed on to the command.

Without a command, print shell lines that set the variables. The directory is
yours then: bring new turns back with "watch --once", and remove it.

A session that lies under several project keys, as after a move into a git
worktree, is taken where it was written last.

JSON, without a command: sessionId, projectKey, configDir, env, args.`,
		Example: `  sessionstore resume -s file:backup 814ed2c4 -- claude --resume={}
  sessionstore resume -s file:backup --continue -- claude --resume={}
  eval "$(sessionstore resume -s file:backup 814ed2c4)"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			if opts.latest {
				return argCount(0, 0)(cmd, args)
			}
			return argCount(1, 1)(cmd, args)
		},
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			var command []string
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				if args, command = args[:n], args[n:]; len(command) == 0 {
					return usagef("there is no command behind --")
				}
			}
			return a.resume(cmd.Context(), args, command, opts)
		},
	}
	a.projectFlag(cmd, &opts.project)
	cmd.Flags().BoolVarP(&opts.latest, "continue", "c", false, "take the newest session of the project")
	cmd.Flags().BoolVar(&opts.keep, "keep", false, "leave the directory when the command has ended")
	return cmd
}

func (a *app) resume(ctx context.Context, args, command []string, opts resumeOptions) (err error) {
	mode := reading
	if len(command) > 0 {
		mode = writing
	}
	if signals := hangup(); len(signals) > 0 && len(command) > 0 {
		// To the end: a closed terminal sends more than one, and the directory
		// must not stay.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, signals...)
		defer stop()
	}
	h, err := a.openStore(ctx, mode)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	ro, err := a.resumeWhat(ctx, h, args, opts)
	if err != nil {
		return err
	}
	unsaved := false
	ro.KeepOnMirrorLoss = func() bool { return unsaved }
	ro.OnSkip = func(s resume.Skip) { a.warn("left out: %v", s) }
	s, err := resume.Materialize(ctx, h.store, ro)
	if bad := (*resume.OptionError)(nil); errors.As(err, &bad) && !errors.Is(err, errors.ErrUnsupported) {
		return usagef("%v", bad.Err)
	}
	if err != nil {
		return err
	}
	if !s.Found {
		return errors.Join(notFoundf("no session to resume in %s of %s", name(s.Key.ProjectKey), h.name), s.Close())
	}
	if len(command) == 0 {
		return a.printResume(h, s)
	}
	return a.runResumed(ctx, h, s, command, opts.keep, &unsaved)
}

// resumeWhat finds the session that the reader means.
func (a *app) resumeWhat(ctx context.Context, h *handle, args []string, opts resumeOptions) (ro resume.Options, err error) {
	if opts.project != "" {
		if ro.ProjectKey, err = projectArg(opts.project); err != nil {
			return ro, err
		}
	}
	if opts.latest {
		ro.Continue = true
		return ro, nil
	}
	if id := wholeID(ctx, h, args[0]); ro.ProjectKey == "" && id != "" {
		places, err := session.Locate(ctx, h.store, id, nil)
		if err == nil && len(places) > 1 {
			a.note("%s is under %d project keys; taking the newest one, %s", id, len(places), name(places[0].Key.ProjectKey))
		}
		if err == nil && len(places) > 0 {
			ro.ProjectKey, ro.SessionID = places[0].Key.ProjectKey, places[0].Key.SessionID
			return ro, nil
		}
	}
	key, err := a.findWholeSession(ctx, h, args[0], opts.project)
	ro.ProjectKey, ro.SessionID = key.ProjectKey, key.SessionID
	return ro, err
}

// wholeID returns the id that an argument stands for, alone or under several
// project keys, or nothing if there is none or more than one.
func wholeID(ctx context.Context, h *handle, arg string) string {
	if resume.CheckSessionID(arg) == nil {
		return arg
	}
	want, err := parseKey(arg)
	if err != nil || want.ProjectKey != "" || want.Subpath != "" {
		return ""
	}
	projects, err := sessionstore.ListProjects(ctx, h.store)
	if err != nil {
		return ""
	}
	found, similar, err := matching(ctx, h, want, projects)
	if err != nil {
		return ""
	}
	id := ""
	for _, key := range append(found, similar...) {
		if id != "" && key.SessionID != id || resume.CheckSessionID(key.SessionID) != nil {
			return ""
		}
		id = key.SessionID
	}
	return id
}

type resumeJSON struct {
	SessionID  string            `json:"sessionId"`
	ProjectKey string            `json:"projectKey"`
	ConfigDir  string            `json:"configDir"`
	Env        map[string]string `json:"env"`
	Args       []string          `json:"args"`
}

// printResume prints what an agent needs. The directory stays.
func (a *app) printResume(h *handle, s *resume.Session) error {
	s.Release()
	set := map[string]string{}
	for _, variable := range []string{"CLAUDE_CONFIG_DIR", "CLAUDE_CODE_PROJECT_DIR_NAME"} {
		for _, entry := range s.Env() {
			if value, ok := strings.CutPrefix(entry, variable+"="); ok {
				set[variable] = value
				if !a.json {
					a.printf("export %s=%s\n", variable, quoteShell(value))
				}
			}
		}
	}
	if a.json {
		return a.printJSON(resumeJSON{s.Key.SessionID, s.Key.ProjectKey, s.ConfigDir, set, s.Args()})
	}
	a.printf("# claude %s\n", strings.Join(s.Args(), " "))
	a.note("the directory is yours; afterwards: %s watch --once --to %s %s && rm -r %s", invocation(), quoteShell(h.name),
		quoteShell(filepath.Join(s.ConfigDir, "projects")), quoteShell(s.ConfigDir))
	return nil
}

// exitCode is the exit code of a command that was run.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// runResumed runs a command on the session and saves what it has written. From
// the moment at which the command has begun, nothing may cut that short.
func (a *app) runResumed(ctx context.Context, h *handle, s *resume.Session, command []string, keep bool, unsaved *bool) error {
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "{}", s.Key.SessionID)
	}
	if err := a.stdout.Flush(); err != nil {
		return errors.Join(err, s.Close())
	}
	ctx = context.WithoutCancel(ctx)
	ran := a.runCommand(command, s.Env())
	report, err := a.saveResumed(ctx, h, s)
	if err != nil {
		*unsaved = true
		return fmt.Errorf("%w: save what the command has written: %w", s.Close(), err)
	}
	a.note("%s added to %s", plural(int(report.Entries), "entry"), h.name)
	if report.Skipped > 0 {
		*unsaved = true
		return fmt.Errorf("%w: what was left out is not in the store", s.Close())
	}
	*unsaved = keep
	err = s.Close()
	if kept, ok := err.(*resume.KeptError); ok && keep {
		a.note("kept %s, without credentials and settings", kept.Dir)
		err = nil
	}
	if err != nil {
		return err
	}
	return ran
}

// saveResumed brings what is new in the directory into the store: of the
// session, and of what else has begun there, such as another one after /clear.
func (a *app) saveResumed(ctx context.Context, h *handle, s *resume.Session) (mirror.WatchReport, error) {
	return mirror.Watch(ctx, s.ProjectsDir(), s.Store(h.store), &mirror.WatchOptions{
		Once:   true,
		OnSkip: func(skip mirror.WatchSkip) { a.warn("left out: %s: %v", skip.Path, skip.Err) },
	})
}
