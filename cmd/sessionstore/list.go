package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// row is one session of a listing.
type row struct {
	project string
	sessionstore.SessionInfo
}

func (r row) key() sessionstore.Key {
	return sessionstore.Key{ProjectKey: r.project, SessionID: r.SessionID}
}

type rowJSON struct {
	SessionID  string `json:"sessionId"`
	ProjectKey string `json:"projectKey"`
	Mtime      int64  `json:"mtime"`
	Time       string `json:"time"`
}

func (r row) json() rowJSON {
	return rowJSON{r.SessionID, r.project, r.Mtime, jsonTime(r.Mtime)}
}

// listSessions lists the sessions of some projects, newest first. It reads no
// transcript.
func listSessions(ctx context.Context, h *handle, projects []string) ([]row, error) {
	var rows []row
	for _, p := range projects {
		sessions, err := sessionstore.ListSessions(ctx, h.store, p)
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			rows = append(rows, row{p, s})
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
	return listSessions(ctx, h, projects)
}

// printRows prints a listing as a table or as JSON.
func (a *app) printRows(rows []row) error {
	if a.json {
		for _, r := range rows {
			if err := a.printJSON(r.json()); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{name(r.SessionID), localTime(r.Mtime), a.age(r.Mtime), name(r.project)}
	}
	a.table([]string{"SESSION", "LAST WRITTEN", "AGE", "PROJECT"}, cells)
	return nil
}
