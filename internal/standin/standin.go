// Package standin is a scripted agent process for tests and for the demo. It
// answers without a model, and behaves as the real command line does where a
// host can see it: it takes the same arguments, environment and messages on
// standard input, writes the same files below its config directory, prints the
// same messages and mirror frames, resumes from its own files alone, and ends
// when its input ends.
//
// What it does in a turn depends on words in the prompt:
//
//	tool      asks for permission to use a tool, and uses it
//	subagent  runs a subagent, with a transcript and metadata of its own
//	hang      never ends the turn
//	play      plays the recorded session of package recorded, from where the
//	          files on the disk end, and hangs after STANDIN_BATCHES batches
//	exit      ends at once with code 7
//
// STANDIN_INTERVAL is the time between two frames (default 100ms).
package standin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Agent is one process. Its fields are what a process gets from its system.
type Agent struct {
	Args   []string // without the name of the program
	Getenv func(name string) string
	Dir    string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	in        *bufio.Reader
	out       *bufio.Writer
	projects  string // the directory "projects"
	project   string // the name of the project's directory in it
	session   string
	mirror    bool
	interval  time.Duration
	pending   []frame
	parents   map[string]string // the last uuid of each file
	prompts   int
	questions int
}

// Main runs the agent as this process and returns its exit code.
func Main(args []string) int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := Agent{Args: args, Getenv: os.Getenv, Dir: dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return a.Run()
}

// exitError ends the process with a code.
type exitError int

func (e exitError) Error() string { return "exit " + strconv.Itoa(int(e)) }

// Run lives until the input ends.
func (a *Agent) Run() int {
	a.in, a.out = bufio.NewReader(a.Stdin), bufio.NewWriter(a.Stdout)
	a.parents = map[string]string{}
	err := a.start()
	for err == nil {
		err = a.serve()
	}
	if errors.Is(err, io.EOF) {
		err = a.flush()
	}
	if err == nil {
		err = a.out.Flush()
	}
	if code := exitError(0); errors.As(err, &code) {
		return int(code)
	}
	if err != nil {
		fmt.Fprintln(a.Stderr, err)
		return 1
	}
	return 0
}

var dirName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (a *Agent) start() (err error) {
	config := a.Getenv("CLAUDE_CONFIG_DIR")
	if name := a.Getenv("CLAUDE_CODE_PROJECT_DIR_NAME"); config != "" && dirName.MatchString(name) {
		a.project = name
	} else if a.project, err = sessionstore.ProjectKey(a.Dir); err != nil {
		return err
	}
	if config == "" {
		config = filepath.Join(a.Getenv("HOME"), ".claude")
	}
	a.projects = filepath.Join(config, "projects")
	if a.interval, err = time.ParseDuration(a.Getenv("STANDIN_INTERVAL")); err != nil {
		a.interval = 100 * time.Millisecond
	}
	if err := a.parse(); err != nil {
		return err
	}
	return a.print(map[string]any{
		"type": "system", "subtype": "init", "cwd": a.Dir, "session_id": a.session,
		"tools": []string{"Bash", "Task"}, "model": "stand-in", "permissionMode": "default", "uuid": newUUID(),
	})
}

// parse takes arguments as the real one does: a value is part of its token or
// the next one.
func (a *Agent) parse() error {
	resume, id, fork := "", newUUID(), false
	for i := 0; i < len(a.Args); i++ {
		name, value, joined := strings.Cut(a.Args[i], "=")
		take := func() string {
			if !joined && i+1 < len(a.Args) {
				i++
				value = a.Args[i]
			}
			return value
		}
		switch name {
		case "--resume", "-r":
			resume = take()
		case "--session-id":
			id = take()
		case "--output-format", "--input-format", "--permission-prompt-tool", "--model", "--setting-sources":
			take()
		case "--fork-session":
			fork = true
		case "--session-mirror":
			a.mirror = true
		}
	}
	a.session = id
	if resume == "" {
		return nil
	}
	return a.goOn(resume, id, fork)
}

// goOn takes up a session, or forks it.
func (a *Agent) goOn(resume, id string, fork bool) error {
	a.session = resume
	known, err := a.readBack()
	if err != nil {
		return err
	}
	if !known {
		fmt.Fprintf(a.Stderr, "No conversation found with session ID: %s\n", resume)
		return exitError(1)
	}
	if fork {
		old := a.file("")
		a.session = id
		return a.copyFile(old, a.file(""))
	}
	return nil
}

// readBack learns from its own file what has been said.
func (a *Agent) readBack() (known bool, err error) {
	lines, err := readLines(a.file(""))
	for _, line := range lines {
		var e struct {
			UUID, Type string
			IsMeta     bool
			Message    struct{ Content any }
		}
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.UUID != "" {
			a.parents[a.file("")] = e.UUID
		}
		if _, isText := e.Message.Content.(string); isText && e.Type == "user" {
			a.prompts++
		}
	}
	return len(lines) > 0, err
}

// input is a line of standard input.
type input struct {
	Type      string
	RequestID string `json:"request_id"`
	Request   struct{ Subtype string }
	Message   struct{ Content json.RawMessage }
	Response  struct {
		RequestID string `json:"request_id"`
		Response  struct{ Behavior string }
	}
}

func (a *Agent) read() (input, error) {
	var in input
	line, err := a.in.ReadBytes('\n')
	if len(line) == 0 && err != nil {
		return in, err
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return in, fmt.Errorf("bad input: %w", err)
	}
	return in, nil
}

// serve handles one line of input.
func (a *Agent) serve() error {
	in, err := a.read()
	if err != nil {
		return err
	}
	switch in.Type {
	case "control_request":
		return a.print(map[string]any{"type": "control_response", "response": map[string]any{
			"subtype": "success", "request_id": in.RequestID, "response": map[string]any{},
		}})
	case "user":
		return a.turn(promptOf(in.Message.Content))
	}
	return nil
}

func promptOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct{ Text string }
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// print writes one line, at once.
func (a *Agent) print(message any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(message); err != nil {
		return err
	}
	return a.out.Flush()
}
