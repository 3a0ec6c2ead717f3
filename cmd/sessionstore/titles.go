package main

import (
	"context"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

// readTitles gives rows their titles. A store that keeps summaries is asked for
// those. Of another one the transcripts of these rows are read, some at a time,
// and no others; of a directory those that the agent has written to since their
// summaries were kept. Rows that have nothing to be called by stay without title.
//
// A transcript that can't be read is reported and leaves its row as it is.
func (a *app) readTitles(ctx context.Context, h *handle, rows []row) (failed bool, err error) {
	byProject := make(map[string][]sessionstore.SessionInfo)
	place := make(map[sessionstore.Key]*row, len(rows))
	for i := range rows {
		r := &rows[i]
		byProject[r.project] = append(byProject[r.project], r.SessionInfo)
		place[r.key()] = r
	}
	for project, sessions := range byProject {
		store := withSingleSummaries(narrowed{SessionStore: h.store, sessions: sessions})
		list, err := session.List(ctx, store, project, &session.ListOptions{Limit: len(sessions)})
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		if err != nil {
			a.warn("warning: titles are missing: %s", errorText(err))
			failed = true
		}
		for _, s := range list {
			if r := place[sessionstore.Key{ProjectKey: project, SessionID: s.SessionID}]; r != nil {
				r.about = s
			}
		}
	}
	return failed, nil
}

// titleJSON is what JSON results say of a session beside its key and time. The
// members are those of the agent SDK.
type titleJSON struct {
	Summary     string `json:"summary,omitempty"`
	CustomTitle string `json:"customTitle,omitempty"`
	FirstPrompt string `json:"firstPrompt,omitempty"`
	Tag         string `json:"tag,omitempty"`
	GitBranch   string `json:"gitBranch,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	CreatedAt   int64  `json:"createdAt,omitempty"`
}

const titleJSONHelp = `summary (the line to show: the title, or else a prompt), customTitle,
firstPrompt, tag, gitBranch, cwd, createdAt (milliseconds since 1970)`

func newTitleJSON(s session.Session) titleJSON {
	return titleJSON{s.Summary, s.CustomTitle, s.FirstPrompt, s.Tag, s.GitBranch, s.Cwd, s.CreatedAt}
}
