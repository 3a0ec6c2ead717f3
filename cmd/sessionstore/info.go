package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

func newInfo(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "info SESSION",
		Short: "Print what is known about a session",
		Long: `Print what is known about a session: its key, title, tag, times, working
directory, branch and first prompt, how large its main transcript is, and how
many subagents it had. The main transcript is read.

JSON: one object with sessionId, projectKey, entries, bytes (of the main
transcript), subagents, subpaths (both numbers); where they are known also mtime
(milliseconds since 1970), time, isSidechain, lastPrompt,
` + titleJSONHelp + `.`,
		Example: `  sessionstore info 814ed2c4
  sessionstore info -s file:backup -home-dev-app/814ed2c4 --json`,
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeOneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.info(cmd.Context(), args[0], project)
		},
	}
	a.projectFlag(cmd, &project)
	return cmd
}

// projectFlag is --project of commands that take a session.
func (a *app) projectFlag(cmd *cobra.Command, project *string) {
	cmd.Flags().StringVarP(project, "project", "p", "", "`PROJECT` of the session: a key, or the directory it stands for")
	must(cmd.RegisterFlagCompletionFunc("project", a.completeProjects))
}

// findWholeSession finds a session for a command that has no use for a subpath.
func (a *app) findWholeSession(ctx context.Context, h *handle, arg, project string) (sessionstore.Key, error) {
	if key, err := parseKey(arg); err == nil && key.Subpath != "" {
		return key, usagef("%s names a subpath; this command takes a whole session", arg)
	}
	return a.findTranscript(ctx, h, arg, project, "")
}

func (a *app) info(ctx context.Context, arg, project string) (err error) {
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	key, err := a.findWholeSession(ctx, h, arg, project)
	if err != nil {
		return err
	}
	f, err := readFacts(ctx, h, key)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(f.json())
	}
	a.printFacts(f)
	return nil
}

// facts is what is known about a session.
type facts struct {
	key         sessionstore.Key
	mtime       int64 // 0 if the store can't tell
	about       session.Session
	isSidechain bool
	lastPrompt  string
	summary     string // that the agent wrote
	entries     int
	bytes       int64
	agents      int
	subpaths    []string
}

// readFacts reads the main transcript once.
func readFacts(ctx context.Context, h *handle, key sessionstore.Key) (facts, error) {
	f := facts{key: key}
	var state sessionstore.SummaryState
	for e, err := range sessionstore.Stream(ctx, h.store, key) {
		if err != nil {
			return f, err
		}
		state.Fold(e)
		f.entries++
		f.bytes += int64(len(e.Line())) + 1
	}
	if err := f.findTime(ctx, h); err != nil {
		return f, err
	}
	if err := f.describe(ctx, h, state); err != nil {
		return f, err
	}
	var err error
	f.subpaths, err = listSubpaths(ctx, h, key)
	for _, sub := range f.subpaths {
		if _, ok := agentOf(sub); ok {
			f.agents++
		}
	}
	return f, err
}

func (f *facts) findTime(ctx context.Context, h *handle) error {
	sessions, err := sessionstore.ListSessions(ctx, h.store, f.key.ProjectKey)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		if err := h.passOver(ctx, err); err != nil {
			return err
		}
	}
	for _, s := range sessions {
		if s.SessionID == f.key.SessionID {
			f.mtime = s.Mtime
		}
	}
	return nil
}

