// Command sessionstore lists, shows, forks, copies, checks and deletes agent sessions
// in any store that this module knows. Run it without arguments for help.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	if code, ok := demoProcess(os.Args[1:]); ok {
		os.Exit(code)
	}
	if os.Getenv("GOGC") == "" {
		// Transcripts stream through, which makes much garbage and keeps
		// little. Collecting it early costs a few per cent of time and keeps
		// the heap below 64 MiB for a session of 1 GiB.
		debug.SetGCPercent(40)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks the command to stop, the second one kills it.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program without the process around it. It returns the exit
// code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := newRoot(a)
	root.SetArgs(maskDashArgs(args))
	err := root.ExecuteContext(ctx)
	return a.finish(ctx, err)
}
