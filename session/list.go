package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
)

// maxLoads is how many transcripts are read at a time for a list.
const maxLoads = 16

// ListOptions are the options of [List]. The zero value and nil are fine.
type ListOptions struct {
	// Limit is how many sessions are returned at most; 0 means all. Offset is
	// how many are left out before them. Negative ones count as 0.
	Limit, Offset int
	// Dir is shown as the working directory of sessions that don't name one,
	// if it isn't empty: usually the directory that the project key stands for.
	Dir string
	// Cwd, if it isn't empty, leaves out sessions that began in another working
	// directory: /a/b-c and /a/b/c share a project key. Those that don't name
	// one stay. It is compared as text, of clean paths; on Windows without
	// regard to letter case.
	Cwd string
}

// List returns the sessions of a project, newest first and by id where times
// are equal. Sessions of sidechains, those that have nothing to be called by and
// those whose ids are not UUIDs are left out; see [Info].
//
// It reads the summaries that the store keeps. Where there is none, or a stale
// one, it reads the transcript in bounded memory: only those that the page
// needs, at most 16 at a time. When some of them can't be read, the list holds
// the other sessions and the error says which are missing.
//
// On a store that can list neither sessions nor summaries the error wraps
// [errors.ErrUnsupported].
func List(ctx context.Context, store sessionstore.SessionStore, projectKey string, opts *ListOptions) ([]Session, error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	project := sessionstore.Key{ProjectKey: projectKey}
	rows, err := listRows(ctx, store, projectKey, o.Limit > 0)
	if err != nil && len(rows) == 0 {
		return nil, opError("list", project, err)
	}
	need := len(rows)
	if o.Limit > 0 && o.Limit < need {
		need = min(need, max(o.Offset, 0)+o.Limit)
	}
	l := loader{store: store, project: projectKey, cwd: o.Cwd}
	if err != nil {
		l.failed = append(l.failed, err)
	}
	list := l.collect(ctx, rows, need)
	if err := ctx.Err(); err != nil {
		return nil, opError("list", project, err)
	}
	from, to := page(len(list), o.Offset, o.Limit)
	list = list[from:to]
	for i := range list {
		if list[i].Cwd == "" {
			list[i].Cwd = o.Dir
		}
	}
	return list, opError("list", project, errors.Join(l.failed...))
}

// Latest returns the newest session of a project that an agent can continue:
// one that is not a sidechain. It reports false if there is none. Ids that are
// not UUIDs are passed over, because agents don't take them. On a store that
// can't list, the error wraps [errors.ErrUnsupported].
func Latest(ctx context.Context, store sessionstore.SessionStore, projectKey string) (sessionstore.SessionInfo, bool, error) {
	project := sessionstore.Key{ProjectKey: projectKey}
	rows, err := listRows(ctx, store, projectKey, true)
	for i := 0; err == nil && i < len(rows); i++ {
		r := &rows[i]
		if r.loads() {
			if err = r.load(ctx, store, projectKey, true); err != nil {
				break
			}
		}
		if len(r.data) > 0 && string(r.sum.isSidechain) != "true" {
			return sessionstore.SessionInfo{SessionID: r.id, Mtime: r.mtime}, true, nil
		}
	}
	return sessionstore.SessionInfo{}, false, opError("latest", project, err)
}

// row is one session of a list.
type row struct {
	id    string
	mtime int64
	data  json.RawMessage // of the summary
	sum   summary         // data, once it has been read
	state rowState
}

type rowState int

const (
	rowMissing rowState = iota // the transcript must be read
	rowUnread                  // data has not been looked at
	rowReady
)

// loads reports whether the row's transcript must be read. A summary that can't
// be read is as good as none.
func (r *row) loads() bool {
	if r.state == rowUnread {
		var err error
		if r.sum, err = readSummary(r.data); err == nil {
			r.state = rowReady
		} else {
			r.data, r.state = nil, rowMissing
		}
	}
	return r.state == rowMissing
}

// summaryReader is a store that may have to make summaries before it can list
// them, such as a directory that agents write to, and that makes single ones.
type summaryReader interface {
	SessionSummary(ctx context.Context, key sessionstore.Key) (sessionstore.SessionSummary, bool, error)
}

