package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// Agent is a running agent process. Its methods are safe for concurrent use.
type Agent struct {
	opts    Options
	session *resume.Session
	mirror  *mirror.Mirror
	disk    disk
	cmd     *exec.Cmd
	stderr  *tail

	inMu  sync.Mutex // one line at a time
	stdin io.WriteCloser

	outMu  sync.Mutex
	stdout *os.File
	lines  *bufio.Reader // of what the mirror leaves
	outEnd error         // why there is no more

	idMu sync.Mutex
	id   string

	ctx    context.Context // of questions: until the process has ended, or Close
	end    context.CancelFunc
	exited chan struct{}

	procMu  sync.Mutex
	reaped  bool // the process's number may be another one's by now
	waitErr error

	closing sync.Once
	closed  error
}

// Message is one line of the agent's output.
type Message struct {
	Type, Subtype string
	Raw           json.RawMessage
}

// Start brings a session to this host and starts the agent with it. The context
// is for starting; the agent then runs until [Agent.Close], which must be
// called. If Session.SessionID is neither in the store nor among the agent's own
// files, the error wraps [sessionstore.ErrNotFound].
func Start(ctx context.Context, store sessionstore.SessionStore, opts Options) (*Agent, error) {
	if err := opts.Validate(store); err != nil {
		return nil, err
	}
	if len(opts.Command) == 0 {
		opts.Command = []string{"claude"}
	}
	if opts.Grace <= 0 {
		opts.Grace = DefaultGrace
	}
	a := &Agent{opts: opts, exited: make(chan struct{}), stderr: &tail{to: opts.Stderr, done: make(chan struct{})}}
	keep := opts.Session.KeepOnMirrorLoss
	opts.Session.KeepOnMirrorLoss = func() bool {
		return a.disk.needed || a.mirror != nil && a.mirror.NeedsFiles() || keep != nil && keep()
	}
	var err error
	if a.session, err = resume.Materialize(ctx, store, opts.Session); err != nil {
		return nil, err
	}
	if err := a.findSession(); err != nil {
		return nil, errors.Join(err, a.session.Close())
	}
	if err := a.start(store); err != nil {
		return nil, errors.Join(fmt.Errorf("host: start %s: %w", opts.Command[0], err), a.session.Close())
	}
	return a, nil
}

// findSession makes an error of a session that the agent would not find either.
// One that is not in the store may be among the agent's own files.
func (a *Agent) findSession() error {
	s := a.session
	if a.opts.Session.SessionID == "" || s.Found || !s.Private && isLocal(s) {
		return nil
	}
	err := fmt.Errorf("%w: it is neither in the store nor among the agent's own files", sessionstore.ErrNotFound)
	return &sessionstore.OpError{Package: "host", Op: "start", Key: s.Key, Err: err}
}

// isLocal looks at all projects: agents find the sessions of worktrees, too.
func isLocal(s *resume.Session) bool {
	projects, _ := os.ReadDir(s.ProjectsDir())
	for _, p := range projects {
		if _, err := os.Stat(filepath.Join(s.ProjectsDir(), p.Name(), s.Key.SessionID+".jsonl")); err == nil {
			return true
		}
	}
	return false
}

func (a *Agent) start(store sessionstore.SessionStore) (err error) {
	var mo mirror.Options
	if a.opts.Mirror != nil {
		mo = *a.opts.Mirror
	}
	if mo.Logger == nil {
		mo.Logger = slog.Default()
	}
	if err = a.disk.begin(a.session, store); err != nil {
		return err
	}
	if a.mirror, err = mirror.New(&a.disk, a.session.ProjectsDir(), &mo); err != nil {
		return err
	}
	a.id = a.session.Key.SessionID
	if err = a.run(); err != nil {
		return errors.Join(err, a.mirror.Close(context.Background())) // it is empty
	}
	return nil
}

// entrypoint names the caller, unless the host has done so.
func entrypoint(env []string) []string {
	const name = "CLAUDE_CODE_ENTRYPOINT="
	for _, e := range env {
		if strings.HasPrefix(e, name) {
			return env
		}
	}
	return append(env, name+"sdk-go")
}

// Session returns what the agent was started with.
func (a *Agent) Session() *resume.Session { return a.session }

