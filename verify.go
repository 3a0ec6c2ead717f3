package sessionstore

import (
	"context"
	"slices"
	"strings"
)

// VerifyOptions are the options of [Verify]. The zero value and nil are fine.
type VerifyOptions struct {
	// Progress, if not nil, is called after every transcript.
	Progress func(VerifyProgress)
}

// VerifyProgress is how far a [Verify] has come.
type VerifyProgress struct {
	Key              Key // the transcript just compared
	Transcripts      int // compared so far
	TotalTranscripts int // in the scope
	Entries          int // compared so far
}

// VerifyReport is the result of [Verify].
type VerifyReport struct {
	Transcripts int // compared
	Entries     int // compared and found equal
	// Differences holds the first difference of each transcript that differs.
	Differences []Difference
	// MainOnly says that a store cannot list subpaths, so that only main
	// transcripts were compared.
	MainOnly bool
}

// Equal reports whether no difference was found.
func (r VerifyReport) Equal() bool { return len(r.Differences) == 0 }

// Verify compares two stores in a scope, which is given as for [Copy]: entry by
// entry by value ([Entry.Equal]), and metadata entries of subagents by the last
// one. It reads both in bounded memory and changes nothing. Differences are no
// error. A project or session that neither store holds gives [ErrNotFound].
// Sessions that have only subpaths are found as far as a store is an
// [OrphanLister].
func Verify(ctx context.Context, a, b SessionStore, scope Key, opts *VerifyOptions) (VerifyReport, error) {
	var report VerifyReport
	fail := func(err error) (VerifyReport, error) {
		return report, &OpError{Package: "sessionstore", Op: "verify", Key: scope, Err: err}
	}
	keys, mainOnly, err := unionOfKeys(ctx, a, b, scope)
	if err != nil {
		return fail(err)
	}
	report.MainOnly = mainOnly
	for _, key := range keys {
		al, err := align(ctx, a, b, key)
		if err != nil {
			return fail(err)
		}
		if al.empty() {
			continue
		}
		report.Transcripts++
		report.Entries += al.common
		if d := al.firstDifference(key); d != nil {
			report.Differences = append(report.Differences, *d)
		}
		if opts != nil && opts.Progress != nil {
			opts.Progress(VerifyProgress{key, report.Transcripts, len(keys), report.Entries})
		}
	}
	if scope != (Key{}) && report.Transcripts == 0 {
		return fail(ErrNotFound)
	}
	return report, nil
}

// firstDifference words an alignment of a (the destination) with b.
func (al alignment) firstDifference(key Key) *Difference {
	switch {
	case al.difference != nil && al.difference.Reason == reasonOther:
		return &Difference{key, al.difference.Entry, "the stores hold different entries"}
	case al.difference != nil:
		return &Difference{key, al.difference.Entry, "only the first store has an entry here"}
	case al.missing:
		return &Difference{key, al.common + 1, "only the second store has an entry here"}
	case al.staleMetadata:
		return &Difference{key, al.common + 1, "the last agent_metadata entries differ"}
	}
	return nil
}

func unionOfKeys(ctx context.Context, a, b SessionStore, scope Key) ([]Key, bool, error) {
	var keys []Key
	mainOnly := false
	for _, s := range []SessionStore{a, b} {
		inv, err := listScope(ctx, s, scope, func(_ context.Context, _ Key, err error) error { return err })
		if err != nil {
			return nil, false, err
		}
		mainOnly = mainOnly || inv.mainOnly
		keys = append(keys, slices.Concat(inv.sessions...)...)
	}
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	if mainOnly { // subpaths that one store hides are no difference
		keys = slices.DeleteFunc(keys, func(k Key) bool { return k.Subpath != "" && k.Subpath != scope.Subpath })
	}
	return keys, mainOnly, nil
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(a.ProjectKey, b.ProjectKey); c != 0 {
		return c
	}
	if c := strings.Compare(a.SessionID, b.SessionID); c != 0 {
		return c
	}
	return strings.Compare(a.Subpath, b.Subpath)
}
