package s3store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// ListProjects lists the projects that hold anything.
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	projects, err := s.projects(ctx)
	if err != nil {
		return nil, opError("list projects", sessionstore.Key{}, err)
	}
	return projects, nil
}

func (s *Store) projects(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.decodedDirs(ctx, s.prefix)
}

// decodedDirs lists the directories in one, as the names that were encoded in
// them. The index and what others have put there is left out.
func (s *Store) decodedDirs(ctx context.Context, dir string) ([]string, error) {
	_, dirs, err := s.listAll(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(dirs))
	for _, d := range dirs {
		if name, err := keyenc.Decode(d); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// ListSessions lists the sessions of a project. A request gives a thousand; one
// that only other software has written costs a further request.
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	sessions, err := s.sessions(ctx, projectKey)
	if err != nil {
		return nil, opError("list sessions", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	list := make([]sessionstore.SessionInfo, len(sessions))
	for i, row := range sessions {
		list[i] = sessionstore.SessionInfo{SessionID: row.id, Mtime: row.mtime}
	}
	sessionstore.SortSessions(list)
	return list, nil
}

// session is a session with a main transcript.
type session struct {
	id    string
	mtime int64
	index []listed // its index objects
	parts []object // its parts, if it has no index object
}

func (s *Store) sessions(ctx context.Context, project string) ([]session, error) {
	if err := begin(ctx, sessionstore.ValidateProjectKey(project)); err != nil {
		return nil, err
	}
	if err := s.flushAll(ctx, project); err != nil {
		return nil, err
	}
	ids, index, err := s.listProject(ctx, project)
	if err != nil {
		return nil, err
	}
	rows := make([]session, len(ids))
	var unknown []int
	for i, id := range ids {
		rows[i] = session{id: id, index: index[id]}
		rows[i].setTime()
		if len(rows[i].index) == 0 {
			unknown = append(unknown, i)
		}
	}
	if err := s.lookAt(ctx, project, rows, unknown); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r session) bool { return len(r.index) == 0 && len(r.parts) == 0 }), nil
}

// setTime sets the time of a session from its index objects. It is when the
// newest was written, or what its name says.
func (row *session) setTime() {
	for _, o := range row.index {
		ms, _ := parseIndexWriter(baseName(o.rest))
		if ms == 0 {
			ms = o.modified.UnixMilli()
		}
		row.mtime = max(row.mtime, ms)
	}
}

// listProject lists the directories of the sessions of a project, and beside
// them the index objects.
func (s *Store) listProject(ctx context.Context, project string) (ids []string, index map[string][]listed, err error) {
	index = make(map[string][]listed)
	err = s.eachOf(ctx, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			var err error
			ids, err = s.decodedDirs(ctx, s.projectDir(project))
			return err
		}
		objects, _, err := s.listAll(ctx, s.indexProjectDir(project), false)
		for _, o := range objects {
			dir, name, ok := strings.Cut(o.rest, "/")
			id, decodeErr := keyenc.Decode(dir)
			if _, isIndex := parseIndexWriter(name); ok && isIndex && decodeErr == nil {
				index[id] = append(index[id], o)
			}
		}
		return err
	})
	return ids, index, err
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// lookAt lists the parts of sessions without index, which may also be sessions
// without main transcript.
func (s *Store) lookAt(ctx context.Context, project string, rows []session, which []int) error {
	return s.eachOf(ctx, len(which), func(ctx context.Context, i int) error {
		row := &rows[which[i]]
		parts, err := s.parts(ctx, s.dir(sessionstore.Key{ProjectKey: project, SessionID: row.id}))
		row.parts = parts
		row.mtime = newest(parts).UnixMilli()
		return err
	})
}

func newest(parts []object) (t time.Time) {
	for _, o := range parts {
		if o.modified.After(t) {
			t = o.modified
		}
	}
	return t
}

// ListOrphans lists the sessions of a project that have no main transcript. Each
// of them costs a request.
func (s *Store) ListOrphans(ctx context.Context, projectKey string) ([]string, error) {
	list, err := s.orphans(ctx, projectKey)
	if err != nil {
		return nil, opError("list orphans", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	return list, nil
}

func (s *Store) orphans(ctx context.Context, project string) ([]string, error) {
	mains, err := s.sessions(ctx, project)
	if err != nil {
		return nil, err
	}
	listed := make(map[string]bool, len(mains))
	for _, m := range mains {
		listed[m.id] = true
	}
	ids, err := s.decodedDirs(ctx, s.projectDir(project))
	if err != nil {
		return nil, err
	}
	var candidates []sessionstore.Key
	for _, id := range ids {
		if !listed[id] {
			candidates = append(candidates, sessionstore.Key{ProjectKey: project, SessionID: id})
		}
	}
	orphan := make([]bool, len(candidates))
	err = s.eachOf(ctx, len(candidates), func(ctx context.Context, i int) error {
		found, err := s.transcripts(ctx, candidates[i])
		_, main := found[""]
		orphan[i] = len(found) > 0 && !main
		return err
	})
	var list []string
	for i, key := range candidates {
		if orphan[i] {
			list = append(list, key.SessionID)
		}
	}
	return list, err
}

// ListSubkeys lists the subpaths of a session. It takes a request per thousand
// objects of the session.
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	err := begin(ctx, key.Validate())
	var found map[string][]string
	if err == nil {
		found, err = s.transcripts(ctx, key)
	}
	if err != nil {
		return nil, opError("list subkeys", key, err)
	}
	list := make([]string, 0, len(found))
	for sub := range found {
		if sub != "" {
			list = append(list, sub)
		}
	}
	slices.Sort(list)
	return list, nil
}

// transcripts finds the transcripts of a session and the names of their
// objects.
func (s *Store) transcripts(ctx context.Context, key sessionstore.Key) (map[string][]string, error) {
	dir := s.sessionDir(key)
	objects, _, err := s.listAll(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]string)
	for _, o := range objects {
		if of, _, ok := parseObject(key.ProjectKey, keyenc.Encode(key.SessionID)+"/"+o.rest); ok {
			found[of.Subpath] = append(found[of.Subpath], dir+o.rest)
		}
	}
	return found, nil
}

