package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

type watchOptions struct {
	to       string
	once     bool
	interval time.Duration
	maxAge   string
}

func newWatch(a *app) *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:   "watch [DIR] --to URL",
		Short: "Mirror the agent's own sessions into a store as they grow",
		Long: `Look at a directory that agents write again and again, and append what is new
to a store, until SIGINT or SIGTERM; then look once more and end. Without DIR it
is the agent's own directory.

A transcript that is seen first is compared with the store, and what is missing
is appended, so nothing is lost while the command is not running. That reads
all transcripts, here and in the store; --max-age leaves out old ones until
they are written to again. Lines that agents never mirror are left out:
requests (types api-request…) and journals of workflows. "import" keeps them,
so keep a backup by one of the two, or give --as-mirrored to import and verify.

In a private directory, such as one that a killed host has left behind or that
"resume" has printed, the session is stored under the project key that the
directory's record says. The record must be yours and closed to others. Who has
an agent that is not to be trusted looks at the key that is named, or uses
host.Recover of the Go packages.

While the store cannot be reached the command goes on trying. Do not use it
where a host mirrors the same sessions: what has no uuid would be stored twice.

JSON: one object for each batch stored, with projectKey, sessionId, subpath,
entries, bytes, catchUp; then one with transcripts, batches, entries, bytes,
notMirrored, skipped, failures.`,
		Example: `  sessionstore watch --to postgres://me@localhost/agents
  sessionstore watch ~/.claude/projects --to file:/mnt/backup --once
  sessionstore watch --to redis://localhost --max-age 7d`,
		Args:              argCount(0, 1),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.watch(cmd.Context(), args, opts)
		},
	}
	cmd.Flags().StringVar(&opts.to, "to", "", "`URL` of the store (default --store or $SESSIONSTORE_URL)")
	cmd.Flags().BoolVar(&opts.once, "once", false, "bring the store up to date and end")
	cmd.Flags().DurationVar(&opts.interval, "interval", mirror.DefaultInterval, "`PAUSE` between two looks at the directory")
	cmd.Flags().StringVar(&opts.maxAge, "max-age", "", "leave out transcripts last written longer ago than this `AGE`, such as 7d")
	must(cmd.RegisterFlagCompletionFunc("to", a.completeStores))
	return cmd
}

func (o watchOptions) settings() (wo mirror.WatchOptions, err error) {
	wo = mirror.WatchOptions{Once: o.once, Interval: o.interval}
	if o.interval <= 0 {
		return wo, usagef("--interval %v: it must be longer than nothing", o.interval)
	}
	if o.maxAge != "" {
		wo.MaxAge, err = parseAge(o.maxAge)
	}
	return wo, err
}

func (a *app) watch(ctx context.Context, args []string, opts watchOptions) (err error) {
	to := cmp.Or(opts.to, a.storeURL, os.Getenv("SESSIONSTORE_URL"))
	if to == "" {
		return usagef("where to? name the store with --to")
	}
	wo, err := opts.settings()
	if err != nil {
		return err
	}
	dir, err := a.watchedDir(args, opts.once)
	if err != nil {
		return err
	}
	dst, err := a.openDestination(ctx, to, &handle{name: dir, dir: dir}, false)
	if err != nil {
		return err
	}
	defer dst.closeInto(&err)
	private, err := privateDir(dir)
	if err != nil {
		return err
	}
	tell, store := watchTeller{a: a, to: dst.name}, dst.store
	tell.note("watching %s for %s", dir, dst.name)
	if private != nil {
		defer private.Close()
		store = private.Store(store)
		tell.note("it is a host's private directory; its project key is %s", name(private.Key.ProjectKey))
	}
	wo.OnAppend, wo.OnSkip, wo.OnError = tell.stored, tell.skipped, tell.failed
	report, err := mirror.Watch(ctx, dir, store, &wo)
	if err == nil || report.Entries > 0 {
		err = cmp.Or(err, tell.report(report))
	}
	err = notStored(err)
	if err != nil && ctx.Err() != nil && !opts.once {
		a.fail(errorText(err)) // it ended as asked, but not all is stored
		return errReported
	}
	return err
}

