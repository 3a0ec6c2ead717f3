package filestore

import (
	"context"
	"errors"
	"fmt"
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

// ListSessions lists the sessions of a project from the names, sizes and times
// of its files; it opens none of them. The time is that of the last change of
// the file. If it cannot look at some file, it returns the others together with
// the error. See [sessionstore.SessionLister].
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	key := sessionstore.Key{ProjectKey: projectKey}
	list, err := s.listSessions(ctx, key)
	if err == nil {
		s.dropStrays(key, list)
	}
	return list, fail("list sessions", key, err)
}

func (s *Store) listSessions(ctx context.Context, key sessionstore.Key) ([]sessionstore.SessionInfo, error) {
	list := []sessionstore.SessionInfo{}
	err := s.eachSession(ctx, key, func(id string, info os.FileInfo) {
		list = append(list, sessionstore.SessionInfo{SessionID: id, Mtime: info.ModTime().UnixMilli()})
	})
	if err != nil && len(list) == 0 {
		return nil, err
	}
	sessionstore.SortSessions(list)
	return list, err
}

// eachSession calls found with the main transcripts of a project, and goes on
// where one cannot be looked at.
func (s *Store) eachSession(ctx context.Context, key sessionstore.Key, found func(id string, info os.FileInfo)) error {
	if err := s.checkProject(ctx, key); err != nil {
		return err
	}
	d, err := s.openDir(placeOf(key).project)
	if err != nil || d == nil {
		return err
	}
	defer d.close()
	var failed failures
	err = d.each(ctx, func(name string) error {
		id, ok := strings.CutSuffix(name, linesSuffix)
		if !ok {
			return nil
		}
		info, err := d.fileInfo(name)
		if err != nil && !isForeign(err) {
			failed.add(err)
			return nil
		}
		if err == nil {
			key.SessionID, err = decodeName(id, sessionstore.Key{ProjectKey: key.ProjectKey})
		}
		switch {
		case err != nil:
			s.skip(Skip{Key: sessionstore.Key{ProjectKey: key.ProjectKey}, Path: d.path(name), Err: err})
		case info != nil && info.Size() > 0:
			found(key.SessionID, info)
		}
		return nil
	})
	if err == nil {
		err = failed.err()
	}
	return err
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

// ListSubkeys lists the subpaths of one session. If a directory cannot be read,
// it returns what it has found in the others together with the error. See
// [sessionstore.SubkeyLister].
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	list, err := s.listSubkeys(ctx, key)
	return list, fail("list subkeys", key, err)
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
	err := s.walkSession(ctx, key, func(subpath string) error {
		list = append(list, subpath)
		return nil
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// ListProjects lists the directories that hold a transcript, and those that
// cannot be read: what lists their sessions then says why. See
// [sessionstore.ProjectLister].
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	list, err := s.listProjects(ctx)
	if err != nil {
		return nil, fail("list projects", sessionstore.Key{}, err)
	}
	if !s.opts.ReadOnly {
		s.dropStrayProjects()
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
		project, err := s.projectAt(ctx, d, name)
		if project != "" {
			list = append(list, project)
		}
		return err
	})
	if err == nil && len(list) == 0 {
		err = s.checkRoot()
	}
	slices.Sort(list)
	return list, err
}

// projectAt returns the project key of a directory that holds a transcript or
// may hold one.
func (s *Store) projectAt(ctx context.Context, d *openedDir, name string) (string, error) {
	if name == privateDir {
		return "", nil
	}
	info, failed := d.dirInfo(name)
	if failed == nil && info == nil {
		return "", nil
	}
	project, err := keyenc.Decode(name)
	if err == nil {
		err = sessionstore.ValidateProjectKey(project)
	}
	if failed != nil && isForeign(failed) {
		err = failed
	}
	if err != nil {
		s.skip(Skip{Path: name, Err: err})
		return "", nil
	}
	holds := true
	if failed == nil {
		holds, err = s.holdsTranscript(ctx, project)
	}
	if err != nil || !holds {
		return "", err
	}
	return project, nil
}

// errFound ends a walk early.
var errFound = errors.New("found")

// holdsTranscript reports true if it cannot tell.
func (s *Store) holdsTranscript(ctx context.Context, project string) (bool, error) {
	name := keyenc.Encode(project)
	key := sessionstore.Key{ProjectKey: project}
	d, err := s.openDir(name)
	if err != nil && isForeign(err) && ctx.Err() == nil {
		s.skip(Skip{Key: key, Path: name, Err: err})
		return false, nil
	}
	if err != nil || d == nil {
		return err != nil, ctx.Err()
	}
	defer d.close()
	var dirs []string
	err = d.each(ctx, func(name string) error {
		if id, ok := strings.CutSuffix(name, linesSuffix); ok {
			info, err := d.fileInfo(name)
			_, bad := decodeName(id, key)
			if bad == nil && info != nil && info.Size() > 0 {
				err = errFound
			}
			return unlessForeign(err)
		}
		info, err := d.dirInfo(name)
		if info != nil {
			dirs = append(dirs, name)
		}
		return unlessForeign(err)
	})
	if err != nil {
		return true, ctx.Err()
	}
	for _, dir := range dirs {
		if found, err := s.holdsSubpath(ctx, key, dir); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// unlessForeign passes on the errors that say that something can't be read.
func unlessForeign(err error) error {
	if err != nil && err != errFound && isForeign(err) {
		return nil
	}
	return err
}

// holdsSubpath looks for a subpath transcript in a directory of a project. It
// reports true if it cannot tell.
func (s *Store) holdsSubpath(ctx context.Context, key sessionstore.Key, name string) (bool, error) {
	id, err := decodeName(name, key)
	if err != nil {
		return false, nil // not a session's directory
	}
	key.SessionID = id
	err = s.walkSession(ctx, key, func(string) error { return errFound })
	return err != nil, ctx.Err()
}

// walk finds the subpath transcripts of a session.
type walk struct {
	s      *Store
	ctx    context.Context
	key    sessionstore.Key
	found  func(subpath string) error // may be called twice for one subpath
	failed failures                   // of what could not be read
}

// walkSession calls found for each subpath, until it returns an error, and goes
// on where something cannot be read.
func (s *Store) walkSession(ctx context.Context, key sessionstore.Key, found func(subpath string) error) error {
	w := walk{s: s, ctx: ctx, key: key, found: found}
	if err := w.dir(placeOf(key).session, "", nil); err != nil {
		return err
	}
	return w.failed.err()
}

// pass goes on after an error that concerns one name. What is foreign is
// reported as skipped, anything else is kept for the end.
func (w *walk) pass(path string, err error) error {
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if isForeign(err) {
		w.s.skip(Skip{Key: w.key, Path: path, Err: err})
	} else {
		w.failed.add(err)
	}
	return nil
}

// dir walks one directory. Above are the directories on the way to it: a link
// to one of them would be walked for ever.
func (w *walk) dir(name, prefix string, above []os.FileInfo) error {
	d, err := w.s.openDir(name)
	if err != nil && prefix == "" {
		if _, lerr := w.s.root.Lstat(name); lerr != nil {
			return err // it is not the session but the project that is no directory
		}
	}
	if err != nil {
		return w.pass(name, err)
	}
	if d == nil {
		return nil
	}
	defer d.close()
	info, err := d.self.Stat()
	if err != nil {
		return w.pass(name, err)
	}
	for _, up := range above {
		if os.SameFile(up, info) {
			return w.pass(name, errors.New("link leads back to a directory above"))
		}
	}
	dirs, err := w.entries(d, prefix)
	above = append(slices.Clip(above), info)
	for _, sub := range dirs {
		if err == nil {
			err = w.subdir(d.path(sub), sub, prefix, above)
		}
	}
	return err
}

// entries looks at what is in a directory and returns the directories in it.
func (w *walk) entries(d *openedDir, prefix string) (dirs []string, err error) {
	var stop error
	err = d.each(w.ctx, func(name string) error {
		var isDir bool
		if isDir, stop = w.entry(d, name, prefix); isDir {
			dirs = append(dirs, name)
		}
		return stop
	})
	if err != nil && stop == nil {
		return dirs, w.pass(d.name, err)
	}
	return dirs, stop
}

func (w *walk) subdir(path, name, prefix string, above []os.FileInfo) error {
	seg, err := keyenc.DecodePath(name)
	if err != nil {
		return w.pass(path, err)
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
				return false, w.pass(d.path(name), err)
			}
			return info != nil, nil
		}
	}
	info, err := d.fileInfo(name)
	if err != nil {
		return false, w.pass(d.path(name), err)
	}
	seg, err := keyenc.DecodePath(stem)
	if err == nil {
		key := w.key
		key.Subpath = prefix + seg
		err = key.Validate()
	}
	if err != nil {
		return false, w.pass(d.path(name), err)
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
func (s *Store) openDir(name string) (d *openedDir, err error) {
	_, err = s.present(name, func() (err error) {
		d, err = s.tryOpenDir(name)
		return err
	})
	if d != nil {
		s.calls.listing(name)
	}
	return d, err
}

func (s *Store) tryOpenDir(name string) (*openedDir, error) {
	// Opening a pipe in its place would wait. Looking up "." in it fails.
	root, err := s.root.OpenRoot(name + "/.")
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			where.Path = name
		}
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
		if isMissing(err) {
			// A directory that is deleted while it is read holds nothing.
			return d.s.checkRoot()
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
		if info, err = d.s.root.Stat(d.path(name)); err != nil && isForeign(err) {
			return nil, fmt.Errorf("%w: %w", errLink, err)
		}
	}
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(name), err)
	}
	return info, nil
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
