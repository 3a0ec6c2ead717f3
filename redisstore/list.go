package redisstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
)

// forgetMax is how many entries one list takes out of an index at most.
const forgetMax = 1000

// mainInfo is what lists know about the main transcript of a session.
type mainInfo struct {
	id      string
	row     row
	summary string
	damage  error // why it can't be read; the time is that of the index then
}

// ListSessions lists the sessions of a project that have a main transcript.
// One that is damaged, or of a later format, is among them, so that reading it
// tells; its time is that of the last append to any transcript of it.
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	project := sessionstore.Key{ProjectKey: projectKey}
	if err := begin(ctx, sessionstore.ValidateProjectKey(projectKey)); err != nil {
		return nil, opError("list sessions", project, err)
	}
	mains, err := s.mains(ctx, projectKey, false)
	if err != nil {
		return nil, opError("list sessions", project, err)
	}
	list := make([]sessionstore.SessionInfo, len(mains))
	for i, m := range mains {
		list[i] = sessionstore.SessionInfo{SessionID: m.id, Mtime: m.row.time}
	}
	return list, nil
}

// ListSessionSummaries lists the summaries of the sessions that ListSessions
// lists. A summary that lags behind, because of repeats or of several writers,
// is brought up to date. That of a damaged transcript stays as it is; where it
// can't be told either, the session is left out.
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]sessionstore.SessionSummary, error) {
	project := sessionstore.Key{ProjectKey: projectKey}
	if err := begin(ctx, sessionstore.ValidateProjectKey(projectKey)); err != nil {
		return nil, opError("list session summaries", project, err)
	}
	mains, err := s.mains(ctx, projectKey, true)
	mains = slices.DeleteFunc(mains, func(m *mainInfo) bool { return m.damage != nil })
	if err == nil {
		err = s.refresh(ctx, projectKey, mains)
	}
	if err != nil {
		return nil, opError("list session summaries", project, err)
	}
	list := make([]sessionstore.SessionSummary, len(mains))
	for i, m := range mains {
		list[i] = sessionstore.SessionSummary{SessionID: m.id, Mtime: m.row.time, Data: orEmpty(m.summary)}
	}
	return list, nil
}

// mains reads the index of a project, and then what each session says of
// itself: two round trips. The index is only a hint: what has no data is left
// out, and taken out of the index. That costs a third one.
func (s *Store) mains(ctx context.Context, project string, summaries bool) ([]*mainInfo, error) {
	var notes map[string]string
	err := s.retry(ctx, func() (err error) { notes, err = s.client.HGetAll(ctx, s.sessionsKey(project)).Result(); return err })
	if err != nil || len(notes) == 0 {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(notes))
	cmds, err := s.askMains(ctx, project, ids, summaries)
	if err != nil {
		return nil, err
	}
	var mains []*mainInfo
	var rest []string
	for i, cmd := range cmds {
		m := &mainInfo{id: ids[i]}
		if err = readable(cmd.Err()); err == nil {
			err = m.parse(cmd.Val())
		}
		switch {
		case err != nil:
			m.damage, m.row.time = err, noteTime(notes[m.id])
			mains = append(mains, m)
		case m.row.count > 0:
			mains = append(mains, m)
		default:
			rest = append(rest, m.id)
		}
	}
	more, err := s.sortOut(ctx, project, rest, notes)
	if err != nil {
		return nil, err
	}
	mains = append(mains, more...)
	slices.SortFunc(mains, func(a, b *mainInfo) int {
		return cmp.Or(cmp.Compare(b.row.time, a.row.time), strings.Compare(a.id, b.id))
	})
	return mains, nil
}

// sortOut looks at sessions of the index that say nothing of a main transcript.
// It returns those that have one all the same, which is damaged or has just been
// written. Those without any data leave the index.
func (s *Store) sortOut(ctx context.Context, project string, ids []string, notes map[string]string) ([]*mainInfo, error) {
	left, err := s.remains(ctx, project, ids)
	if err != nil {
		return nil, err
	}
	var mains []*mainInfo
	gone := make(map[string]string)
	for i, id := range ids {
		if left[i] == nothing {
			gone[id] = notes[id]
		}
		if left[i] != ofMain {
			continue
		}
		m := &mainInfo{id: id, row: row{time: noteTime(notes[id])}}
		r, err := s.open(ctx, sessionstore.Key{ProjectKey: project, SessionID: id})
		switch {
		case errors.Is(err, sessionstore.ErrCorrupt):
			m.damage = err
		case err != nil:
			return nil, err
		case r == nil: // deleted since
			continue
		default:
			m.row = r.row
			m.row.folded = 0 // the summary has not been read
		}
		mains = append(mains, m)
	}
	s.forget(ctx, s.sessionsKey(project), project, gone)
	return mains, nil
}

// remain says what is there of a session.
type remain int

