package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Work with agent sessions in any store.

A store is named by a URL:

  file:DIR                 a directory in the agent's own layout; ~ is your home
  file:DIR?readonly=true   never write to it
  file:DIR?fsync=true      wait for the disk at every append
  mem:                     in memory: empty, and gone when the command ends
  postgres://…             a PostgreSQL connection URL, or postgresql://…; also
                           schema=NAME and table_prefix=NAME; see "migrate"
  s3://BUCKET/PREFIX       S3 and its like; also region=NAME, endpoint=URL and
                           path_style=true
  redis://HOST:PORT        one Redis server; also prefix=TEXT and ttl=30d; a name
                           and password as NAME:PASSWORD@HOST:PORT
  redis-cluster://…        a cluster; other nodes as addr=HOST:PORT
  redis-sentinel://…       sentinels, with master_name=NAME; also
                           sentinel_username=NAME and sentinel_password=TEXT
  rediss://…, rediss-cluster://…, rediss-sentinel://…
                           the same three with TLS

An existing directory can be named without "file:". Commands use the store of
--store, or of the variable SESSIONSTORE_URL. Without either, commands that
only read use the agent's own sessions: $CLAUDE_CONFIG_DIR/projects, or
~/.claude/projects. They never write there.

A SESSION is an id, the first characters of one (at least 4), PROJECT/ID, or
PROJECT/ID#SUBPATH. A PROJECT is a project key as "projects" prints it; keys
may begin with a dash.

With --json results are one JSON object a line, on standard output.

Exit codes: 0 success; 1 failure, or stores that differ; 2 wrong usage;
3 no such session, project or store; 130 interrupted.`

var commands = []func(*app) *cobra.Command{
	newProjects, newLs, newInfo, newShow, newSubagents, newFork, newRename, newTag,
	newImport, newExport, newCopy, newRm, newPurge, newVerify, newWatch, newReplay, newMigrate, newRepair, newResume, newMemory, newDemo, newVersion,
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "sessionstore",
		Short: "List, read, fork, copy, check and delete agent sessions in any store",
		Long:  rootLong,
		Example: `  sessionstore demo
  sessionstore ls --all
  sessionstore show 814ed2c4
  sessionstore show 814ed2c4 --html session.html
  sessionstore import --to file:backup`,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args:                       unknownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.prepare(cmd)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.storeURL, "store", "s", "", "`URL` of the store to use (default $SESSIONSTORE_URL)")
	flags.BoolVar(&a.json, "json", false, "machine-readable output, one JSON object a line")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notes")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours (as with NO_COLOR)")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetIn(a.stdin)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad := (*strconv.NumError)(nil); errors.As(err, &bad) {
			err = fmt.Errorf("%q is not a number", bad.Num)
		}
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && strings.Contains(unknown.GetSpecifiedName(), "-") {
			return usagef("%v; see %s --help, or write -- before a project key that begins with two dashes", err, cmd.CommandPath())
		}
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	must(root.RegisterFlagCompletionFunc("store", a.completeStores))
	for _, newCommand := range commands {
		root.AddCommand(unmasked(newCommand(a)))
	}
	addCobraCommands(root)
	return root
}

// addCobraCommands makes the commands that cobra brings follow our rules.
func addCobraCommands(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Example = "  sessionstore help show"
		case "completion":
			cmd.Example = "  sessionstore completion bash > /etc/bash_completion.d/sessionstore"
			for _, shell := range cmd.Commands() {
				shell.Example = "  sessionstore completion " + shell.Name()
			}
		}
	}
}

// usesNoStore marks commands that have no use for --store.
const usesNoStore = "usesNoStore"

// prepare runs before every command.
func (a *app) prepare(cmd *cobra.Command) error {
	unmaskFlags(cmd)
	if err := refuseEmptyFlags(cmd); err != nil {
		return err
	}
	if why := cmd.Annotations[usesNoStore]; why != "" && cmd.Flags().Changed("store") {
		return usagef("%s does not use --store: %s", cmd.Name(), why)
	}
	return nil
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see sessionstore --help"
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		hint = "did you mean " + strings.Join(s, " or ") + "?"
	}
	return usagef("unknown command %q; %s", args[0], hint)
}

// argCount checks the number of arguments. A negative maximum is none.
func argCount(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low {
			return usagef("argument missing; use: %s", cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()))
		}
		if high >= 0 && len(args) > high {
			return usagef("too many arguments; use: %s", cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()))
		}
		return nil
	}
}

// dashMask marks arguments that begin with a dash and are no flags, so that
// the flag parser lets them pass: project keys begin with a dash, because they
// are made of absolute paths. No argument of a process can hold a NUL.
const dashMask = "\x00"

func maskDashArgs(args []string) []string {
	masked := slices.Clone(args)
	for i, arg := range masked {
		if arg == "--" {
			break
		}
		if len(arg) > 2 && arg[0] == '-' && (arg[1] != '-' && !isShortFlags(arg[1:]) || isDashedKey(arg)) {
			masked[i] = dashMask + arg
		}
	}
	return masked
}

// isDashedKey recognises --srv-app/ID, as messages write the session of a project
// whose key begins with two dashes. No flag has a slash in its name.
func isDashedKey(arg string) bool {
	flag, _, _ := strings.Cut(arg, "=")
	return strings.HasPrefix(arg, "--") && strings.Contains(flag, "/")
}

// isShortFlags recognises -qy, -s=URL, -sfile:DIR and -n5.
func isShortFlags(s string) bool {
	switch {
	case strings.Trim(s, "ahqy") == "", s[1] == '=':
		return true
	case s[0] == 's':
		return strings.Contains(s, ":")
	case s[0] == 'n':
		return strings.Trim(s[1:], "0123456789") == ""
	}
	return false
}

func unmask(s string) string { return strings.TrimPrefix(s, dashMask) }

func unmaskFlags(cmd *cobra.Command) {
	for _, name := range []string{"store", "project", "session", "subpath", "to", "from", "dir", "title", "up-to", "html", "scope"} {
		if f := cmd.Flags().Lookup(name); f != nil && strings.HasPrefix(f.Value.String(), dashMask) {
			must(f.Value.Set(unmask(f.Value.String())))
		}
	}
}

// refuseEmptyFlags: a flag that is given and empty is a variable that was never
// set. Taking it for a missing flag would widen what a command does.
func refuseEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = usagef("--%s is empty", f.Name)
		}
	})
	return err
}

// unmasked makes a command see its arguments as they were given. An empty one
// is refused, as an empty flag is.
func unmasked(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args = slices.Clone(args)
		for i := range args {
			if args[i] = unmask(args[i]); args[i] == "" {
				return usagef("an argument is empty")
			}
		}
		return run(cmd, args)
	}
	return cmd
}

// must is for calls that can only fail by a mistake in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
