package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// The tool as a request names it: {"type": ToolType, "name": ToolName}.
const (
	ToolType = "memory_20250818"
	ToolName = "memory"
)

// Defaults of [Options].
const (
	DefaultMaxFileBytes = 4 << 20
	DefaultMaxFiles     = 10_000
	DefaultMaxBytes     = 64 << 20
	DefaultMaxViewChars = 16_000
)

// Options of [New]. The zero value is fine. A limit of 0 is its default, a
// negative one no limit. What exceeds a limit is an error for the model and
// changes nothing.
type Options struct {
	MaxFileBytes int64 // of one file
	MaxFiles     int   // in the store
	MaxBytes     int64 // of all files together
	MaxViewChars int   // of the answer to one view

	// Overwrite makes the command create replace a file that exists. Without
	// it that is an error for the model, which protects notes it has forgotten.
	Overwrite bool

	// Redact sees the whole text of a file before it is written, by whatever
	// command, and returns what is written instead: the same text, or one
	// without secrets. An error refuses the write. The text of a [Refusal] is
	// told to the model, that of any other error only to OnError, which gets both.
	// Before a rename it is asked about each file with its new path. To return
	// another text refuses the rename, and so does a file that goes away while it
	// is asked. Renames of one Tool wait for each other then. What another Tool or
	// host moves or writes between the question and the rename is not seen.
	Redact func(ctx context.Context, path, text string) (string, error)

	// OnChange is told of every change after it was made, also by
	// [Tool.Expire]. Like OnError it may be called from several goroutines at
	// once, and a panic in it harms nothing.
	OnChange func(ctx context.Context, change Change)

	// OnError is told of failures that are not mistakes of the model: of the
	// storage, of a command that gave up because others changed the file all
	// the time, a panic, and every write that Redact refuses, also with a
	// [Refusal].
	OnError func(ctx context.Context, err error)
}

// Change is what [Options.OnChange] is told.
type Change struct {
	Command string // create, str_replace, insert, delete, rename or expire
	Path    string
	NewPath string // of a rename
	Bytes   int    // of the file after a create, str_replace or insert
}

// Refusal is an error of [Options.Redact] whose text the model may read.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Tool runs the commands of a model on a [Store]. It is safe for concurrent
// use. Make one with [New].
type Tool struct {
	store  Store
	opts   Options
	limits Limits

	renaming sync.Mutex // held by a rename that Redact is asked about
}

// New returns a tool on a store, which was made for one scope. Options may be
// nil.
func New(store Store, options *Options) (*Tool, error) {
	if store == nil {
		return nil, errors.New("memory: the store is nil")
	}
	var o Options
	if options != nil {
		o = *options
	}
	o.MaxFileBytes = max(0, cmp.Or(o.MaxFileBytes, DefaultMaxFileBytes))
	o.MaxFiles = max(0, cmp.Or(o.MaxFiles, DefaultMaxFiles))
	o.MaxBytes = max(0, cmp.Or(o.MaxBytes, DefaultMaxBytes))
	o.MaxViewChars = max(0, cmp.Or(o.MaxViewChars, DefaultMaxViewChars))
	return &Tool{store: store, opts: o, limits: Limits{Files: o.MaxFiles, Bytes: o.MaxBytes}}, nil
}

// Result is the answer to one command.
type Result struct {
	// Content is what the model gets. It encodes to JSON as the content of a
	// tool_result block.
	Content []Block
	// IsError is the is_error of the tool_result block.
	IsError bool
	// Err is the failure behind an error that is not the model's, the one that
	// Options.OnError got. It may hold details that are not for the model.
	Err error
}

// Text returns the text of the content.
func (r Result) Text() string {
	var text string
	for _, b := range r.Content {
		text += b.Text
	}
	return text
}

// Block is a piece of content: text, or an image where MediaType is not empty.
type Block struct {
	Text      string
	MediaType string // image/png or image/jpeg
	Data      []byte
}

// MarshalJSON writes the block as the API takes it.
func (b Block) MarshalJSON() ([]byte, error) {
	if b.MediaType == "" {
		return json.Marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", b.Text})
	}
	type source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"` // as base64
	}
	return json.Marshal(struct {
		Type   string `json:"type"`
		Source source `json:"source"`
	}{"image", source{"base64", b.MediaType, b.Data}})
}

