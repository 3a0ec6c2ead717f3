package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

// row is one session of a listing.
type row struct {
	project string
	sessionstore.SessionInfo
	about session.Session // empty until the title has been read
}

func (r row) key() sessionstore.Key {
	return sessionstore.Key{ProjectKey: r.project, SessionID: r.SessionID}
}

type rowJSON struct {
	SessionID  string `json:"sessionId"`
	ProjectKey string `json:"projectKey"`
	Mtime      int64  `json:"mtime"`
	Time       string `json:"time"`
	titleJSON
}

func (r row) json() rowJSON {
	return rowJSON{r.SessionID, r.project, r.Mtime, jsonTime(r.Mtime), newTitleJSON(r.about)}
}

// listSessions lists the sessions of some projects, newest first. It reads no
// transcript. Of several projects, one that can't be listed is passed over.
func listSessions(ctx context.Context, h *handle, projects []string) ([]row, error) {
	var rows []row
	for _, p := range projects {
		sessions, err := sessionstore.ListSessions(ctx, h.store, p)
		if err != nil && (len(projects) > 1 || len(sessions) > 0) {
			err = h.passOver(ctx, err)
		}
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			rows = append(rows, row{project: p, SessionInfo: s})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime),
			strings.Compare(a.SessionID, b.SessionID), strings.Compare(a.project, b.project))
	})
	return rows, nil
}

func listAllSessions(ctx context.Context, h *handle) ([]row, error) {
	projects, err := sessionstore.ListProjects(ctx, h.store)
	if err != nil {
		return nil, err
	}
	rows, err := listSessions(ctx, h, projects)
	if err != nil && len(projects) == 1 { // the only one there is
		err = h.passOver(ctx, err)
	}
	return rows, err
}