// ListSessionSummaries lists the summaries of a project's sessions. It fetches
// the index objects, except those that this handle has seen as they are. A
// session whose summary can't be told, because its index object and transcript
// are damaged, is left out; ListSessions lists it, and reading it tells.
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]sessionstore.SessionSummary, error) {
	list, err := s.summaries(ctx, projectKey)
	if err != nil {
		return nil, opError("list session summaries", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	return list, nil
}

func (s *Store) summaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	rows, err := s.sessions(ctx, project)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(rows))
	err = s.eachOf(ctx, len(rows), func(ctx context.Context, i int) (err error) {
		texts[i], err = s.summaryOf(ctx, sessionstore.Key{ProjectKey: project, SessionID: rows[i].id}, rows[i])
		if errors.Is(err, sessionstore.ErrCorrupt) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	infos := make([]sessionstore.SessionInfo, 0, len(rows))
	data := make(map[string][]byte, len(rows))
	for i, row := range rows {
		if texts[i] != nil {
			infos = append(infos, sessionstore.SessionInfo{SessionID: row.id, Mtime: row.mtime})
			data[row.id] = texts[i]
		}
	}
	sessionstore.SortSessions(infos)
	list := make([]sessionstore.SessionSummary, len(infos))
	for i, info := range infos {
		list[i] = sessionstore.SessionSummary{SessionID: info.SessionID, Mtime: info.Mtime, Data: []byte(string(data[info.SessionID]))}
	}
	return list, nil
}

// summaryOf merges the index objects of a session. Where they do not tell, the
// transcript is read.
func (s *Store) summaryOf(ctx context.Context, key sessionstore.Key, row session) ([]byte, error) {
	version := row.version()
	if text := s.sums.get(key, version); text != nil {
		return text, nil
	}
	f, exact, err := s.mergedIndex(ctx, key, row.index)
	if err == nil && !exact || errors.Is(err, sessionstore.ErrCorrupt) {
		f, err = s.foldTranscript(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	text := f.json()
	s.sums.put(key, version, text)
	return text, nil
}

// version changes whenever the summary may have.
func (row session) version() string {
	var b strings.Builder
	for _, o := range row.index {
		b.WriteString(baseName(o.rest) + o.etag + o.modified.String())
	}
	for _, o := range row.parts {
		b.WriteString(o.name.String() + o.etag)
	}
	id := idset.Of([]byte(b.String()))
	return string(id[:])
}

// mergedIndex reads the index objects of a session. It is exact if each handle
// knew the transcript when it wrote its own.
func (s *Store) mergedIndex(ctx context.Context, key sessionstore.Key, index []listed) (f fields, exact bool, err error) {
	exact = len(index) > 0
	for _, o := range index {
		body, _, err := s.get(ctx, s.indexSessionDir(key)+baseName(o.rest), o.size)
		if errors.Is(err, errGone) {
			exact = false // replaced or deleted meanwhile
			continue
		}
		var broken *bodyError
		if errors.As(err, &broken) {
			exact = false // written anew meanwhile
			continue
		}
		if err != nil {
			return f, false, err
		}
		one, partial, err := decodeIndex(body)
		if err != nil {
			return f, false, corrupt("%s: %v", s.indexSessionDir(key)+baseName(o.rest), err)
		}
		f.merge(&one)
		exact = exact && !partial
	}
	return f, exact, nil
}

// foldTranscript makes the summary of a session out of its transcript.
func (s *Store) foldTranscript(ctx context.Context, key sessionstore.Key) (fields, error) {
	var c collector
	err := s.stream(ctx, key, c.take)
	return c.fields, err
}

// maxSummaries is of how many sessions a handle remembers the summary.
const maxSummaries = 16_384

// summaryCache remembers what the index objects of sessions said.
type summaryCache struct {
	mu sync.Mutex
	m  map[sessionstore.Key]cachedSummary
}

type cachedSummary struct {
	version string
	text    []byte
}

func (c *summaryCache) get(key sessionstore.Key, version string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.m[key]; got.version == version {
		return got.text
	}
	return nil
}

func (c *summaryCache) put(key sessionstore.Key, version string, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[sessionstore.Key]cachedSummary)
	}
	if _, ok := c.m[key]; !ok && len(c.m) >= maxSummaries {
		for other := range c.m { // any one
			delete(c.m, other)
			break
		}
	}
	c.m[key] = cachedSummary{version, text}
}