// Mirror returns the mirror, for its counters.
func (a *Agent) Mirror() *mirror.Mirror { return a.mirror }

// SessionID returns the id of the session as the agent has told it last. Of a
// new session it is empty until the first message.
func (a *Agent) SessionID() string {
	a.idMu.Lock()
	defer a.idMu.Unlock()
	return a.id
}

// Prompt gives the agent a message of the user.
func (a *Agent) Prompt(text string) error {
	line, err := json.Marshal(map[string]any{
		"type": "user", "session_id": "", "parent_tool_use_id": nil,
		"message": map[string]any{"role": "user", "content": text},
	})
	if err != nil {
		return err
	}
	return a.Send(line)
}

// Send gives the agent one JSON object as a line. Line breaks between its
// members are taken out. Anything else is an error and is not sent.
func (a *Agent) Send(object []byte) error {
	if err := jsonscan.Object(object, nil); err != nil {
		return fmt.Errorf("host: send: not one JSON object: %w", err)
	}
	var line bytes.Buffer
	if bytes.ContainsAny(object, "\r\n") {
		if err := json.Compact(&line, object); err != nil {
			return fmt.Errorf("host: send: %w", err)
		}
	} else {
		line.Write(object)
	}
	line.WriteByte('\n')
	a.inMu.Lock()
	defer a.inMu.Unlock()
	if _, err := a.stdin.Write(line.Bytes()); err != nil {
		return fmt.Errorf("host: write to the agent: %w", err)
	}
	return nil
}

// CloseInput ends the agent's input: it finishes what it is doing and ends.
// Messages go on until then. This is how a host begins to shut down.
func (a *Agent) CloseInput() error {
	err := a.stdin.Close() // also while a Send waits for an agent that doesn't read
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Messages yields what the agent says, without the mirror's frames, until it
// ends. A result is yielded when everything before it is stored, or was given
// up. Questions are answered and not yielded. Read to the end, or call Close,
// which reads the rest; messages wait in the agent meanwhile.
func (a *Agent) Messages() iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			m, err := a.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// next reads a message and answers questions on the way.
func (a *Agent) next() (Message, error) {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	for a.outEnd == nil {
		line, err := a.lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
				err = io.EOF
			}
			a.outEnd = err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, err := a.message(line)
		if err != nil || m.Type != "" {
			return m, err
		}
	}
	return Message{}, a.outEnd
}

// message reads a line. A question gives none.
func (a *Agent) message(line []byte) (Message, error) {
	var head struct {
		Type, Subtype string
		SessionID     string          `json:"session_id"`
		RequestID     json.RawMessage `json:"request_id"` // whatever it is, it goes back
		Request       json.RawMessage
	}
	if err := json.Unmarshal(line, &head); err != nil {
		// Such as a warning of a runtime, or what a killed agent has begun.
		return Message{Type: "text", Raw: line}, nil
	}
	if head.SessionID != "" && (head.Type == "system" && head.Subtype == "init" || head.Type == "result") {
		a.idMu.Lock()
		a.id = head.SessionID
		a.idMu.Unlock()
	}
	if head.Type == "control_request" {
		return Message{}, a.reply(head.RequestID, head.Request)
	}
	return Message{head.Type, head.Subtype, bytes.TrimRight(line, "\n")}, nil
}

// reply answers a question. That the agent does not hear it any more is no
// error: it has ended, or its input has. One without an id can't be answered.
func (a *Agent) reply(id, request json.RawMessage) error {
	if len(id) == 0 || string(id) == "null" {
		return nil
	}
	var q struct {
		Subtype string
		Permission
	}
	var line []byte
	err := jsonscan.Object(request, nil)
	if err == nil {
		err = json.Unmarshal(request, &q)
	}
	switch {
	case err != nil: // it waits for an answer all the same
		line, err = refuse(id, "this host does not understand the request: "+err.Error())
	case q.Subtype != "can_use_tool":
		line, err = refuse(id, fmt.Sprintf("this host does not answer %q", q.Subtype))
	default:
		q.Raw = request
		if len(q.Input) == 0 {
			q.Input = json.RawMessage("{}")
		}
		line, err = answer(id, a.decide(q.Permission), q.Input)
	}
	if err != nil {
		return fmt.Errorf("host: answer a question: %w", err)
	}
	_ = a.Send(line)
	return nil
}

