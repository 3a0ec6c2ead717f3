// Command agenthost is a complete host: it runs an agent on a session that
// lives in a store, so that the session can go on on any machine that reaches
// the store.
//
//	agenthost -store DIR [-session ID | -continue] [-agent PROGRAM | -standin] PROMPT…
//
// Each prompt is one turn. Run it again with the id that it prints, on another
// machine if you like. A signal ends it gracefully: the agent finishes the turn,
// and everything is stored. What the store does not take lies in DIR.spill. After
// kill -9 the next start brings in what was not stored yet, from DIR.private.
//
// With -standin it runs without an agent: a scripted process takes its place.
//
// A directory is the store here, so that the example runs anywhere. Replace
// [openStore] by a database or a bucket for hosts that share nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/internal/standin"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// standinArg makes this program the stand-in of -standin: a process of its own,
// as an agent is.
const standinArg = "-run-as-standin"

func main() {
	if len(os.Args) > 1 && os.Args[1] == standinArg {
		os.Exit(standin.Main(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "agenthost:", err)
		os.Exit(1)
	}
}

// config is what the command line says.
type config struct {
	store, session, agent, project string
	spill, temp                    string
	latest, standin                bool
	prompts                        []string
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("agenthost", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.store, "store", "sessions", "directory of the store")
	flags.StringVar(&c.session, "session", "", "id of the session to go on with")
	flags.BoolVar(&c.latest, "continue", false, "go on with the newest session")
	flags.StringVar(&c.agent, "agent", "claude", "the agent's executable")
	flags.BoolVar(&c.standin, "standin", false, "run a stand-in that answers without a model, instead of the agent")
	flags.StringVar(&c.project, "project", "", "scope of the session, such as a tenant (default: the directory)")
	err := flags.Parse(args)
	c.prompts = flags.Args()
	c.spill = filepath.Clean(c.store) + ".spill" // on the same disk, and one for each store
	c.temp = filepath.Clean(c.store) + ".private"
	return c, err
}

func openStore(c config) (*filestore.Store, error) { return filestore.Open(c.store, nil) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	store, err := openStore(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if err := os.MkdirAll(c.temp, 0o700); err != nil {
		return err
	}
	recovered, err := host.Recover(ctx, store, c.temp, &host.RecoverOptions{Spill: c.spill})
	if log.Info("recovered", "what", recovered); err != nil {
		log.Error("not all that earlier hosts have left could be stored", "err", err)
	}
	return serve(ctx, store, c, log, stdout)
}

func (c config) command() ([]string, error) {
	if !c.standin {
		return []string{c.agent}, nil
	}
	self, err := os.Executable()
	return []string{self, standinArg}, err
}

// serve runs the agent from start to end.
func serve(ctx context.Context, store sessionstore.SessionStore, c config, log *slog.Logger, stdout io.Writer) (err error) {
	command, err := c.command()
	if err != nil {
		return err
	}
	agent, err := host.Start(ctx, store, host.Options{
		Command: command,
		Session: resume.Options{
			SessionID: c.session, Continue: c.latest, ProjectKey: c.project, TempDir: c.temp,
			OnSkip: func(s resume.Skip) { log.Warn("left out", "what", s) },
		},
		Mirror:       mirrorOptions(log, c.spill),
		OnPermission: askNobody,
	})
	if err != nil {
		return err
	}
	publish(agent)
	// The signal ends the agent's input: it finishes what it is doing.
	stop := context.AfterFunc(ctx, func() { _ = agent.CloseInput() })
	defer stop()
	defer func() {
		// Time to finish the turn and to store the rest, signal or not.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, agent.Close(bounded))
	}()
	for _, prompt := range c.prompts {
		if err := turn(ctx, agent, prompt, stdout); err != nil {
			return err
		}
	}
	if id := agent.SessionID(); id != "" { // a new one has none before its first prompt
		fmt.Fprintf(stdout, "session %s\n", id)
	}
	return nil
}

// mirrorOptions: a batch that the store does not take goes to a file, and an
// agent whose files lie elsewhere is an alarm.
func mirrorOptions(log *slog.Logger, spill string) *mirror.Options {
	return &mirror.Options{
		Logger:  log,
		Spill:   spill,
		OnError: func(e *mirror.Error) { log.Error("not stored", "key", e.Key, "kept", e.Spilled, "err", e.Err) },
		OnForeign: func(e *mirror.ForeignError) {
			if e.First {
				log.Error("the agent writes to another config directory", "path", e.Path, "expected", e.ProjectsDir)
			}
		},
	}
}

// askNobody allows what only reads. A real host asks a person or a policy.
func askNobody(_ context.Context, p host.Permission) host.Decision {
	switch p.Tool {
	case "Read", "Glob", "Grep":
		return host.Decision{Allow: true}
	}
	return host.Decision{Message: "this host allows reading only"}
}

// publish makes the counters visible to expvar, and so to whatever scrapes it.
func publish(agent *host.Agent) {
	if expvar.Get("mirror") == nil {
		expvar.Publish("mirror", expvar.Func(func() any { return agent.Mirror().Stats() }))
	}
}

// turn gives a prompt and prints the answer.
func turn(ctx context.Context, agent *host.Agent, prompt string, stdout io.Writer) error {
	if err := agent.Prompt(prompt); err != nil {
		return errors.Join(ctx.Err(), err) // a signal has ended the input
	}
	for m, err := range agent.Messages() {
		if err != nil {
			return err
		}
		if m.Type == "result" {
			var result struct{ Result string }
			if err := json.Unmarshal(m.Raw, &result); err != nil {
				return err
			}
			fmt.Fprintln(stdout, result.Result)
			return nil
		}
	}
	return errors.New("the agent ended in the middle of a turn")
}
