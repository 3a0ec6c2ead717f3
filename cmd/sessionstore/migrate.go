package main

import (
	"context"

	"github.com/spf13/cobra"
)

// migrator is a store whose tables have to be made.
type migrator interface {
	Migrate(ctx context.Context) error
	Schema() string
}

func newMigrate(a *app) *cobra.Command {
	printSQL := false
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables of a database store",
		Long: `Make the tables of a database store, or bring those of an earlier version up to
date. It does nothing where nothing is to be done, and any number of hosts may
run it at once. With --print the SQL is printed instead, for those who run
their migrations themselves; the server is not contacted.

JSON field: migrated (true).`,
		Example: `  sessionstore migrate -s postgres://me@localhost/agents
  sessionstore migrate -s 'postgres://me@localhost/agents?schema=sessions' --print`,
		Args: argCount(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrate(cmd.Context(), printSQL)
		},
	}
	cmd.Flags().BoolVar(&printSQL, "print", false, "print the SQL, change nothing")
	return cmd
}

func (a *app) migrate(ctx context.Context, printSQL bool) (err error) {
	h, err := a.openStore(ctx, writing)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	m, ok := h.store.(migrator)
	if !ok {
		kind, _, _ := cutScheme(h.name)
		return usagef("%s has no tables: %s stores need no migration", h.name, kind)
	}
	return a.runMigration(ctx, m, h.name, printSQL)
}
