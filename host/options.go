package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

// DefaultGrace is how long an agent may take to end after its input has.
const DefaultGrace = 30 * time.Second

// Options say what is run, and how. The zero value starts a new session of the
// agent "claude" in the current directory.
type Options struct {
	// Session says which session the agent goes on with, the directory that it
	// runs in, and its environment.
	Session resume.Options

	// Command is the agent: an executable, and arguments that come before all
	// others. Nil means "claude" on the PATH.
	Command []string
	// Args come last, such as "--model=…" or "--fork-session". Those that this
	// package gives itself are refused.
	Args []string

	// Mirror are the options of the mirror. Without a Logger it uses
	// [log/slog.Default], so that no loss is silent.
	Mirror *mirror.Options

	// OnPermission answers the agent's questions whether it may use a tool. It
	// is called while a message is read, on a goroutine of its own, one at a
	// time. The context ends with the agent and when Close is called; nobody
	// waits for the answer then. If it panics, that is logged, and the tool is
	// denied.
	OnPermission func(context.Context, Permission) Decision

	// Stderr gets what the agent writes to its standard error. The end of it
	// is also in the error of Close. An error of it is logged once, and the
	// agent goes on. The agent waits for a Write that blocks.
	Stderr io.Writer
	// Grace is how long the agent may take to end when Close has ended its
	// input. Then it is killed. 0 is [DefaultGrace].
	Grace time.Duration
}

// Permission is a question of the agent: may it use this tool?
type Permission struct {
	Tool  string          `json:"tool_name"`
	Input json.RawMessage `json:"input"`
	Raw   json.RawMessage `json:"-"` // the whole request
}

// Decision is the answer to a [Permission].
type Decision struct {
	Allow bool
	// Input is what the tool gets when it is allowed; nil: what was asked for.
	// One that is no JSON object is logged, and the tool is denied.
	Input json.RawMessage
	// Message tells the agent why it is denied.
	Message string
}

var errOurs = errors.New("this package gives it itself; see the fields of Options")

// Validate checks the options without starting or calling anything. [Start]
// does so first. The error is a [*resume.OptionError].
func (o Options) Validate(store sessionstore.SessionStore) error {
	if err := o.Session.Validate(store); err != nil {
		return err
	}
	for i, arg := range o.Args {
		name, id, joined := strings.Cut(arg, "=")
		if flag := shortFlag(arg); flag != "" {
			name = flag
		}
		switch name {
		case "--resume", "-r", "--continue", "-c", "--output-format", "--input-format", "--verbose", "--permission-prompt-tool", "--session-mirror":
			return &resume.OptionError{Option: name, Err: errOurs}
		case "--session-id":
			if !joined && i+1 < len(o.Args) {
				id = o.Args[i+1]
			}
			if err := resume.CheckSessionID(id); err != nil {
				return err
			}
		}
	}
	// Session has looked at the environment.
	return resume.CheckAgent(slices.Concat(o.Command, o.Args), nil)
}

// shortFlag finds one of ours among short flags that are written together, and
// with its value behind it.
func shortFlag(arg string) string {
	letters, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return ""
	}
	for _, c := range letters {
		switch c {
		case 'r', 'c':
			return "-" + string(c)
		case 'p', 'v', 'h': // they take no value: another flag may follow
		default:
			return ""
		}
	}
	return ""
}

// Args returns the arguments of an agent that goes on with a session, each
// value in one token with its flag, so that none can be taken for another flag.
func Args(s *resume.Session, more ...string) []string {
	args := []string{
		"--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
		"--permission-prompt-tool=stdio", "--session-mirror",
	}
	return append(append(args, s.Args()...), more...)
}

// answer is the reply to a question, as a line for the agent's input.
func answer(id json.RawMessage, d Decision, asked json.RawMessage) ([]byte, error) {
	response := map[string]any{"behavior": "deny", "message": d.Message}
	if d.Allow {
		if d.Input == nil {
			d.Input = asked
		}
		response = map[string]any{"behavior": "allow", "updatedInput": d.Input}
	} else if d.Message == "" {
		response["message"] = "the host denied it"
	}
	return json.Marshal(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": id, "response": response,
	}})
}

func refuse(id json.RawMessage, why string) ([]byte, error) {
	return json.Marshal(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "error", "request_id": id, "error": why,
	}})
}
