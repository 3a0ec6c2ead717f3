package host

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// run starts the process. Its output is in pipes of ours, so that it can be
// read after the process has ended, and so that nothing that reads it can keep
// the process waited for.
func (a *Agent) run() error {
	command := a.opts.Command
	a.cmd = exec.Command(command[0], append(command[1:len(command):len(command)], Args(a.session, a.opts.Args...)...)...)
	a.cmd.Dir = a.opts.Session.Dir
	a.cmd.Env = entrypoint(a.session.Env())
	ownGroup(a.cmd)
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outW.Close()
	errs, errsW, err := os.Pipe()
	if err != nil {
		out.Close()
		return err
	}
	defer errsW.Close()
	a.cmd.Stdout, a.cmd.Stderr = outW, errsW
	if err = a.cmd.Start(); err != nil {
		out.Close()
		errs.Close()
		return err
	}
	a.stdin, a.stdout = stdin, out
	a.lines = bufio.NewReaderSize(a.mirror.Reader(output{out, a.exited}), 64<<10)
	a.ctx, a.end = context.WithCancel(context.Background())
	go a.stderr.copy(output{errs, a.exited})
	go a.wait(errs)
	return nil
}

// lingering is how long the output may stay open and silent after the process
// has ended: what the agent has started may have it too.
var lingering = 2 * time.Second

func (a *Agent) wait(stderr *os.File) {
	if !awaitExit(a.cmd) {
		err := a.cmd.Wait()
		a.procMu.Lock()
		a.waitErr, a.reaped = err, true
		a.procMu.Unlock()
	}
	a.end()
	close(a.exited)
	_ = a.stdin.Close() // a child may have its other end
	for _, f := range []*os.File{a.stdout, stderr} {
		if f.SetReadDeadline(time.Now().Add(lingering)) != nil { // closed, or not on this system
			time.AfterFunc(a.opts.Grace, func() { f.Close() })
		}
	}
}

// Kill ends the agent's process, and where the system has process groups also
// what it has started, unless that has gone into a group or a session of its
// own, as setsid does. On Linux it does so too when the agent itself has ended.
func (a *Agent) Kill() {
	a.procMu.Lock()
	defer a.procMu.Unlock()
	if !a.reaped {
		kill(a.cmd)
	}
}

// reap ends what the agent has left in its group, and then gives up the number
// of the process.
func (a *Agent) reap() {
	a.procMu.Lock()
	defer a.procMu.Unlock()
	if !a.reaped {
		kill(a.cmd)
		a.waitErr, a.reaped = a.cmd.Wait(), true
	}
}

// endStderr waits for the last of it. A Write that blocks is left behind.
func (a *Agent) endStderr(ctx context.Context) {
	grace := time.NewTimer(a.opts.Grace)
	defer grace.Stop()
	select {
	case <-a.stderr.done:
		return
	case <-grace.C:
		return
	case <-ctx.Done():
	}
	last := time.NewTimer(lingering)
	defer last.Stop()
	select {
	case <-a.stderr.done:
	case <-last.C:
	}
}

// output is the agent's output. When the agent has ended it ends as soon as
// nothing comes any more, but not because the store is slow.
type output struct {
	file   *os.File
	exited <-chan struct{}
}

func (o output) Read(p []byte) (int, error) {
	select {
	case <-o.exited:
		_ = o.file.SetReadDeadline(time.Now().Add(lingering))
	default:
	}
	return o.file.Read(p)
}

// tail keeps the end of what is written.
type tail struct {
	to     io.Writer
	failed bool
	done   chan struct{} // closed when there is no more

	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) copy(from output) {
	defer close(t.done)
	defer from.file.Close()
	_, _ = io.Copy(t, from)
}

// Write never fails: the agent would die of it.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	t.mu.Unlock()
	if t.to != nil {
		if _, err := t.to.Write(p); err != nil && !t.failed {
			t.failed = true
			slog.Error("host: write to Options.Stderr", "error", err)
		}
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\uFFFD"))
}
