package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/recorded"
)

func newDemo(a *app) *cobra.Command {
	var dir string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an agent on host A, kill the host, and go on on host B",
		Long: `Play the main job of this library, without any service: an agent works on host
A, which mirrors its session into a store, here a directory. Host A is killed in
the middle of the work. Host B, which has a home of its own and nothing but the
store, resumes the session, and the agent goes on. At the end everything is
compared with what the agent should have written, and printed. The exit code is
1 if anything is missing or changed.

The agent is a stand-in that plays a recorded session; hosts and agents are real
processes, and kill -9 is a real one. See docs/hosting.md for hosts of your own.

The directory is a new temporary one, and is left so that you can look at it.
With --dir any directory will do; a second run finds the session there.

JSON fields: dir, projectKey, sessionId, batches, entries, added, stored (when
host A was killed), equal, transcripts.`,
		Example: `  sessionstore demo
  sessionstore demo --dir ./demo
  sessionstore demo --keep=false`,
		Args:              argCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       map[string]string{usesNoStore: "name its directory with --dir"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.demo(cmd.Context(), dir, keep)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` to use (default: a new temporary one)")
	cmd.Flags().BoolVar(&keep, "keep", true, "leave the temporary directory")
	must(cmd.MarkFlagDirname("dir"))
	return cmd
}

// demo is the state of one run.
type demo struct {
	a       *app
	dir     string
	keep    bool
	temp    bool // dir is ours to remove
	say     func(format string, args ...any)
	report  demoJSON
	session sessionstore.Key
}

type demoJSON struct {
	Dir         string `json:"dir"`
	ProjectKey  string `json:"projectKey"`
	SessionID   string `json:"sessionId"`
	Batches     int    `json:"batches"`
	Entries     int    `json:"entries"`
	Added       int    `json:"added"`
	Stored      int    `json:"stored"`
	Equal       bool   `json:"equal"`
	Transcripts int    `json:"transcripts"`
}

func (a *app) demo(ctx context.Context, dir string, keep bool) (err error) {
	d := demo{a: a, keep: keep, session: recorded.Main(), say: a.printf}
	if a.json {
		d.say = func(string, ...any) {}
	}
	if err := d.makeDir(dir); err != nil {
		return err
	}
	if d.temp && !keep {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	for _, step := range []func(context.Context) error{d.play, d.show} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if a.json {
		d.report.Dir = d.dir
		d.report.ProjectKey, d.report.SessionID = d.session.ProjectKey, d.session.SessionID
		return a.printJSON(d.report)
	}
	return d.ending(ctx)
}

func (d *demo) makeDir(dir string) (err error) {
	if dir == "" {
		d.temp = true
		d.dir, err = os.MkdirTemp("", "sessionstore-demo-")
		return err
	}
	if d.dir, err = expandHome(strings.TrimPrefix(dir, "file:")); err != nil {
		return err
	}
	d.dir, err = filepath.Abs(d.dir)
	return err
}

func (d *demo) step(n int, title string) {
	d.say("%s\n", d.a.style().bold(fmt.Sprintf("%d. %s", n, title)))
}

func (d *demo) isThere(ctx context.Context, h *handle) (bool, error) {
	sessions, err := sessionstore.ListSessions(ctx, h.store, d.session.ProjectKey)
	for _, s := range sessions {
		if s.SessionID == d.session.SessionID {
			return true, nil
		}
	}
	return false, err
}

// complete is a second run: appending everything again would repeat the
// entries without uuid, copying adds only what is missing.
func (d *demo) complete(ctx context.Context, h *handle) error {
	recording, err := recordedStore(ctx)
	if err != nil {
		return err
	}
	report, err := sessionstore.Copy(ctx, h.store, recording, d.session, nil)
	if err != nil {
		return err
	}
	d.report.Added = report.Entries
	d.say("   The session is in this directory already; entries added: %d.\n\n", report.Entries)
	return nil
}

func recordedStore(ctx context.Context) (sessionstore.SessionStore, error) {
	s := inmemory.New()
	return s, recorded.AppendTo(ctx, s)
}

// show opens the store afresh and looks at what it holds.
func (d *demo) show(ctx context.Context) (err error) {
	h, err := d.a.open(ctx, "file:"+d.dir, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	subpaths, err := sessionstore.ListSubkeys(ctx, h.store, d.session.ProjectKey, d.session.SessionID)
	if err != nil {
		return err
	}
	if err := d.verify(ctx, h); err != nil {
		return err
	}
	if d.a.json {
		return nil
	}
	d.step(5, "The conversation")
	d.say("   The recording is real; its words were replaced by made-up ones.\n\n")
	return d.conversation(ctx, h, subpaths)
}

func (d *demo) verify(ctx context.Context, h *handle) error {
	d.step(4, "Is everything there?")
	recording, err := recordedStore(ctx)
	if err != nil {
		return err
	}
	r, err := sessionstore.Verify(ctx, h.store, recording, d.session, nil)
	if err != nil {
		return err
	}
	d.report.Equal, d.report.Entries, d.report.Transcripts = r.Equal(), r.Entries, r.Transcripts
	if !r.Equal() {
		return fmt.Errorf("the stored session differs from the recorded one: %v", r.Differences[0])
	}
	d.say("   Yes: the %s of %s are there, in order,\n   none lost, none added, none changed.\n",
		plural(r.Entries, "entry"), plural(r.Transcripts, "transcript"))
	if n := countRecorded() - r.Entries; n > 0 {
		d.say("   Another %d were descriptions of the subagents, two of each. The later one\n", n)
		d.say("   replaces the earlier one, as it does in the agent's own files.\n")
	}
	d.say("\n")
	return nil
}

func countRecorded() int {
	n := 0
	for b := range recorded.Batches() {
		n += len(b.Entries)
	}
	return n
}
