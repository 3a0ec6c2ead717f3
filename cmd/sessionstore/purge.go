package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

type purgeOptions struct {
	olderThan string
	yes       bool
}

func newPurge(a *app) *cobra.Command {
	var opts purgeOptions
	cmd := &cobra.Command{
		Use:   "purge --older-than AGE",
		Short: "Delete old sessions of a whole store, without listing them",
		Long: `Delete all sessions, of all projects, whose main transcript was last written
longer ago than AGE (a number and s, m, h, d or w). The store does it by itself,
in bounded steps: an interrupted run has deleted whole sessions, and the next
one goes on. To see what would go, use "rm --older-than AGE --dry-run".

For a copied session the last write is when it was copied into this store, not
when its agent last wrote.

It asks; without a terminal it needs --yes.

JSON fields: sessions, transcripts (deleted, also when the run fails).`,
		Example: `  sessionstore purge -s postgres://me@localhost/agents --older-than 90d --yes`,
		Args:    argCount(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.purge(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.olderThan, "older-than", "", "delete sessions last written longer ago than this `AGE`, such as 90d")
	cmd.Flags().BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) purge(ctx context.Context, opts purgeOptions) (err error) {
	if opts.olderThan == "" {
		return usagef("how old? give --older-than AGE, such as 90d")
	}
	age, err := parseAge(opts.olderThan)
	if err != nil {
		return err
	}
	before := a.now().Add(-age)
	h, err := a.openStore(ctx, writing)
	if err != nil {
		return err
	}
	defer h.closeInto(&err)
	p, ok := h.store.(sessionstore.Purger)
	if !ok {
		return fmt.Errorf("purge %s: %w", h.name, errors.ErrUnsupported)
	}
	if !opts.yes {
		what := fmt.Sprintf("all sessions last written before %s", before.Format(time.DateTime))
		if err := a.ask(ctx, h, what); err != nil {
			return err
		}
	}
	report, err := p.Purge(ctx, before)
	if printErr := a.printPurge(report); err == nil {
		err = printErr
	}
	return err
}

func (a *app) printPurge(r sessionstore.PurgeReport) error {
	if a.json {
		return a.printJSON(struct {
			Sessions    int `json:"sessions"`
			Transcripts int `json:"transcripts"`
		}{r.Sessions, r.Transcripts})
	}
	a.printf("deleted %s, %s\n", plural(r.Sessions, "session"), plural(r.Transcripts, "transcript"))
	return nil
}
