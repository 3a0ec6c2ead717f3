package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// hangup is the signal that comes when the terminal is closed, unless whoever
// has started this process wants it to live on, as nohup does.
func hangup() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	return []os.Signal{syscall.SIGHUP}
}

// runCommand runs a command in front of the reader. It lives longer than
// signals that are meant for the command: a terminal sends Ctrl-C to both, and
// what ends this process is passed on.
func (a *app) runCommand(command, env []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.rawOut, a.stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append([]os.Signal{os.Interrupt, syscall.SIGTERM}, hangup()...)...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt || !a.in.is {
				_ = cmd.Process.Signal(s)
			}
		case err := <-ended:
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				return exitCode(max(exit.ExitCode(), exitFailure))
			}
			return err
		}
	}
}