// listRows returns a row for each session whose id is a UUID, newest first, with
// its summary where the store keeps one that is as new as the session. When only
// a few rows will be looked at, a store that reads single summaries is not asked
// for all. If a part of the sessions can't be listed, the rows of the others are
// returned together with the error.
func listRows(ctx context.Context, store sessionstore.SessionStore, projectKey string, few bool) ([]row, error) {
	// Sessions first: a session written in between has a newer summary, which
	// is fine. The other way round its summary would look stale.
	infos, listErr := sessionstore.ListSessions(ctx, store, projectKey)
	var partial error
	if listErr != nil && !errors.Is(listErr, errors.ErrUnsupported) {
		if len(infos) == 0 {
			return nil, listErr
		}
		listErr, partial = nil, listErr
	}
	var summaries []sessionstore.SessionSummary
	var err error
	if _, single := store.(summaryReader); !few || !single || listErr != nil {
		summaries, err = sessionstore.ListSessionSummaries(ctx, store, projectKey)
	}
	// Of summaries that come with an error the others are missing.
	if err != nil && len(summaries) == 0 && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if listErr != nil && err != nil {
		return nil, listErr
	}
	byID := make(map[string]*sessionstore.SessionSummary, len(summaries))
	for i, s := range summaries {
		byID[s.SessionID] = &summaries[i]
		if listErr != nil { // summaries alone must do
			infos = append(infos, sessionstore.SessionInfo{SessionID: s.SessionID, Mtime: s.Mtime})
		}
	}
	rows := make([]row, 0, len(infos))
	for _, info := range infos {
		if !isUUID(info.SessionID) {
			continue
		}
		r := row{id: info.SessionID, mtime: info.Mtime}
		if s := byID[r.id]; s != nil && s.Mtime >= r.mtime && len(s.Data) > 0 {
			r.mtime, r.data, r.state = s.Mtime, s.Data, rowUnread
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.mtime, a.mtime), strings.Compare(a.id, b.id))
	})
	return rows, partial
}

// session returns what is shown of the row, if anything.
func (r *row) session() (Session, bool) {
	s, ok := r.sum.session()
	s.SessionID, s.LastModified, s.Data = r.id, r.mtime, r.data
	return s, ok
}

// load folds the transcript, or its first entry only, which is the one that
// says what a sidechain is.
func (r *row) load(ctx context.Context, store sessionstore.SessionStore, projectKey string, firstOnly bool) error {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: r.id}
	if s, ok := store.(summaryReader); ok && !firstOnly {
		sum, found, err := s.SessionSummary(ctx, key)
		if err == nil && found {
			r.data = sum.Data
			r.sum, err = readSummary(sum.Data)
		}
		r.state = rowReady
		return err
	}
	var state sessionstore.SummaryState
	for e, err := range sessionstore.Stream(ctx, store, key) {
		if err != nil {
			return err
		}
		state.Fold(e)
		if firstOnly {
			break
		}
	}
	r.state = rowReady
	if state == (sessionstore.SummaryState{}) {
		return nil // deleted since it was listed
	}
	var err error
	if r.data, err = state.MarshalJSON(); err == nil {
		r.sum, err = readSummary(r.data)
	}
	return err
}

// loader reads transcripts and notes failures.
type loader struct {
	store   sessionstore.SessionStore
	project string
	cwd     string // that others are left out for, or ""
	failed  []error
}

// collect returns what is shown of the first rows, need of them if there are so
// many, and loads no more rows than it must look at.
func (l *loader) collect(ctx context.Context, rows []row, need int) []Session {
	list := make([]Session, 0, need)
	for len(rows) > 0 && len(list) < need && ctx.Err() == nil {
		// Each of the next rows may turn out to be one that isn't shown, so no
		// more than the missing ones are looked at in one go.
		n, toLoad := 0, []*row(nil)
		for n < len(rows) && n < need-len(list) && len(toLoad) < maxLoads {
			if rows[n].loads() {
				toLoad = append(toLoad, &rows[n])
			}
			n++
		}
		l.loadAll(ctx, toLoad)
		for i := range rows[:n] {
			if s, ok := rows[i].session(); ok && (l.cwd == "" || s.Cwd == "" || sameDir(s.Cwd, l.cwd, runtime.GOOS)) {
				list = append(list, s)
			}
		}
		rows = rows[n:]
	}
	return list
}

// loadAll loads at most maxLoads rows, all at the same time.
func (l *loader) loadAll(ctx context.Context, rows []*row) {
	errs := make([]error, len(rows))
	var wg sync.WaitGroup
	for i, r := range rows {
		wg.Go(func() {
			if err := r.load(ctx, l.store, l.project, false); err != nil {
				errs[i] = fmt.Errorf("session %s: %w", r.id, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			l.failed = append(l.failed, err)
		}
	}
}