// describe takes the title and so on from the state, without reading again.
func (f *facts) describe(ctx context.Context, h *handle, state sessionstore.SummaryState) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	known := gjson.ParseBytes(data)
	f.isSidechain = known.Get("isSidechain").Bool()
	f.lastPrompt, f.summary = stringOf(known, "lastPrompt"), stringOf(known, "summaryHint")
	id := f.key.SessionID
	store := narrowed{
		SessionStore: h.store,
		sessions:     []sessionstore.SessionInfo{{SessionID: id, Mtime: f.mtime}},
		summaries:    []sessionstore.SessionSummary{{SessionID: id, Mtime: f.mtime, Data: data}},
	}
	var listed bool
	if f.about, listed, err = session.Info(ctx, store, f.key); err != nil || listed {
		return err
	}
	// Lists leave this session out. A person who asks for it is told all the
	// same what its entries say.
	f.about = session.Session{
		CustomTitle: firstString(known, "customTitle", "aiTitle"),
		FirstPrompt: firstString(known, "firstPrompt", "commandFallback"),
		Tag:         stringOf(known, "tag"),
		GitBranch:   stringOf(known, "gitBranch"),
		Cwd:         stringOf(known, "cwd"),
		CreatedAt:   known.Get("createdAt").Int(),
	}
	return nil
}

func firstString(object gjson.Result, fields ...string) string {
	for _, field := range fields {
		if s := stringOf(object, field); s != "" {
			return s
		}
	}
	return ""
}

type factsJSON struct {
	SessionID   string `json:"sessionId"`
	ProjectKey  string `json:"projectKey"`
	Mtime       int64  `json:"mtime,omitempty"`
	Time        string `json:"time,omitempty"`
	IsSidechain bool   `json:"isSidechain,omitempty"`
	titleJSON
	LastPrompt string `json:"lastPrompt,omitempty"`
	Entries    int    `json:"entries"`
	Bytes      int64  `json:"bytes"`
	Subagents  int    `json:"subagents"`
	Subpaths   int    `json:"subpaths"`
}

func (f *facts) json() factsJSON {
	j := factsJSON{
		SessionID: f.key.SessionID, ProjectKey: f.key.ProjectKey, Mtime: f.mtime, IsSidechain: f.isSidechain,
		titleJSON: newTitleJSON(f.about), LastPrompt: f.lastPrompt,
		Entries: f.entries, Bytes: f.bytes, Subagents: f.agents, Subpaths: len(f.subpaths),
	}
	if f.mtime != 0 {
		j.Time = jsonTime(f.mtime)
	}
	return j
}

// fact is one line of what is known.
type fact struct{ Label, Text string }

// lines are the facts for people; what is unknown has no line. The function
// writes a time.
func (f *facts) lines(when func(ms int64) string) []fact {
	all := []fact{
		{"session", name(f.key.SessionID)},
		{"project", name(f.key.ProjectKey)},
		{"title", f.about.CustomTitle},
		{"tag", f.about.Tag},
		{"summary", f.summary},
		{"first prompt", f.about.FirstPrompt},
		{"last prompt", f.lastPrompt},
		{"created", when(f.about.CreatedAt)},
		{"last written", when(f.mtime)},
		{"directory", f.about.Cwd},
		{"branch", f.about.GitBranch},
		{"main transcript", f.mainText()},
		{"subagents", countText(f.agents)},
		{"others beside it", countText(len(f.subpaths) - f.agents)},
	}
	if f.isSidechain {
		all = append(all, fact{"sidechain", "yes; agents do not list it"})
	}
	return slices.DeleteFunc(all, func(l fact) bool { return l.Text == "" })
}

func (f *facts) mainText() string {
	if f.entries == 0 {
		return "none"
	}
	return plural(f.entries, "entry") + ", " + size(f.bytes)
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return number(int64(n))
}

func (a *app) printFacts(f facts) {
	const labelWidth = 18
	st := a.style()
	when := func(ms int64) string {
		if ms == 0 {
			return ""
		}
		return localTime(ms) + ", " + a.age(ms) + " ago"
	}
	width := min(a.out.width, maxTextWidth) - labelWidth
	for _, l := range f.lines(when) {
		label := st.dim(l.Label) + strings.Repeat(" ", labelWidth-len(l.Label))
		wrap(oneLine(l.Text), width, func(text string) {
			a.printf("%s%s\n", label, text)
			label = strings.Repeat(" ", labelWidth)
		})
	}
}