const (
	nothing remain = iota
	ofSubpaths
	ofMain
)

// remains asks it of several sessions at once.
func (s *Store) remains(ctx context.Context, project string, ids []string) ([]remain, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	left := make([]remain, len(ids))
	err := s.retry(ctx, func() error {
		pipe := s.client.Pipeline()
		for _, id := range ids {
			n := s.names(sessionstore.Key{ProjectKey: project, SessionID: id})
			pipe.Exists(ctx, n.list, n.ids, n.lens)
			pipe.Exists(ctx, n.meta, s.subsKey(project, id))
		}
		cmds, err := pipe.Exec(ctx)
		for i := range left {
			switch {
			case err != nil:
			case cmds[2*i].(*redis.IntCmd).Val() > 0:
				left[i] = ofMain
			case cmds[2*i+1].(*redis.IntCmd).Val() > 0:
				left[i] = ofSubpaths
			}
		}
		return err
	})
	return left, err
}

// noteTime is the time in an entry of an index.
func noteTime(note string) int64 {
	ms, _, _ := strings.Cut(note, ":")
	n, _ := strconv.ParseInt(ms, 10, 64)
	return n
}

// askMains asks all sessions at once. A command has an error of its own if what
// it asks is damaged.
func (s *Store) askMains(ctx context.Context, project string, ids []string, summaries bool) ([]*redis.SliceCmd, error) {
	fields := []string{"v", mainField}
	if summaries {
		fields = append(fields, "s")
	}
	cmds := make([]*redis.SliceCmd, len(ids))
	err := s.retry(ctx, func() error {
		pipe := s.client.Pipeline()
		for i, id := range ids {
			cmds[i] = pipe.HMGet(ctx, s.metaKey(project, id), fields...)
		}
		return execAll(ctx, pipe)
	})
	return cmds, err
}

// execAll runs a pipeline whose commands may find damaged data each.
func execAll(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !errors.Is(readable(err), sessionstore.ErrCorrupt) {
			return err
		}
	}
	return nil
}

// parse reads the fields that askMains has asked for. A session without a main
// transcript has a count of 0.
func (m *mainInfo) parse(values []any) (err error) {
	text := func(i int) string { t, _ := values[i].(string); return t }
	if version := text(0); version != "" && version != formatVersion {
		return laterFormat(version)
	}
	if text(0) == "" || text(1) == "" {
		return nil
	}
	if m.row, err = parseRow(text(1)); err == nil && len(values) > 2 {
		m.summary = text(2)
	}
	return err
}

// forget takes members without data out of an index. They would only cost
// time, so an error here is none of the caller's.
func (s *Store) forget(ctx context.Context, index, project string, gone map[string]string) {
	if len(gone) == 0 {
		return
	}
	args := []any{s.grace.Milliseconds(), project}
	for member, note := range gone {
		if args = append(args, member, note); len(args) > 2*forgetMax {
			break
		}
	}
	keys := []string{index}
	if s.single && index != s.projectsKey() {
		keys = append(keys, s.projectsKey())
	}
	_ = s.client.Eval(ctx, forgetScript, keys, args...).Err()
}

// refresh brings the summaries up to date that lag behind.
func (s *Store) refresh(ctx context.Context, project string, mains []*mainInfo) error {
	pipe := s.client.Pipeline()
	for _, m := range mains {
		if m.row.folded == m.row.count {
			continue
		}
		before := m.row.folded
		key := sessionstore.Key{ProjectKey: project, SessionID: m.id}
		if err := s.foldRest(ctx, key, m); errors.Is(err, sessionstore.ErrCorrupt) || errors.Is(err, errReplaced) {
			continue
		} else if err != nil {
			return err
		}
		pipe.Eval(ctx, foldScript, []string{s.metaKey(project, m.id)}, m.row.generation, before, m.row.folded, m.summary)
	}
	if pipe.Len() > 0 {
		// The list is right without it, and full memory must not break it.
		_, _ = pipe.Exec(ctx)
	}
	return nil
}

// foldRest folds the entries that the summary does not know yet.
func (s *Store) foldRest(ctx context.Context, key sessionstore.Key, m *mainInfo) error {
	var state sessionstore.SummaryState
	from := m.row.folded
	if from > m.row.count || state.UnmarshalJSON(orEmpty(m.summary)) != nil {
		from, state = 0, sessionstore.SummaryState{}
	}
	r := &reader{s: s, names: s.names(key), row: m.row, next: from}
	err := s.retry(ctx, func() error {
		lens, err := getLens(ctx, s.client, r.names, from).Result()
		r.lens = []byte(lens)
		return err
	})
	if err != nil {
		return err
	}
	for r.next < r.row.count {
		window, err := r.window(ctx)
		if err != nil {
			return err
		}
		for _, line := range window {
			state.Fold(bytesOf(line))
		}
	}
	text, err := state.MarshalJSON()
	m.row.folded, m.summary = m.row.count, string(text)
	return err
}

