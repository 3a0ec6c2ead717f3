package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
	"github.com/sessionstore/sessionstore/session"
)

// The functions below are the snippets of docs/hosting.md.

func withoutPackageHost(ctx context.Context, store sessionstore.SessionStore, id string, prompts io.Reader, messages io.Writer) (err error) {
	var m *mirror.Mirror
	s, err := resume.Materialize(ctx, store, resume.Options{
		SessionID:        id,
		KeepOnMirrorLoss: func() bool { return m != nil && m.NeedsFiles() },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // last: the agent has ended

	if m, err = mirror.New(s.Store(store), s.ProjectsDir(), nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()

	args := []string{"--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--session-mirror"}
	cmd := exec.Command("claude", append(args, s.Args()...)...)
	cmd.Env, cmd.Stdin = s.Env(), prompts
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = io.Copy(messages, m.Reader(out)) // to the end: frames follow the last result
	return errors.Join(err, cmd.Wait())
}

func catchUp(ctx context.Context, store sessionstore.SessionStore, closeErr error) error {
	var kept *resume.KeptError
	if !errors.As(closeErr, &kept) {
		return closeErr
	}
	// The store is back, or will be: try until it has everything.
	_, err := host.RecoverDir(ctx, store, kept.Dir, nil)
	return err
}

func atStartUp(ctx context.Context, store sessionstore.SessionStore, spill string) error {
	report, err := mirror.Replay(ctx, spill, store, nil)
	slog.Info("replayed what earlier processes could not store", "report", report)
	return err
}

// meter stands for a meter of OpenTelemetry, or of any other library.
type meter interface {
	Record(ctx context.Context, name string, value float64, attributes ...string)
}

func measured(meter meter) *mirror.Options {
	return &mirror.Options{
		OnAppend: func(info mirror.AppendInfo) {
			outcome := "ok"
			if info.Err != nil {
				outcome = "error"
			}
			meter.Record(context.Background(), "mirror.append.duration", info.Duration.Seconds(), "outcome", outcome)
			meter.Record(context.Background(), "mirror.append.entries", float64(info.Entries), "outcome", outcome)
		},
	}
}

func findAnywhere(ctx context.Context, store sessionstore.SessionStore, id string) error {
	places, err := session.Locate(ctx, store, id, nil)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		return sessionstore.ErrNotFound
	}
	s, err := resume.Materialize(ctx, store, resume.Options{
		SessionID:  id,
		ProjectKey: places[0].Key.ProjectKey, // where it was written last
	})
	if err != nil {
		return err
	}
	fmt.Println("found under", len(places), "project keys")
	return s.Close()
}

func sweep(ctx context.Context, store sessionstore.SessionStore, temp, spill string) error {
	_, err := host.Recover(ctx, store, temp, &host.RecoverOptions{Spill: spill})
	return err
}

// tenants of this host, and which of them runs in a directory.
type tenants interface {
	Of(dir string) (project string, err error)
}

func sweepForTenants(ctx context.Context, store sessionstore.SessionStore, temp string, tenants tenants) error {
	_, err := host.Recover(ctx, store, temp, &host.RecoverOptions{
		Accept: func(dir string, key sessionstore.Key) error {
			project, err := tenants.Of(dir) // as the host has noted at Start: Agent.Session().ConfigDir
			if err == nil && key.ProjectKey != project {
				err = errors.New("not the tenant of this directory")
			}
			return err
		},
	})
	return err
}

var _ = []any{withoutPackageHost, catchUp, atStartUp, measured, findAnywhere, sweep, sweepForTenants}
