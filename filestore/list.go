package filestore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// dirBatch is how many names are read from a directory at once.
const dirBatch = 1024

// errLink is what a link is that os.Root does not follow, or that leads
// nowhere.
var errLink = errors.New("link leads nowhere or out of the store")

// ListSessions lists the sessions of a project from the names, sizes and times
// of its files; it opens none of them. The time is that of the last change of
// the file. See [sessionstore.SessionLister].
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	key := sessionstore.Key{ProjectKey: projectKey}
	list, err := s.listSessions(ctx, key)
	if err != nil {
		return nil, fail("list sessions", key, err)
	}
	return list, nil
}

func (s *Store) listSessions(ctx context.Context, key sessionstore.Key) ([]sessionstore.SessionInfo, error) {
	if err := s.checkProject(ctx, key); err != nil {
		return nil, err
	}
	list := []sessionstore.SessionInfo{}
	d, err := s.openDir(placeOf(key).project)
	if err != nil || d == nil {
		return list, err
	}
	defer d.close()
	err = d.each(ctx, func(name string) error {
		id, ok := strings.CutSuffix(name, linesSuffix)
		if !ok {
			return nil
		}
		info, err := d.fileInfo(name)
		if err == nil {
			key.SessionID, err = decodeName(id, sessionstore.Key{ProjectKey: key.ProjectKey})
		}
		switch {
		case err != nil:
			s.skip(Skip{Key: sessionstore.Key{ProjectKey: key.ProjectKey}, Path: d.path(name), Err: err})
		case info != nil && info.Size() > 0:
			list = append(list, sessionstore.SessionInfo{SessionID: key.SessionID, Mtime: info.ModTime().UnixMilli()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b sessionstore.SessionInfo) int {
		return cmp.Or(cmp.Compare(b.Mtime, a.Mtime), cmp.Compare(a.SessionID, b.SessionID))
	})
	return list, nil
}

// checkProject validates the key of an operation on a project or session.
func (s *Store) checkProject(ctx context.Context, key sessionstore.Key) error {
	err := sessionstore.ValidateProjectKey(key.ProjectKey)
	if err == nil && key.SessionID != "" {
		err = key.Validate()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.checkCase(key)
	}
	return err
}

// decodeName returns the session id that a file's name stands for.
func decodeName(name string, key sessionstore.Key) (string, error) {
	id, err := keyenc.Decode(name)
	if err != nil {
		return "", err
	}
	key.SessionID = id
	return id, key.Validate()
}

// ListSubkeys lists the subpaths of one session. See
// [sessionstore.SubkeyLister].
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	list, err := s.listSubkeys(ctx, key)
	if err != nil {
		return nil, fail("list subkeys", key, err)
	}
	return list, nil
}

func (s *Store) listSubkeys(ctx context.Context, key sessionstore.Key) ([]string, error) {
	// Unlike the check of a project this one refuses an empty session id.
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := s.checkProject(ctx, key); err != nil {
		return nil, err
	}
	list := []string{}
	w := walk{s: s, ctx: ctx, key: key, found: func(subpath string) error {
		list = append(list, subpath)
		return nil
	}}
	if err := w.dir(placeOf(key).session, "", nil); err != nil {
		return nil, err
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// ListProjects lists the directories that hold a transcript. See
// [sessionstore.ProjectLister].
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	list, err := s.listProjects(ctx)
	if err != nil {
		return nil, fail("list projects", sessionstore.Key{}, err)
	}
	return list, nil
}

func (s *Store) listProjects(ctx context.Context) ([]string, error) {
	list := []string{}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.openDir(".")
	if err != nil {
		return nil, err
	}
	defer d.close()
	err = d.each(ctx, func(name string) error {
		info, err := d.dirInfo(name)
		if name == privateDir || err == nil && info == nil {
			return nil
		}
		var project string
		if err == nil {
			project, err = keyenc.Decode(name)
		}
		if err == nil {
			err = sessionstore.ValidateProjectKey(project)
		}
		if err != nil {
			s.skip(Skip{Path: name, Err: err})
			return nil
		}
		holds, err := s.holdsTranscript(ctx, project)
		if holds {
			list = append(list, project)
		}
		return err
	})
	slices.Sort(list)
	return list, err
}

// errFound ends a walk early.
var errFound = errors.New("found")

func (s *Store) holdsTranscript(ctx context.Context, project string) (bool, error) {
	name := keyenc.Encode(project)
	key := sessionstore.Key{ProjectKey: project}
	d, err := s.openDir(name)
	if err != nil || d == nil {
		if err != nil && ctx.Err() == nil {
			s.skip(Skip{Key: key, Path: name, Err: err})
			err = nil
		}
		return false, err
	}
	defer d.close()
	var dirs []string
	err = d.each(ctx, func(name string) error {
		if id, ok := strings.CutSuffix(name, linesSuffix); ok {
			info, err := d.fileInfo(name)
			_, bad := decodeName(id, key)
			if err == nil && bad == nil && info != nil && info.Size() > 0 {
				return errFound
			}
		} else if info, err := d.dirInfo(name); err == nil && info != nil {
			dirs = append(dirs, name)
		}
		return nil
	})
	for _, dir := range dirs {
		if err == nil {
			err = s.findSubpath(ctx, key, d.path(dir), dir)
		}
	}
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// findSubpath ends with errFound if there is a subpath transcript in dir.
func (s *Store) findSubpath(ctx context.Context, key sessionstore.Key, dir, name string) error {
	id, err := decodeName(name, key)
	if err != nil {
		return nil // not a session's directory
	}
	key.SessionID = id
	w := walk{s: s, ctx: ctx, key: key, found: func(string) error { return errFound }}
	if err = w.dir(dir, "", nil); err != nil && err != errFound {
		err = w.skip(dir, err)
	}
	return err
}

// walk finds the subpath transcripts of a session.
type walk struct {
	s     *Store
	ctx   context.Context
	key   sessionstore.Key
	found func(subpath string) error // may be called twice for one subpath
}

func (w *walk) skip(path string, err error) error {
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	w.s.skip(Skip{Key: w.key, Path: path, Err: err})
	return nil
}

// dir walks one directory. Above are the directories on the way to it: a link
// to one of them would be walked for ever.
func (w *walk) dir(name, prefix string, above []os.FileInfo) error {
	d, err := w.s.openDir(name)
	if err != nil {
		// The session's own directory must be readable if it is one.
		if link, lerr := w.s.root.Lstat(name); prefix == "" && (lerr != nil || link.IsDir()) {
			return err
		}
		return w.skip(name, err)
	}
	if d == nil {
		return nil
	}
	defer d.close()
	info, err := d.self.Stat()
	if err != nil {
		return err
	}
	for _, up := range above {
		if os.SameFile(up, info) {
			return w.skip(name, errors.New("link leads back to a directory above"))
		}
	}
	var dirs []string
	err = d.each(w.ctx, func(entry string) error {
		isDir, err := w.entry(d, entry, prefix)
		if isDir {
			dirs = append(dirs, entry)
		}
		return err
	})
	above = append(slices.Clip(above), info)
	for _, sub := range dirs {
		if err == nil {
			err = w.subdir(d.path(sub), sub, prefix, above)
		}
	}
	return err
}

func (w *walk) subdir(path, name, prefix string, above []os.FileInfo) error {
	seg, err := keyenc.DecodePath(name)
	if err != nil {
		return w.skip(path, err)
	}
	return w.dir(path, prefix+seg+"/", above)
}

// entry looks at one name in a session's directory.
func (w *walk) entry(d *openedDir, name, prefix string) (isDir bool, err error) {
	stem, isLines := strings.CutSuffix(name, linesSuffix)
	if !isLines {
		var isSidecar bool
		if stem, isSidecar = strings.CutSuffix(name, sidecarSuffix); !isSidecar {
			info, err := d.dirInfo(name)
			if err != nil {
				return false, w.skip(d.path(name), err)
			}
			return info != nil, nil
		}
	}
	info, err := d.fileInfo(name)
	if err != nil {
		return false, w.skip(d.path(name), err)
	}
	seg, err := keyenc.DecodePath(stem)
	if err == nil {
		key := w.key
		key.Subpath = prefix + seg
		err = key.Validate()
	}
	if err != nil {
		return false, w.skip(d.path(name), err)
	}
	if info == nil || info.Size() == 0 {
		return false, nil
	}
	return false, w.found(prefix + seg)
}

// openedDir is a directory whose entries are looked at without opening them.
type openedDir struct {
	s    *Store
	name string
	root *os.Root // one step to each entry instead of one for each element
	self *os.File
}

// openDir returns nil for a missing directory.
func (s *Store) openDir(name string) (*openedDir, error) {
	root, err := s.root.OpenRoot(name)
	if isMissing(err) {
		if _, lerr := s.root.Lstat(name); lerr == nil {
			return nil, errLink
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &openedDir{s, name, root, self}, nil
}

func (d *openedDir) close() {
	d.self.Close()
	d.root.Close()
}

func (d *openedDir) path(name string) string {
	if d.name == "." {
		return name
	}
	return d.name + "/" + name
}

func (d *openedDir) each(ctx context.Context, visit func(name string) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := d.self.Readdirnames(dirBatch)
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// info follows links as far as they stay in the store. An entry that has gone
// is nil.
func (d *openedDir) info(name string) (os.FileInfo, error) {
	info, err := d.root.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if info, err = d.s.root.Stat(d.path(name)); err != nil {
			return nil, errors.Join(errLink, err)
		}
	}
	if isMissing(err) {
		return nil, nil
	}
	return info, err
}

// fileInfo is info for what must be a file.
func (d *openedDir) fileInfo(name string) (os.FileInfo, error) {
	info, err := d.info(name)
	if info != nil && !info.Mode().IsRegular() {
		return nil, errNotFile
	}
	return info, err
}

// dirInfo returns nil for what is no directory.
func (d *openedDir) dirInfo(name string) (os.FileInfo, error) {
	info, err := d.info(name)
	if info == nil || err != nil || !info.IsDir() {
		return nil, err
	}
	return info, nil
}
