package session

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// Session is what lists show of a session. Its JSON form has the members of the
// official SDK's session info.
type Session struct {
	SessionID string `json:"sessionId"`
	// Summary is the line to show: the title, or else the last prompt, the
	// agent's own summary, or the first prompt.
	Summary string `json:"summary"`
	// LastModified is when the main transcript was last written, by the
	// storage's clock, in ms since 1970. It is 0 if the store can't tell.
	LastModified int64 `json:"lastModified"`
	// CustomTitle is the title that a person gave, or else the agent.
	CustomTitle string `json:"customTitle,omitempty"`
	FirstPrompt string `json:"firstPrompt,omitempty"` // or the first slash command
	GitBranch   string `json:"gitBranch,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	Tag         string `json:"tag,omitempty"`
	CreatedAt   int64  `json:"createdAt,omitempty"` // of the first entry that has a time, in ms since 1970

	// Data is the JSON form of the [sessionstore.SummaryState] that the fields
	// come from. Its strings are as the entries spell them: half a surrogate
	// pair is still there, which is U+FFFD in the fields above.
	Data json.RawMessage `json:"-"`
}

// summary holds the values of a summary state that this package reads.
type summary struct {
	isSidechain, createdAt, cwd, firstPrompt, commandFallback []byte
	customTitle, aiTitle, lastPrompt, summaryHint             []byte
	gitBranch, tag                                            []byte
}

// readSummary reads the JSON form of a summary state. Values of another type
// than theirs are errors: what else such a summary says can't be relied on.
func readSummary(data json.RawMessage) (summary, error) {
	var s summary
	if string(data) == "null" {
		return s, nil
	}
	err := jsonscan.Object(data, func(k, v []byte) {
		if field := s.field(string(jsonscan.Unquote(k))); field != nil {
			*field = v
		}
	})
	if err == nil {
		err = s.check()
	}
	return s, err
}

func (s *summary) check() error {
	for _, v := range [...][]byte{s.cwd, s.firstPrompt, s.commandFallback, s.customTitle, s.aiTitle,
		s.lastPrompt, s.summaryHint, s.gitBranch, s.tag} {
		if v != nil && !jsonscan.IsString(v) {
			return errSummaryType
		}
	}
	if v := string(s.isSidechain); v != "" && v != "true" && v != "false" {
		return errSummaryType
	}
	if s.createdAt == nil {
		return nil
	}
	if n, err := strconv.ParseFloat(string(s.createdAt), 64); err != nil || math.Abs(n) > 1<<62 {
		return errSummaryType
	}
	return nil
}

var errSummaryType = errors.New("a value in the summary has the wrong type")

func (s *summary) field(name string) *[]byte {
	switch name {
	case "isSidechain":
		return &s.isSidechain
	case "createdAt":
		return &s.createdAt
	case "cwd":
		return &s.cwd
	case "firstPrompt":
		return &s.firstPrompt
	case "commandFallback":
		return &s.commandFallback
	case "customTitle":
		return &s.customTitle
	case "aiTitle":
		return &s.aiTitle
	case "lastPrompt":
		return &s.lastPrompt
	case "summaryHint":
		return &s.summaryHint
	case "gitBranch":
		return &s.gitBranch
	case "tag":
		return &s.tag
	}
	return nil
}

// firstID returns the first value that is a string with something in it.
func firstID(values ...[]byte) []byte {
	for _, v := range values {
		if isID(v) {
			return v
		}
	}
	return nil
}

func (s *summary) title() []byte  { return firstID(s.customTitle, s.aiTitle) }
func (s *summary) prompt() []byte { return firstID(s.firstPrompt, s.commandFallback) }

// session makes a row of a summary. It reports false if lists don't show the
// session: one of a sidechain, or one that has nothing to be called by.
func (s *summary) session() (Session, bool) {
	line := firstID(s.title(), s.lastPrompt, s.summaryHint, s.prompt())
	if string(s.isSidechain) == "true" || line == nil {
		return Session{}, false
	}
	created, _ := strconv.ParseFloat(string(s.createdAt), 64) // 0 if there is none
	return Session{
		Summary:     text(line),
		CustomTitle: text(s.title()),
		FirstPrompt: text(s.prompt()),
		GitBranch:   text(s.gitBranch),
		Cwd:         text(s.cwd),
		Tag:         text(s.tag),
		CreatedAt:   int64(created),
	}, true
}

// Info returns what [List] shows of one session. It reports false for sessions
// that lists don't show: unknown ones, those of a sidechain, those whose ids are
// not UUIDs, and those that have neither a title nor a prompt nor a summary.
//
// It reads the summary that the store keeps. Where there is none, or a stale
// one, it reads the transcript.
func Info(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) (Session, bool, error) {
	if err := checkReadable(key); err != nil {
		return Session{}, false, opError("info", key, err)
	}
	if !isUUID(key.SessionID) {
		return Session{}, false, nil
	}
	r, err := findRow(ctx, store, key)
	if err == nil && r != nil && r.loads() {
		err = r.load(ctx, store, key.ProjectKey, false)
	}
	if err != nil || r == nil {
		return Session{}, false, opError("info", key, err)
	}
	s, ok := r.session()
	return s, ok, nil
}

// findRow returns the row of one session, nil if it isn't listed.
func findRow(ctx context.Context, store sessionstore.SessionStore, key sessionstore.Key) (*row, error) {
	rows, err := listRows(ctx, store, key.ProjectKey, true)
	if errors.Is(err, errors.ErrUnsupported) {
		return &row{id: key.SessionID}, nil // only the transcript can tell
	}
	for i := range rows {
		if rows[i].id == key.SessionID {
			return &rows[i], nil
		}
	}
	return nil, err
}
