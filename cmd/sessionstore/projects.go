package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

func newProjects(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "projects",
		Short: "List the projects of a store",
		Long: `List the project keys of a store, with their number of sessions and when the
newest one was last written. No transcript is read.

JSON fields: projectKey, sessions, and for projects that have sessions
newestMtime (milliseconds since 1970), newestTime.`,
		Example: `  sessionstore projects
  sessionstore projects -s file:backup --json`,
		Args:              argCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.projects(cmd.Context())
		},
	}
}

type projectJSON struct {
	ProjectKey  string `json:"projectKey"`
	Sessions    int    `json:"sessions"`
	NewestMtime int64  `json:"newestMtime,omitempty"`
	NewestTime  string `json:"newestTime,omitempty"`
}

func (a *app) projects(ctx context.Context) (err error) {
	h, err := a.openStore(ctx, reading)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	keys, err := sessionstore.ListProjects(ctx, h.store)
	if err != nil {
		return err
	}
	var projects []projectJSON
	for _, key := range keys {
		sessions, err := sessionstore.ListSessions(ctx, h.store, key)
		failed := err != nil
		if failed {
			err = h.passOver(ctx, err)
		}
		if err != nil {
			return err
		}
		if failed && len(sessions) == 0 {
			continue
		}
		p := projectJSON{ProjectKey: key, Sessions: len(sessions)}
		if len(sessions) > 0 {
			p.NewestMtime = sessions[0].Mtime
			p.NewestTime = jsonTime(sessions[0].Mtime)
		}
		projects = append(projects, p)
	}
	if len(keys) == 0 {
		a.note("no projects in %s", h.name)
		return nil
	}
	return a.printProjects(projects)
}

func (a *app) printProjects(projects []projectJSON) error {
	var rows [][]string
	for _, p := range projects {
		if a.json {
			if err := a.printJSON(p); err != nil {
				return err
			}
			continue
		}
		newest, old := "-", "-"
		if p.Sessions > 0 {
			newest, old = localTime(p.NewestMtime), a.age(p.NewestMtime)
		}
		rows = append(rows, []string{strconv.Itoa(p.Sessions), newest, old, name(p.ProjectKey)})
	}
	if !a.json && len(rows) > 0 {
		a.table([]string{"SESSIONS", "NEWEST", "AGE", "PROJECT"}, rows)
	}
	return nil
}
