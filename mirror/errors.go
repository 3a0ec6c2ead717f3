package mirror

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// Error is a batch that was given up, or an entry that no store can hold. It is
// what the agent's own hosts call mirror_error.
type Error struct {
	Key sessionstore.Key
	// Entries are what is not stored. They must not be changed. A frame that
	// was cut off has none, and nor has a file that is missing.
	Entries []sessionstore.Entry
	// Attempts is how often the store was called for them.
	Attempts int
	// Spilled is the file that keeps the batch, empty if there is none.
	Spilled string
	Err     error
}

func (e *Error) Error() string {
	switch {
	case errors.Is(e.Err, ErrBatchMissing):
		return fmt.Sprintf("mirror: deliver %v: %v", e.Key, e.Err)
	case len(e.Entries) == 0:
		return fmt.Sprintf("mirror: frame for %v: %v", e.Key, e.Err)
	}
	text := fmt.Sprintf("mirror: append %v: %s not stored: %v", e.Key, counted(len(e.Entries), "entry", "entries"), e.Err)
	if e.Spilled != "" {
		text += " (kept in " + e.Spilled + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrBrokenFrame is wrapped by an [Error] about a frame that is not one JSON
// object, usually because the agent was killed while it wrote. Its whole
// entries before the fault are stored.
var ErrBrokenFrame = errors.New("broken frame")

// ErrBatchMissing is wrapped where a file that kept a batch is gone although
// nobody delivered it. What it held is in the agent's local file only; [Watch]
// with Once set brings it in.
var ErrBatchMissing = errors.New("a file with a batch is missing")

// ForeignError is a frame whose path is no transcript below the projects
// directory. Its entries are not stored.
type ForeignError struct {
	Path        string // as the agent gave it
	ProjectsDir string // where the mirror expects transcripts
	// Outside says that the path lies outside the projects directory: the
	// agent runs with another configuration directory. Otherwise it lies
	// inside and has the form of no transcript.
	Outside bool
	// First says that no frame with this path was reported before.
	First   bool
	Entries []sessionstore.Entry
	Err     error // what is wrong with it
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("mirror: frame for %q: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *ForeignError) Unwrap() error { return e.Err }

// Loss is what of one key is not in the store.
type Loss struct {
	Key     sessionstore.Key
	Entries int // in all, those kept in files included
	Spilled int // entries kept in files of Options.Spill
	// Missing is the number of such files that are gone, undelivered. Entries
	// counts what was in those that this mirror wrote.
	Missing int
	Err     error
}

// LossError is what Close returns when not all that came in is in the store.
type LossError struct {
	Losses  []Loss
	Foreign int64 // frames whose path is no transcript
	Broken  int64 // frames that were cut off

	gone bool // a file of Options.Spill was missing or damaged at Close
}

func (e *LossError) Error() string {
	const shown = 3
	var parts []string
	for i, l := range e.Losses {
		if i == shown {
			parts = append(parts, counted(len(e.Losses)-shown, "more key", "more keys"))
			break
		}
		text := fmt.Sprintf("%v: %s", l.Key, counted(l.Entries, "entry", "entries"))
		if l.Spilled > 0 {
			text += fmt.Sprintf(" (%d kept in files)", l.Spilled)
		}
		if l.Missing > 0 {
			text += fmt.Sprintf(" (%s missing)", counted(l.Missing, "file", "files"))
		}
		parts = append(parts, text+": "+l.Err.Error())
	}
	if e.Foreign > 0 {
		parts = append(parts, counted(int(e.Foreign), "frame", "frames")+" from elsewhere")
	}
	if e.Broken > 0 {
		parts = append(parts, counted(int(e.Broken), "broken frame", "broken frames"))
	}
	return "mirror: not stored: " + strings.Join(parts, "; ")
}

// AllSpilled reports whether nothing is lost yet: all that is not in the store
// lies in files of Options.Spill that could be read whole at Close, and [Replay]
// will deliver it.
func (e *LossError) AllSpilled() bool {
	for _, l := range e.Losses {
		if l.Missing > 0 || l.Spilled < l.Entries {
			return false
		}
	}
	return e.Foreign == 0 && e.Broken == 0 && !e.gone
}

// Unwrap returns the causes.
func (e *LossError) Unwrap() []error {
	errs := make([]error, len(e.Losses))
	for i, l := range e.Losses {
		errs[i] = l.Err
	}
	return errs
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
