package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

// transferFlags are what copy, import and export have in common.
type transferFlags struct {
	dryRun       bool
	skipDiverged bool
	asMirrored   bool
}

func (f *transferFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "compare and count, write nothing")
	cmd.Flags().BoolVar(&f.skipDiverged, "skip-diverged", false,
		"leave out sessions whose copy holds something else, instead of stopping")
	asMirroredFlag(cmd, &f.asMirrored)
}

// transferHelp explains what every transfer does and prints.
const transferHelp = `Only what is missing is added, so a second run, or a run after an interruption,
completes the first one.

When the destination holds something that the source does not have, the session
has diverged. A title, a tag or a message that was added to the copy is enough.
Then nothing is changed and the exit code is 1. With --skip-diverged such
sessions are left out and listed, all others are copied, and the exit code is 0.

A session of which a file cannot be read is left out too, the others are copied,
and the exit code is 1.

` + asMirroredHelp + `

The time of a copied session is when it was copied, not when its agent last
wrote: "ls" shows it, and "rm --older-than" and "purge" go by it.

JSON fields: sessions, transcripts, unchanged, entries and bytes (added),
dryRun, mainOnly (the source can't list subpaths), diverged (list of
projectKey, sessionId, subpath, entry, reason), unreadable (list of projectKey,
sessionId, subpath: what was left out), skippedLines, skipped (list of
path, line, error: lines of files that are no entries).`

type differenceJSON struct {
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	Subpath    string `json:"subpath,omitempty"`
	Entry      int    `json:"entry"`
	Reason     string `json:"reason"`
}

func differenceOf(d sessionstore.Difference) differenceJSON {
	return differenceJSON{d.Key.ProjectKey, d.Key.SessionID, d.Key.Subpath, d.Entry, d.Reason}
}

type transferJSON struct {
	Sessions    int              `json:"sessions"`
	Transcripts int              `json:"transcripts"`
	Unchanged   int              `json:"unchanged"`
	Entries     int              `json:"entries"`
	Bytes       int64            `json:"bytes"`
	DryRun      bool             `json:"dryRun"`
	MainOnly    bool             `json:"mainOnly"`
	Diverged    []differenceJSON `json:"diverged"`
	Unreadable  []removalJSON    `json:"unreadable,omitempty"`
	skipReport
}

// transfer copies a scope and reports what was done.
func (a *app) transfer(ctx context.Context, dst, src *handle, scope sessionstore.Key, flags transferFlags) error {
	from, to := src.store, dst.store
	if flags.asMirrored {
		from, to = asMirrored{from}, asMirrored{to}
	}
	p := a.progress()
	report, err := sessionstore.Copy(ctx, to, from, scope, &sessionstore.CopyOptions{
		SkipDiverged: flags.skipDiverged,
		DryRun:       flags.dryRun,
		Unreadable:   func(_ sessionstore.Key, err error) error { return src.passOver(ctx, err) },
		Progress:     p.copying,
	})
	p.done()
	if errors.Is(err, sessionstore.ErrNotFound) {
		return notFoundf("%v is not in %s", scope, src.name)
	}
	if err != nil && ctx.Err() != nil {
		a.note("stopped after %s (%s); run the command again to go on", plural(report.Entries, "entry"), size(report.Bytes))
		return err
	}
	if err != nil && !errors.Is(err, sessionstore.ErrDiverged) {
		return err
	}
	if printErr := a.printTransfer(dst, report, flags); printErr != nil {
		return printErr
	}
	if err == nil || flags.skipDiverged {
		return nil // what was left out is listed
	}
	return fmt.Errorf("%w; --skip-diverged leaves such sessions out", err)
}

func (a *app) printTransfer(dst *handle, r sessionstore.CopyReport, flags transferFlags) error {
	if a.json {
		out := transferJSON{
			r.Sessions, r.Transcripts, r.Unchanged, r.Entries, r.Bytes, flags.dryRun, r.MainOnly,
			make([]differenceJSON, 0, len(r.Diverged)), nil, a.skips.json(),
		}
		for _, k := range r.Unreadable {
			out.Unreadable = append(out.Unreadable, removalJSON{k.ProjectKey, k.SessionID, k.Subpath})
		}
		for _, d := range r.Diverged {
			out.Diverged = append(out.Diverged, differenceOf(d))
		}
		return a.printJSON(out)
	}
	if len(r.Diverged) > 0 && !flags.skipDiverged {
		return nil // the error says it, and nothing was done
	}
	for _, d := range r.Diverged {
		a.printf("diverged, left out: %s\n", oneLine(d.String()))
	}
	if r.Sessions == 0 && len(r.Unreadable) > 0 {
		return nil
	}
	if r.Sessions == 0 {
		a.printf("nothing to copy\n") // the source is empty
		return nil
	}
	verb := "added"
	if flags.dryRun {
		verb = "would add"
	}
	a.printf("%s %s (%s) to %s: %s, %s", verb, plural(r.Entries, "entry"), size(r.Bytes), oneLine(dst.name),
		plural(r.Sessions, "session"), plural(r.Transcripts, "transcript"))
	if r.Unchanged > 0 {
		a.printf(", %s unchanged", number(int64(r.Unchanged)))
	}
	if n := len(r.Unreadable); n > 0 {
		a.printf(", %s left out", number(int64(n)))
	}
	a.printf("\n")
	if r.MainOnly {
		a.note("note: the source can't list subagents, so only main transcripts were copied")
	}
	return nil
}
