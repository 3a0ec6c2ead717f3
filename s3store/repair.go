package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// RepairReport says what [Store.Repair] has found.
type RepairReport struct {
	Sessions int // sessions that hold anything
	Added    int // of them, those whose index was missing or not what the entries say
	// Damaged are the transcripts that cannot be read.
	Damaged []sessionstore.Key
}

// Repair makes the index of a project anew, or that of all projects if
// projectKey is empty. It reads every transcript. Lists find sessions without
// it too; use it when hosts have died, when other software writes to the same
// sessions, or to know whether everything can be read. The times of sessions
// stay as they are.
func (s *Store) Repair(ctx context.Context, projectKey string) (RepairReport, error) {
	var report RepairReport
	err := ctx.Err()
	if projectKey != "" {
		err = begin(ctx, sessionstore.ValidateProjectKey(projectKey))
	}
	if err == nil {
		err = s.repair(ctx, projectKey, &report)
	}
	if err != nil {
		return report, opError("repair", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	return report, nil
}

func (s *Store) repair(ctx context.Context, project string, report *RepairReport) error {
	projects := []string{project}
	if project == "" {
		held, err := s.projects(ctx)
		if err != nil {
			return err
		}
		indexed, err := s.decodedDirs(ctx, s.prefix+indexDir)
		if err != nil {
			return err
		}
		projects = append(held, indexed...)
		slices.Sort(projects)
		projects = slices.Compact(projects)
	}
	for _, p := range projects {
		if err := s.repairProject(ctx, p, report); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) repairProject(ctx context.Context, project string, report *RepairReport) error {
	if err := s.flushAll(ctx, project); err != nil {
		return err
	}
	ids, index, err := s.listProject(ctx, project)
	if err != nil {
		return err
	}
	held := make(map[string]bool, len(ids))
	for _, id := range ids {
		held[id] = true
	}
	for id, objects := range index {
		if !held[id] {
			key := sessionstore.Key{ProjectKey: project, SessionID: id}
			if err := s.deleteIndex(ctx, key, objects); err != nil {
				return err
			}
		}
	}
	var mu sync.Mutex
	err = s.eachOf(ctx, len(ids), func(ctx context.Context, i int) error {
		one := RepairReport{}
		err := s.repairSession(ctx, sessionstore.Key{ProjectKey: project, SessionID: ids[i]}, index[ids[i]], &one)
		mu.Lock()
		defer mu.Unlock()
		report.Sessions += one.Sessions
		report.Added += one.Added
		report.Damaged = append(report.Damaged, one.Damaged...)
		return err
	})
	slices.SortFunc(report.Damaged, func(a, b sessionstore.Key) int {
		return cmp.Or(strings.Compare(a.ProjectKey, b.ProjectKey), strings.Compare(a.SessionID, b.SessionID), strings.Compare(a.Subpath, b.Subpath))
	})
	return err
}

// repairSession compares the index of a session with its entries, and reads its
// subpaths.
func (s *Store) repairSession(ctx context.Context, key sessionstore.Key, index []listed, report *RepairReport) error {
	found, err := s.transcripts(ctx, key)
	if err != nil || len(found) == 0 {
		return err
	}
	report.Sessions++
	for sub := range found {
		if sub == "" {
			continue
		}
		of := key
		of.Subpath = sub
		err := s.stream(ctx, of, func(partName, line) bool { return true })
		if errors.Is(err, sessionstore.ErrCorrupt) {
			report.Damaged = append(report.Damaged, of)
		} else if err != nil {
			return err
		}
	}
	if found[""] == nil {
		return s.deleteIndex(ctx, key, index)
	}
	changed, err := s.repairIndex(ctx, key, index)
	switch {
	case errors.Is(err, sessionstore.ErrCorrupt):
		report.Damaged = append(report.Damaged, key)
		return nil
	case changed:
		report.Added++
	}
	return err
}

// repairIndex writes an index object of its own kind, with the time of the
// session in its name, unless what is there is right.
func (s *Store) repairIndex(ctx context.Context, key sessionstore.Key, index []listed) (changed bool, err error) {
	var c collector
	if err := s.stream(ctx, key, c.take); err != nil {
		return false, err
	}
	merged, exact, err := s.mergedIndex(ctx, key, index)
	if err == nil && exact && string(merged.json()) == string(c.fields.json()) {
		return false, nil
	}
	if err != nil && !errors.Is(err, sessionstore.ErrCorrupt) {
		return false, err
	}
	rows := []session{{id: key.SessionID, index: index}}
	rows[0].setTime()
	if len(index) == 0 {
		if err := s.lookAt(ctx, key.ProjectKey, rows, []int{0}); err != nil {
			return false, err
		}
	}
	name := fmt.Sprintf("%s-%d", s.indexObject(key), rows[0].mtime)
	if err := s.putIndex(ctx, name, c.fields.encode(false)); err != nil {
		return false, err
	}
	old := slices.DeleteFunc(slices.Clone(index), func(o listed) bool { return s.indexProjectDir(key.ProjectKey)+o.rest == name })
	return true, s.deleteIndex(ctx, key, old)
}

// deleteIndex deletes index objects as listProject gives them.
func (s *Store) deleteIndex(ctx context.Context, key sessionstore.Key, index []listed) error {
	names := make([]string, len(index))
	for i, o := range index {
		names[i] = s.indexProjectDir(key.ProjectKey) + keyenc.Encode(key.SessionID) + "/" + baseName(o.rest)
	}
	return s.deleteAll(ctx, names)
}
