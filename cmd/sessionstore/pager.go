package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// errPagerQuit ends a command whose reader has seen enough.
var errPagerQuit = errors.New("the pager has ended")

// paged runs print with a pager behind standard output, if that is a terminal
// and there is a pager. The pager starts when the output is longer than the
// screen. When the reader quits it early, print is stopped, and that is fine.
func (a *app) paged(ctx context.Context, off bool, print func(context.Context) error) error {
	if off || !a.out.is || os.Getenv("TERM") == "dumb" {
		return print(ctx)
	}
	cmd := pagerCommand()
	if cmd == nil {
		return print(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &pager{cmd: cmd, out: a.rawOut, height: a.out.height, quit: func() { cancel(errPagerQuit) }}
	a.stdout.Flush()
	a.stdout.Reset(p)
	err := print(ctx)
	if flushErr := a.stdout.Flush(); err == nil {
		err = flushErr
	}
	// Once the pager has gone, whatever print says is because of that.
	early := errors.Is(err, errPagerQuit) || errors.Is(context.Cause(ctx), errPagerQuit)
	closeErr := p.close()
	a.stdout.Reset(a.rawOut)
	switch {
	case early:
		return nil
	case err != nil:
		return err
	}
	return closeErr
}

// pagerCommand returns the command of $PAGER, or less. It returns nil if there
// is none or $PAGER is empty.
func pagerCommand() *exec.Cmd {
	line, given := os.LookupEnv("PAGER")
	if !given {
		line = "less -FRX"
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "cat" && len(words) == 1 {
		return nil
	}
	// A line that only a shell understands is for the shell.
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]#~=%") {
		words = []string{"sh", "-c", line}
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil
	}
	cmd := exec.Command(path, words[1:]...)
	if os.Getenv("LESS") == "" {
		cmd.Env = append(os.Environ(), "LESS=FRX") // it shows colours then
	}
	return cmd
}

// pager is a writer that holds the first screen back and gives it, with all
// that follows, to a pager.
type pager struct {
	cmd    *exec.Cmd
	out    io.Writer // the terminal
	height int
	quit   func() // called when the pager ends

	held    bytes.Buffer
	lines   int
	stdin   io.WriteCloser // of the pager, once it runs
	ended   chan error
	nothing bool // the pager could not be started
}

func (p *pager) Write(b []byte) (int, error) {
	switch {
	case p.nothing:
		return p.out.Write(b)
	case p.stdin != nil:
		if _, err := p.stdin.Write(b); err != nil {
			return 0, errPagerQuit
		}
		return len(b), nil
	}
	p.held.Write(b)
	p.lines += bytes.Count(b, []byte{'\n'})
	if p.lines < p.height {
		return len(b), nil
	}
	return len(b), p.start()
}

// start starts the pager with what has been held back.
func (p *pager) start() error {
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		p.cmd.Stdout, p.cmd.Stderr = p.out, os.Stderr
		err = p.cmd.Start()
	}
	if err != nil {
		p.nothing = true
		_, err = p.held.WriteTo(p.out)
		return err
	}
	// Ctrl-C is for the pager now: it must not lose the terminal to the shell.
	signal.Ignore(os.Interrupt)
	p.stdin, p.ended = stdin, make(chan error, 1)
	go func() {
		err := p.cmd.Wait()
		p.quit()
		p.ended <- err
	}()
	if _, err := p.held.WriteTo(stdin); err != nil {
		return errPagerQuit
	}
	return nil
}

// close shows what is left and waits for the reader.
func (p *pager) close() error {
	if p.stdin == nil {
		_, err := p.held.WriteTo(p.out)
		return err
	}
	p.stdin.Close()
	<-p.ended // its own failure is nothing to report: it has said so itself
	signal.Reset(os.Interrupt)
	return nil
}