// decide denies when the host has no answer, or panics over it, and when the
// answer can't reach the agent any more: that is not waited for.
func (a *Agent) decide(p Permission) Decision {
	if a.opts.OnPermission == nil {
		return Decision{Message: "this host answers no questions"}
	}
	if a.ctx.Err() != nil {
		return Decision{Message: "the host is closing"}
	}
	answers := make(chan Decision, 1)
	go func() {
		d := Decision{Message: "the host could not decide"} // it ended its goroutine
		defer func() {
			if r := recover(); r != nil {
				slog.Error("host: panic in OnPermission", "panic", r, "stack", string(debug.Stack()))
			}
			answers <- d
		}()
		d = a.opts.OnPermission(a.ctx, p)
	}()
	select {
	case d := <-answers:
		return checkInput(d)
	case <-a.ctx.Done():
		return Decision{Message: "the host is closing"}
	}
}

// checkInput denies what could not be sent: the agent would wait for ever.
func checkInput(d Decision) Decision {
	if !d.Allow || d.Input == nil {
		return d
	}
	if err := jsonscan.Object(d.Input, nil); err != nil {
		slog.Error("host: OnPermission allowed a tool with an input that is no JSON object; it is denied", "error", err)
		return Decision{Message: "the host gave an input that is no JSON object"}
	}
	return d
}

// Close ends the agent: its input, its output to the last frame, the process,
// the mirror, and then the private directory. Messages that nobody has read are
// discarded, their frames are not. An agent that has not ended after
// Options.Grace is killed. When the context ends it is killed at once, and what
// the mirror could not store by then is given up. What the agent has started is
// killed with it, or when it has ended, as far as it is in its process group.
//
// An agent writes to its files first, and may have ended before it told. If it
// did not end well, or there is more in its private directory than came in, the
// transcripts there are compared with the store, as by [Recover], until the
// context ends. If that fails the directory is kept.
//
// Close does not wait for OnPermission, which may call it. It waits for a Write
// of Options.Stderr until the context ends, but at most for Options.Grace.
//
// The error holds everything that went wrong: an [*ExitError] if the agent did
// not end well, a [*mirror.LossError] if something is not in the store, and a
// [*resume.KeptError] if the directory was kept for that reason. It is not kept
// when everything that is not stored lies in mirror.Options.Spill, from where it
// will be delivered. Close may be called more than once.
func (a *Agent) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { // of a second Close too
		a.Kill()
		a.mirror.Abort(context.Cause(ctx)) // who reads the output waits for it
	})
	defer stop()
	a.closing.Do(func() { a.closed = a.close(ctx) })
	return a.closed
}

func (a *Agent) close(ctx context.Context) error {
	a.end() // no answer reaches the agent from now on
	_ = a.CloseInput()
	grace := time.AfterFunc(a.opts.Grace, a.Kill)
	var readErr error
	for readErr == nil {
		_, readErr = a.next()
	}
	<-a.exited
	killed := !grace.Stop() || ctx.Err() != nil
	var errs []error
	if !errors.Is(readErr, io.EOF) {
		errs = append(errs, fmt.Errorf("host: read from the agent: %w", readErr))
	}
	a.reap()
	a.endStderr(ctx)
	_ = a.stdout.Close() // may be closed already
	exit := a.exitError(killed)
	errs = append(errs, exit, a.mirror.Close(ctx))
	clean := len(errs) == 2 && exit == nil && a.mirror.Stats().Broken == 0
	errs = append(errs, a.catchUp(ctx, clean), a.session.Close())
	return errors.Join(errs...)
}

// ExitError is an agent that did not end well.
type ExitError struct {
	Killed bool   // by Close
	Stderr string // the end of what it wrote there
	Err    error  // of the process
}

func (e *ExitError) Error() string {
	text := "host: the agent ended: " + e.Err.Error()
	if e.Killed {
		text = "host: the agent did not end in time and was killed"
	}
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap returns the error of the process.
func (e *ExitError) Unwrap() error { return e.Err }

func (a *Agent) exitError(killed bool) error {
	if a.waitErr == nil {
		return nil
	}
	return &ExitError{Killed: killed, Stderr: a.stderr.String(), Err: a.waitErr}
}