// watchedDir is the directory to watch. It may be made later by the agent.
func (a *app) watchedDir(args []string, mustExist bool) (dir string, err error) {
	if len(args) > 0 {
		dir, err = expandHome(args[0])
	} else {
		dir, err = agentDir()
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && mustExist:
		return "", notFoundf("no directory %s", dir)
	case errors.Is(err, os.ErrNotExist):
		a.note("note: there is no directory %s yet; waiting for it", dir)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", usagef("%s is not a directory", dir)
	}
	return dir, refuseConfigDir(dir)
}

// privateDir opens what resume or a host has made for one session: its record
// says under which project key the session is kept. Nil is an ordinary
// directory.
func privateDir(dir string) (*resume.Leftover, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || filepath.Base(real) != "projects" {
		return nil, nil // it may not be there yet
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(real), resume.RecordFile)); err != nil {
		return nil, nil
	}
	l, err := resume.OpenLeftover(filepath.Dir(real))
	if errors.Is(err, resume.ErrInUse) {
		return nil, usagef("%s is in use: its host stores what is written there", dir)
	}
	return l, err
}

// notStored makes one line of an error that joins those of many transcripts.
// Each of them has been told already.
func notStored(err error) error {
	joined, ok := errors.Unwrap(err).(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var failed []error
	for _, e := range joined.Unwrap() {
		if _, ok := e.(interface{ Unwrap() error }); ok {
			failed = append(failed, e) // others are of the directory, or the end of the time
		}
	}
	if len(failed) < 2 {
		return err
	}
	return fmt.Errorf("%s not stored: %w", plural(len(failed), "transcript"), failed[0])
}

// watchTeller says what happens. Callbacks come from several goroutines, but
// never from two at a time.
type watchTeller struct {
	a  *app
	to string
	mu sync.Mutex
}

func (w *watchTeller) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.a.note(format, args...)
}

// warn writes a line with the time: somebody reads it later.
func (w *watchTeller) warn(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.a.warn("%s "+format, append([]any{w.a.now().Format(time.TimeOnly)}, args...)...)
}

type watchAppendJSON struct {
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	Subpath    string `json:"subpath,omitempty"`
	Entries    int    `json:"entries"`
	Bytes      int    `json:"bytes"`
	CatchUp    bool   `json:"catchUp"`
}

func (w *watchTeller) stored(s mirror.WatchAppend) {
	if w.a.json {
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = w.a.printJSON(watchAppendJSON{s.Key.ProjectKey, s.Key.SessionID, s.Key.Subpath, s.Entries, s.Bytes, s.CatchUp})
		w.a.stdout.Flush() // who reads it waits for it
		return
	}
	if !w.a.quiet {
		w.warn("%v: stored %s (%s)", s.Key, plural(s.Entries, "entry"), size(int64(s.Bytes)))
	}
}

func (w *watchTeller) skipped(s mirror.WatchSkip) {
	if s.Line == 0 {
		w.warn("warning: passed over %s: %v", s.Path, s.Err)
		return
	}
	w.warn("warning: passed over %s line %d: %v", s.Path, s.Line, s.Err)
}

func (w *watchTeller) failed(e *mirror.Error) {
	w.warn("warning: %v: not stored: %s", e.Key, errorText(e.Err))
}

type watchJSON struct {
	Transcripts int   `json:"transcripts"`
	Batches     int   `json:"batches"`
	Entries     int64 `json:"entries"`
	Bytes       int64 `json:"bytes"`
	NotMirrored int64 `json:"notMirrored"`
	Skipped     int64 `json:"skipped"`
	Failures    int64 `json:"failures"`
}

func (w *watchTeller) report(r mirror.WatchReport) error {
	if w.a.json {
		return w.a.printJSON(watchJSON(r))
	}
	w.a.printf("stored %s (%s) of %s in %s\n", plural(int(r.Entries), "entry"), size(r.Bytes),
		plural(r.Transcripts, "transcript"), oneLine(w.to))
	return nil
}
