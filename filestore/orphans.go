package filestore

import (
	"context"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// ListOrphans lists the sessions with subpaths and no main transcript, and
// those without one of which a directory cannot be read: what lists their
// subpaths then says why. See [sessionstore.OrphanLister].
func (s *Store) ListOrphans(ctx context.Context, projectKey string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey}
	list, err := s.listOrphans(ctx, key)
	if err != nil {
		return nil, fail("list orphans", key, err)
	}
	return list, nil
}

func (s *Store) listOrphans(ctx context.Context, key sessionstore.Key) ([]string, error) {
	if err := s.checkProject(ctx, key); err != nil {
		return nil, err
	}
	dirs, err := s.dirsWithoutMain(ctx, key)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for _, dir := range dirs {
		orphan, err := s.holdsSubpath(ctx, key, dir)
		if err != nil {
			return nil, err
		}
		if orphan {
			id, _ := decodeName(dir, key) // which holdsSubpath has done too
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list, nil
}

// dirsWithoutMain returns the directories of a project with no main transcript
// beside them.
func (s *Store) dirsWithoutMain(ctx context.Context, key sessionstore.Key) (dirs []string, err error) {
	d, err := s.openDir(placeOf(key).project)
	if err != nil || d == nil {
		return nil, err
	}
	defer d.close()
	mains := map[string]bool{}
	err = d.each(ctx, func(name string) error {
		if id, ok := strings.CutSuffix(name, linesSuffix); ok {
			info, err := d.fileInfo(name)
			mains[id] = info != nil && info.Size() > 0
			return unlessForeign(err) // ListSessions reports it
		}
		info, err := d.dirInfo(name)
		if err != nil && isForeign(err) {
			s.skip(Skip{Key: key, Path: d.path(name), Err: err})
			return nil
		}
		if info != nil {
			dirs = append(dirs, name)
		}
		return err
	})
	return slices.DeleteFunc(dirs, func(dir string) bool { return mains[dir] }), err
}