// ListSubkeys lists the subpaths of a session, damaged ones too.
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	if err := begin(ctx, key.Validate()); err != nil {
		return nil, opError("list subkeys", key, err)
	}
	subpaths, err := s.subpaths(ctx, key)
	if err != nil {
		return nil, opError("list subkeys", key, err)
	}
	return subpaths, nil
}

func (s *Store) subpaths(ctx context.Context, key sessionstore.Key) ([]string, error) {
	meta := s.metaKey(key.ProjectKey, key.SessionID)
	var fields []string
	err := s.retry(ctx, func() error {
		pipe := s.client.Pipeline()
		version := pipe.HGet(ctx, meta, "v")
		keys := pipe.HKeys(ctx, meta)
		subs := pipe.SMembers(ctx, s.subsKey(key.ProjectKey, key.SessionID))
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if v := version.Val(); v != "" && v != formatVersion {
			return laterFormat(v)
		}
		fields = append(keys.Val(), subs.Val()...)
		return nil
	})
	var subpaths []string
	for _, f := range fields {
		if sub, ok := strings.CutPrefix(f, mainField); ok && sub != "" {
			subpaths = append(subpaths, sub)
		}
	}
	slices.Sort(subpaths)
	return slices.Compact(subpaths), err
}

// ListProjects lists the project keys that hold anything.
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	if err := begin(ctx, nil); err != nil {
		return nil, opError("list projects", sessionstore.Key{}, err)
	}
	projects, err := s.projects(ctx)
	if err != nil {
		return nil, opError("list projects", sessionstore.Key{}, err)
	}
	return projects, nil
}

// projects asks each project of the index for a few sessions and whether those
// have data: three round trips, and more only for projects where none has.
func (s *Store) projects(ctx context.Context) ([]string, error) {
	const probes = 4
	var notes map[string]string
	err := s.retry(ctx, func() (err error) { notes, err = s.client.HGetAll(ctx, s.projectsKey()).Result(); return err })
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(notes))
	probed := make(map[string][]string, len(names))
	broken := make(map[string]bool) // an index that can't be read may hold anything
	err = s.retry(ctx, func() error {
		pipe := s.client.Pipeline()
		for _, p := range names {
			pipe.HRandField(ctx, s.sessionsKey(p), probes)
		}
		clear(broken)
		cmds, _ := pipe.Exec(ctx)
		for i, cmd := range cmds {
			probed[names[i]] = cmd.(*redis.StringSliceCmd).Val()
			broken[names[i]] = errors.Is(readable(cmd.Err()), sessionstore.ErrCorrupt)
			if err := cmd.Err(); err != nil && !broken[names[i]] {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	alive, err := s.alive(ctx, probed)
	if err != nil {
		return nil, err
	}
	gone := make(map[string]string)
	for _, p := range names {
		if broken[p] {
			alive[p] = true
		}
		if !alive[p] {
			if alive[p], err = s.holdsAny(ctx, p); err != nil {
				return nil, err
			}
		}
		if !alive[p] {
			gone[p] = notes[p]
		}
	}
	s.forget(ctx, s.projectsKey(), "", gone)
	return slices.DeleteFunc(names, func(p string) bool { return !alive[p] }), nil
}

// alive says which projects have data in one of the given sessions.
func (s *Store) alive(ctx context.Context, sessions map[string][]string) (map[string]bool, error) {
	var alive map[string]bool
	err := s.retry(ctx, func() error {
		alive = make(map[string]bool)
		pipe := s.client.Pipeline()
		var asked []string
		for p, ids := range sessions {
			for _, id := range ids {
				n := s.names(sessionstore.Key{ProjectKey: p, SessionID: id})
				pipe.Exists(ctx, n.meta, n.list, n.ids, n.lens, s.subsKey(p, id))
				asked = append(asked, p)
			}
		}
		cmds, err := pipe.Exec(ctx)
		for i, cmd := range cmds {
			if cmd.(*redis.IntCmd).Val() > 0 {
				alive[asked[i]] = true
			}
		}
		return err
	})
	return alive, err
}

// holdsAny looks at all sessions of a project, and cleans up its index.
func (s *Store) holdsAny(ctx context.Context, project string) (bool, error) {
	var notes map[string]string
	err := s.retry(ctx, func() (err error) { notes, err = s.client.HGetAll(ctx, s.sessionsKey(project)).Result(); return err })
	if err != nil || len(notes) == 0 {
		return false, err
	}
	alive, err := s.alive(ctx, map[string][]string{project: slices.Collect(maps.Keys(notes))})
	if err == nil && !alive[project] {
		s.forget(ctx, s.sessionsKey(project), project, notes)
	}
	return alive[project], err
}