// modelError is what the model did wrong, in words for it.
type modelError struct{ text string }

func (e *modelError) Error() string { return e.text }

func modelErrorf(format string, args ...any) error { return &modelError{fmt.Sprintf(format, args...)} }

// Run carries out one command, given as the input of a tool_use block in JSON.
// It never panics.
func (t *Tool) Run(ctx context.Context, input json.RawMessage) (result Result) {
	defer func() {
		if p := recover(); p != nil {
			result = t.failed(ctx, fmt.Errorf("memory: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if err := ctx.Err(); err != nil {
		return t.failed(ctx, NothingDone(err))
	}
	content, err := t.run(ctx, input)
	if err != nil {
		return t.failed(ctx, err)
	}
	return Result{Content: content}
}

func (t *Tool) run(ctx context.Context, input json.RawMessage) ([]Block, error) {
	in, err := parseInput(input)
	if err != nil {
		return nil, err
	}
	command, err := in.text("command")
	if err != nil {
		return nil, err
	}
	if command == "view" {
		return t.view(ctx, in)
	}
	commands := map[string]func(context.Context, fields) (string, error){
		"create": t.create, "str_replace": t.strReplace, "insert": t.insert, "delete": t.delete, "rename": t.rename,
	}
	run, ok := commands[command]
	if !ok {
		return nil, modelErrorf("Error: Unknown command %s. The commands are view, create, str_replace, insert, delete and rename.", quotePath(command))
	}
	text, err := run(ctx, in)
	return []Block{{Text: text}}, err
}

// failed makes the answer to a command that was not carried out. The model is
// told what it did wrong, and of everything else only that it happened.
func (t *Tool) failed(ctx context.Context, err error) Result {
	const unknown = "Error: The memory could not be reached, so it is not sure that the command was carried out. View the path before you try again."
	var wrong *modelError
	if errors.As(err, &wrong) {
		return Result{Content: []Block{{Text: wrong.text}}, IsError: true}
	}
	text := unknown
	var definite interface{ NothingDone() }
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		text = refused.text()
	case errors.As(err, &definite) && !errors.Is(err, ErrConflict):
		text = "Error: The command was not carried out, because the memory cannot be used at the moment. Nothing was changed."
	case errors.Is(err, ErrConflict):
		text = "Error: The file was changed by others again and again, so it was left as it is. View it and try again."
	}
	t.report(ctx, err)
	return Result{Content: []Block{{Text: text}}, IsError: true, Err: err}
}

// report and changed call the hooks of the host, which must not do harm.
func (t *Tool) report(ctx context.Context, err error) {
	defer func() { _ = recover() }()
	if t.opts.OnError != nil {
		t.opts.OnError(ctx, err)
	}
}

func (t *Tool) changed(ctx context.Context, c Change) {
	defer func() {
		if p := recover(); p != nil {
			t.report(ctx, fmt.Errorf("memory: OnChange: panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if t.opts.OnChange != nil {
		t.opts.OnChange(ctx, c)
	}
}

// refusedError is a failure of Options.Redact.
type refusedError struct {
	path string
	err  error
}

func (e *refusedError) Error() string {
	return "memory: redact " + quotePath(e.path) + ": " + e.err.Error()
}
func (e *refusedError) Unwrap() error { return e.err }

func (e *refusedError) text() string {
	why := Refusal("the host does not allow this text")
	_ = errors.As(e.err, &why)
	return fmt.Sprintf("Error: %s was not written: %s", e.path, string(why))
}

// redact returns what is written in place of the text.
func (t *Tool) redact(ctx context.Context, path string, data []byte) (out []byte, err error) {
	if t.opts.Redact == nil {
		return data, nil
	}
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, &refusedError{path, fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	text, err := t.opts.Redact(ctx, path, string(data))
	if err != nil {
		return nil, &refusedError{path, err}
	}
	return []byte(text), nil
}

// Expire deletes the files that were not used for that long, which is at least
// [UseInterval], and returns their paths, if the store can.
func (t *Tool) Expire(ctx context.Context, unusedFor time.Duration) ([]string, error) {
	paths, err := Expire(ctx, t.store, unusedFor)
	for _, path := range paths {
		t.changed(ctx, Change{Command: "expire", Path: path})
	}
	return paths, err
}
