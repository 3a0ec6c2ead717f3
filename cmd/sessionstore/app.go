package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

// Exit codes. The help of the root command lists them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitInterrupted = 130
	exitBrokenPipe  = 141 // what a shell reports for a process that SIGPIPE ended
)

// app is what the commands of one run share.
type app struct {
	stdin  io.Reader
	stdout *bufio.Writer
	rawOut io.Writer // where stdout writes, unless there is a pager
	stderr io.Writer
	in     terminal
	out    terminal
	err    terminal
	now    func() time.Time

	// Global flags.
	storeURL string
	json     bool
	quiet    bool
	noColor  bool

	skips skipLog

	partial bool            // something could not be read, and was reported
	told    map[string]bool // what was reported
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		stdin: stdin, stdout: bufio.NewWriterSize(stdout, 64<<10), rawOut: stdout, stderr: stderr,
		in: terminalOf(stdin), out: terminalOf(stdout), err: terminalOf(stderr),
		now: time.Now,
	}
}

// terminal describes one of the three standard streams.
type terminal struct {
	is            bool
	width, height int
}

// Text is not set wider than this, because longer lines are hard to read.
const maxTextWidth = 120

func terminalOf(stream any) terminal {
	t := terminal{width: 80, height: 24}
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return t
	}
	t.is = true
	if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
		t.width, t.height = w, h
	} else if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		t.width = w
	}
	return t
}

// printf writes to standard output.
func (a *app) printf(format string, args ...any) {
	fmt.Fprintf(a.stdout, format, args...) // the error shows when it is flushed
}

// note tells the reader something that is no result. --quiet silences it.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.warn(format, args...)
	}
}

// warn writes one line to standard error, after what stands in the buffer of
// standard output.
func (a *app) warn(format string, args ...any) {
	a.stdout.Flush()
	fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf(format, args...)))
}

// printJSON writes one object as one line. What could control a terminal or hide
// text is escaped; to a program it is the same.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.WriteString(escapeJSON(b.String()))
	return err
}

// usageError is a call that cannot mean anything: exit code 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// notFoundError is sessionstore.ErrNotFound in the words of a command.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string        { return e.text }
func (e *notFoundError) Is(target error) bool { return target == sessionstore.ErrNotFound }

func notFoundf(format string, args ...any) error {
	return &notFoundError{fmt.Sprintf(format, args...)}
}

// errReported ends a command with exit code 1 that has said everything.
var errReported = errors.New("already reported")

// finish flushes the output, reports the error as one line and returns the
// exit code.
func (a *app) finish(ctx context.Context, err error) int {
	if flushErr := a.stdout.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write output: %w", flushErr)
	}
	a.skips.report(a)
	var code exitCode
	switch {
	case err == nil && a.partial:
		return exitFailure
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE):
		return exitBrokenPipe // the reader has seen enough: no message
	case errors.Is(err, errReported):
		return exitFailure
	case errors.As(err, &code):
		return int(code) // the command has said why
	case ctx.Err() != nil:
		a.fail("interrupted")
		return exitInterrupted
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w by this store", err)
	}
	if errors.Is(err, pgstore.ErrNotMigrated) {
		err = errors.New("the tables are missing or too old; run \"sessionstore migrate\" on this store")
	}
	a.fail(errorText(err))
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, sessionstore.ErrNotFound):
		return exitNotFound
	}
	return exitFailure
}

func (a *app) fail(text string) {
	text = oneLine(strings.ReplaceAll(text, dashMask, ""))
	fmt.Fprintln(a.stderr, "sessionstore: "+strings.TrimPrefix(text, "sessionstore: "))
}

// errorText is the text of an error for people: of packages it names only that
// of the store, and a key that is repeated only once.
func errorText(err error) string {
	text := err.Error()
	var op *sessionstore.OpError
	for cause := err; errors.As(cause, &op); cause = op.Err {
		head := strings.TrimSuffix(op.Error(), op.Err.Error())
		before, after, ok := strings.Cut(text, head)
		if !ok {
			break
		}
		key := op.Key.String()
		words := op.Op
		if op.Package != "sessionstore" && op.Package != "session" {
			words = op.Package + ": " + op.Op
		}
		if op.Key != (sessionstore.Key{}) && !strings.HasSuffix(before, key+": ") {
			words += " " + key
			after = strings.TrimPrefix(after, key+": ")
		}
		text = before + words + ": " + after
	}
	return text
}
