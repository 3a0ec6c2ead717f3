package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/redisutil"
)

// RepairReport says what [Store.Repair] has found.
type RepairReport struct {
	Sessions int // sessions that hold anything
	Added    int // of them, those that the index lacked
	// Damaged are the transcripts that cannot be read: a part of their data is
	// gone, or a later version has written it. The counts are compared, not the
	// entries themselves.
	Damaged []sessionstore.Key
}

// Repair rebuilds the index of a project from the data, or that of all projects
// if projectKey is empty. It scans all keys of the server, so it takes its
// time, but it blocks nobody. Use it after an index was lost, by eviction or by
// hand. Lists and appends heal what they touch without it. An index takes
// memory: when the server has none, Repair still finds what is damaged, and
// fails at the end.
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
	found, err := s.scan(ctx, project)
	if err != nil {
		return err
	}
	report.Sessions = len(found)
	if err := s.client.HLen(ctx, s.projectsKey()).Err(); redis.HasErrorPrefix(err, "WRONGTYPE") {
		if err := s.client.Unlink(ctx, s.projectsKey()).Err(); err != nil {
			return err
		}
	}
	var full error
	projects := make(map[string]bool)
	if project != "" {
		projects[project] = true
	}
	for key := range found {
		projects[key.ProjectKey] = true
	}
	for p := range projects {
		if err := s.repairIndex(ctx, p, found, report); redisutil.OutOfMemory(err) {
			full = err
		} else if err != nil {
			return err
		}
		// A list drops what has no data. What is damaged comes below.
		if _, err := s.mains(ctx, p, false); err != nil && !errors.Is(err, sessionstore.ErrCorrupt) {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		if err := s.inspect(ctx, key, found[key], report); err != nil {
			return err
		}
	}
	return full
}

func compareKeys(a, b sessionstore.Key) int {
	return cmp.Or(strings.Compare(a.ProjectKey, b.ProjectKey), strings.Compare(a.SessionID, b.SessionID))
}

// scan finds the sessions of a project, or of all, and the fields of the
// transcripts of which anything is there beside meta. SCAN may give a key twice.
func (s *Store) scan(ctx context.Context, project string) (map[sessionstore.Key]map[string]bool, error) {
	tag := "*"
	if project != "" {
		tag = escapeGlob(keyenc.Encode(project)) + "/*"
	}
	pattern := escapeGlob(s.prefix) + "{" + tag + "}:*"
	found := make(map[sessionstore.Key]map[string]bool)
	var mu sync.Mutex
	err := s.eachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			kind, key, ok := s.parseKey(keys.Val())
			if !ok || !slices.Contains([]string{"meta", "list", "ids", "lens"}, kind) {
				continue
			}
			mu.Lock()
			lists := found[key.Main()]
			if lists == nil {
				lists = make(map[string]bool)
				found[key.Main()] = lists
			}
			if kind != "meta" {
				lists[fieldOf(key)] = true
			}
			mu.Unlock()
		}
		return keys.Err()
	})
	return found, err
}

func (s *Store) eachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := s.client.(type) {
	case *redis.Client:
		return f(ctx, c)
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Ring:
		return c.ForEachShard(ctx, f)
	}
	return errors.ErrUnsupported
}

// repairIndex notes the sessions of a project that its index lacks.
func (s *Store) repairIndex(ctx context.Context, project string, found map[sessionstore.Key]map[string]bool, report *RepairReport) error {
	index := s.sessionsKey(project)
	notes, err := s.client.HGetAll(ctx, index).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		notes, err = nil, s.client.Unlink(ctx, index).Err()
	}
	if err != nil {
		return err
	}
	var random [8]byte
	_, _ = rand.Read(random[:])
	empty := true
	for key := range found {
		if key.ProjectKey != project {
			continue
		}
		empty = false
		if _, ok := notes[key.SessionID]; ok {
			continue
		}
		if err := s.note(ctx, key, hex.EncodeToString(random[:])); err != nil {
			return err
		}
		report.Added++
	}
	known, err := s.client.HExists(ctx, s.projectsKey(), project).Result()
	if err != nil || known || empty {
		return err
	}
	return s.client.Eval(ctx, noteScript, []string{s.projectsKey()}, project, hex.EncodeToString(random[:])).Err()
}

// inspect looks for transcripts of a session that are not whole.
func (s *Store) inspect(ctx context.Context, key sessionstore.Key, fields map[string]bool, report *RepairReport) error {
	subpaths, err := s.subpaths(ctx, key)
	if err != nil && !errors.Is(err, sessionstore.ErrCorrupt) {
		return err
	}
	for _, sub := range subpaths {
		fields[mainField+sub] = true
	}
	fields[mainField] = true
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		key.Subpath = f[1:]
		_, err := s.open(ctx, key)
		if errors.Is(err, sessionstore.ErrCorrupt) {
			report.Damaged = append(report.Damaged, key)
		} else if err != nil {
			return err
		}
	}
	return nil
}
