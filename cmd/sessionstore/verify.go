package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
)

func newVerify(a *app) *cobra.Command {
	var scope scopeFlags
	mirrored := false
	cmd := &cobra.Command{
		Use:   "verify [A] B",
		Short: "Check that two stores hold the same",
		Long: `Compare two stores, or a project or a session of them, entry by entry by value.
Without A the first one is the agent's own directory.
Nothing is changed. Where they differ, the first difference of each transcript
is listed and the exit code is 1.

` + asMirroredHelp + `

JSON: one object for each transcript that differs, with projectKey, sessionId,
subpath, entry, reason; then one with equal, transcripts, entries, differences,
mainOnly (a store can't list subpaths), skippedLines, skipped (list of path,
line, error).`,
		Example: `  sessionstore verify file:/mnt/backup
  sessionstore verify --as-mirrored file:/mnt/backup
  sessionstore verify file:a file:b --project -home-dev-app
  sessionstore verify file:a file:b --session 814ed2c4 --json`,
		Args:              argCount(1, 2),
		ValidArgsFunction: a.completeStores,
		Annotations:       map[string]string{usesNoStore: "its stores are arguments"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				dir, err := agentDir()
				if err != nil {
					return err
				}
				args = []string{dir, args[0]}
			}
			return a.verify(cmd.Context(), args[0], args[1], scope, mirrored)
		},
	}
	asMirroredFlag(cmd, &mirrored)
	scope.register(a, cmd)
	return cmd
}

type verifyJSON struct {
	Equal       bool `json:"equal"`
	Transcripts int  `json:"transcripts"`
	Entries     int  `json:"entries"`
	Differences int  `json:"differences"`
	MainOnly    bool `json:"mainOnly"`
	skipReport
}

func (a *app) verify(ctx context.Context, nameA, nameB string, f scopeFlags, mirrored bool) (err error) {
	first, err := a.open(ctx, nameA, reading)
	if err != nil {
		return err
	}
	defer first.closeInto(&err)
	second, err := a.open(ctx, nameB, reading)
	if err != nil {
		return err
	}
	defer second.closeInto(&err)
	scope, err := f.scope(ctx, first)
	if errors.Is(err, sessionstore.ErrNotFound) {
		scope, err = f.scope(ctx, second)
	}
	if err != nil {
		return err
	}
	if mirrored {
		first.store, second.store = asMirrored{first.store}, asMirrored{second.store}
	}
	p := a.progress()
	report, err := sessionstore.Verify(ctx, first.store, second.store, scope,
		&sessionstore.VerifyOptions{Progress: p.verifying})
	p.done()
	if err != nil {
		return err
	}
	if err := wordMissing(ctx, report.Differences, first, second); err != nil {
		return err
	}
	if err := a.printVerify(report); err != nil {
		return err
	}
	if !report.Equal() {
		return errReported
	}
	return nil
}

func (a *app) printVerify(r sessionstore.VerifyReport) error {
	if a.json {
		for _, d := range r.Differences {
			if err := a.printJSON(differenceOf(d)); err != nil {
				return err
			}
		}
		return a.printJSON(verifyJSON{
			r.Equal(), r.Transcripts, r.Entries, len(r.Differences), r.MainOnly, a.skips.json(),
		})
	}
	for _, d := range r.Differences {
		text := d.String()
		if isMissing(d) {
			text = d.Key.String() + ": " + d.Reason
		}
		a.printf("%s\n", oneLine(text))
	}
	if r.Equal() {
		a.printf("equal: %s, %s\n", plural(r.Transcripts, "transcript"), plural(r.Entries, "entry"))
	} else {
		a.printf("%s of %s differ\n", number(int64(len(r.Differences))), plural(r.Transcripts, "transcript"))
	}
	if r.MainOnly {
		a.note("note: a store can't list subagents, so only main transcripts were compared")
	}
	return nil
}

const (
	missingInFirst  = "missing in the first store"
	missingInSecond = "missing in the second store"
)

func isMissing(d sessionstore.Difference) bool {
	return d.Reason == missingInFirst || d.Reason == missingInSecond
}

// wordMissing says where a transcript is missing as a whole.
func wordMissing(ctx context.Context, list []sessionstore.Difference, first, second *handle) error {
	for i := range list {
		d := &list[i]
		lacking, reason := first, missingInFirst
		switch {
		case d.Entry == 1 && d.Reason == "only the first store has an entry here":
			lacking, reason = second, missingInSecond
		case d.Entry == 1 && d.Reason == "only the second store has an entry here":
		default:
			continue
		}
		if d.Key.Subpath != "" { // metadata has no number, and may be there
			some, err := hasEntries(ctx, lacking, d.Key)
			if err != nil {
				return err
			}
			if some {
				continue
			}
		}
		d.Reason = reason
	}
	return nil
}

func hasEntries(ctx context.Context, h *handle, key sessionstore.Key) (bool, error) {
	for _, err := range sessionstore.Stream(ctx, h.store, key) {
		return err == nil, err
	}
	return false, nil
}
