package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/internal/recorded"
	"github.com/sessionstore/sessionstore/internal/standin"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// The demo starts this program again, as host A and as the agent.
const (
	demoRole  = "SESSIONSTORE_DEMO_ROLE"
	roleHostA = "host-a"
	roleAgent = "agent"
)

// demoBatches is how many batches of the recording the agent writes before it
// waits, so that host A is killed in the middle of the work.
const demoBatches = 7

// demoProcess plays a role of the demo, if this process has one.
func demoProcess(args []string) (code int, ok bool) {
	switch os.Getenv(demoRole) {
	case roleAgent:
		return standin.Main(args), true
	case roleHostA:
		if len(args) != 2 {
			return exitUsage, true
		}
		if _, err := runDemoHost(context.Background(), args[0], demoHost(args[1], demoBatches)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailure, true
		}
		return exitOK, true
	}
	return 0, false
}

// demoHost says how a host runs the agent: in a home of its own, and with
// nothing of this machine's agent.
func demoHost(home string, batches int) host.Options {
	env := append(os.Environ(), "HOME="+home, "USERPROFILE="+home, "CLAUDE_CONFIG_DIR=", demoRole+"="+roleAgent, "STANDIN_INTERVAL=50ms")
	if batches > 0 {
		env = append(env, "STANDIN_BATCHES="+strconv.Itoa(batches))
	}
	program, err := os.Executable()
	return host.Options{
		Command: []string{cmp.Or(program, fmt.Sprint(err))},
		Session: resume.Options{ProjectKey: recorded.ProjectKey, Env: env, Dir: home, TempDir: home},
		Mirror:  &mirror.Options{Mode: mirror.Eager, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	}
}

// runDemoHost is the whole of a host: start the agent on a session, give it a
// prompt, read what it says, and end it.
func runDemoHost(ctx context.Context, dir string, opts host.Options) (stats mirror.Stats, err error) {
	store, err := filestore.Open(dir, nil)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if opts.Session.SessionID == "" {
		opts.Args = append(opts.Args, "--session-id="+recorded.SessionID)
	}
	agent, err := host.Start(ctx, store, opts)
	if err != nil {
		return stats, err
	}
	defer func() {
		err = errors.Join(err, agent.Close(ctx))
		stats = agent.Mirror().Stats()
	}()
	if err := agent.Prompt("play"); err != nil {
		return stats, err
	}
	for m, err := range agent.Messages() {
		if err != nil || m.Type == "result" {
			return stats, err
		}
	}
	return stats, errors.New("the agent ended without a result")
}

// play runs the agent on both hosts, unless an earlier run has.
func (d *demo) play(ctx context.Context) (err error) {
	homes, err := os.MkdirTemp("", "sessionstore-demo-hosts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeHomes(homes, err != nil)) }()
	d.step(1, "Host A runs an agent and mirrors its session")
	known, err := d.isKnown(ctx)
	if err != nil || known {
		return err
	}
	home := filepath.Join(homes, "a")
	if err := d.hostA(ctx, home); err != nil {
		return err
	}
	// Nothing of host A is left but what is in the store.
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	return d.hostB(ctx, filepath.Join(homes, "b"))
}

// removeHomes removes the homes of the hosts. An agent whose host was killed
// out of turn writes until it finds that nobody reads what it prints.
func removeHomes(dir string, outOfTurn bool) error {
	if outOfTurn {
		time.Sleep(200 * time.Millisecond)
	}
	return os.RemoveAll(dir)
}

// isKnown completes a session that an earlier run has left.
func (d *demo) isKnown(ctx context.Context) (known bool, err error) {
	h, err := d.a.open(ctx, "file:"+d.dir, writing)
	if err != nil {
		return false, err
	}
	defer h.closeInto(&err)
	if known, err = d.isThere(ctx, h); !known || err != nil {
		return known, err
	}
	return true, d.complete(ctx, h)
}

// hostA runs host A as a process, and kills it when the agent is in the middle
// of its work.
func (d *demo) hostA(ctx context.Context, home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, d.dir, home)
	cmd.Env = append(os.Environ(), demoRole+"="+roleHostA)
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // the agent has it too
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	d.say("   A process of its own, with a home of its own. The agent prints what it has\n")
	d.say("   written, and the host appends that to a store, here a directory.\n")
	err = d.waitForA(ctx, ended)
	_ = cmd.Process.Kill()
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("host A: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return err
	}
	<-ended
	d.report.Added = d.report.Stored
	d.say("   In the middle of the work it is killed (kill -9), and its disk is gone.\n")
	d.say("   In the store: %s in %s.\n\n", plural(d.report.Stored, "entry"), plural(d.report.Batches, "batch append"))
	return nil
}

// waitForA waits until everything is stored that the agent writes on host A.
func (d *demo) waitForA(ctx context.Context, ended <-chan error) error {
	want := map[sessionstore.Key]int{}
	for b, err := range recorded.Batches() {
		if err != nil || d.report.Batches == demoBatches {
			break
		}
		d.report.Batches++
		d.report.Stored += len(b.Entries)
		described := 0
		for _, e := range b.Entries {
			if b.Key.Subpath != "" && e.Type() == sessionstore.MetadataType {
				described = 1 // a file beside the transcript, of which the last one stays
			} else {
				want[b.Key]++
			}
		}
		want[b.Key] += described
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return cmp.Or(err, errors.New("it ended by itself"))
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if done, err := d.holds(ctx, want); done || err != nil {
			return err
		}
	}
}

// holds reports whether the store has as many entries of each transcript.
func (d *demo) holds(ctx context.Context, want map[sessionstore.Key]int) (done bool, err error) {
	h, err := d.a.open(ctx, "file:"+d.dir, reading)
	if err != nil {
		return false, err
	}
	defer h.closeInto(&err)
	for key, n := range want {
		for _, err := range sessionstore.Stream(ctx, h.store, key) {
			if err != nil {
				return false, err
			}
			n--
		}
		if n > 0 {
			return false, nil
		}
	}
	return true, nil
}

// hostB resumes the session. All it knows is the store and the id.
func (d *demo) hostB(ctx context.Context, home string) error {
	d.step(2, "Host B resumes the session")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	opts := demoHost(home, 0)
	opts.Session.SessionID = d.session.SessionID
	stats, err := runDemoHost(ctx, d.dir, opts)
	if err != nil {
		return err
	}
	d.say("   It has another home and nothing of host A. It writes the session from the\n")
	d.say("   store into a private directory and starts the agent with --resume.\n\n")
	d.step(3, "The agent goes on")
	d.report.Batches += int(stats.Batches)
	d.report.Added += int(stats.Entries)
	d.say("   It writes the rest, which host B mirrors: %s in %s.\n", plural(int(stats.Entries), "entry"), plural(int(stats.Batches), "batch append"))
	d.say("   When it has ended, the private directory is removed.\n\n")
	return nil
}
