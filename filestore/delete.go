package filestore

import (
	"context"
	"os"
	"path"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Delete removes a session or a subpath transcript, and directories that have
// become empty. It waits for appends in the project and holds new ones back
// meanwhile. See [sessionstore.Deleter].
func (s *Store) Delete(ctx context.Context, key sessionstore.Key) error {
	if err := key.Validate(); err != nil {
		return fail("delete", key, err)
	}
	removed := false
	err := s.alone(ctx, key, func() error {
		removed = true
		return s.remove(key)
	})
	if err == nil && !removed && key.Subpath == "" {
		err = s.dropSummary(key) // somebody else has deleted the whole project
	}
	return fail("delete", key, err)
}

// alone runs f while no append is under way in the project of the key. If there
// is no such project, it does not run f.
func (s *Store) alone(ctx context.Context, key sessionstore.Key, f func() error) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	project := placeOf(key).project
	leave, err := s.gates.acquire(ctx, "project "+project, true)
	if err != nil {
		return err
	}
	defer leave()
	dir, err := s.lockProject(ctx, project, true, false)
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	if err := s.checkCase(key); err != nil {
		return err
	}
	return f()
}

// remove deletes the files of a key. The main transcript goes last: a session
// that is half deleted is still listed and can be deleted again.
func (s *Store) remove(key sessionstore.Key) error {
	s.known.forget(key)
	p := placeOf(key)
	if key.Subpath == "" {
		if err := s.dropSummary(key); err != nil {
			return err
		}
		if err := s.root.RemoveAll(p.session); err != nil {
			return err
		}
	} else if err := s.root.Remove(p.sidecar); ignoreMissing(err) != nil {
		return err
	}
	if err := s.root.Remove(p.lines); ignoreMissing(err) != nil {
		return err
	}
	left := path.Dir(p.lines)
	for left != "." && s.removeEmpty(left) {
		left = path.Dir(left)
	}
	return ignoreMissing(s.syncDirs(left))
}

// removeEmpty removes a directory that is empty, or missing already, and
// reports whether it is gone. Nobody is appending, so that files which a crash
// has left on their way to their place are nobody's.
func (s *Store) removeEmpty(dir string) bool {
	info, err := s.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return isMissing(err)
	}
	f, err := s.openDirFile(dir)
	if err != nil {
		return false
	}
	names, err := f.Readdirnames(8)
	f.Close()
	if err == nil {
		for _, name := range names {
			if !isTemp(name) {
				return false
			}
		}
		for _, name := range names {
			s.root.Remove(path.Join(dir, name))
		}
	}
	return s.root.Remove(dir) == nil
}

// Purge deletes the sessions whose main transcript was last written before
// olderThan, and the summaries of those that somebody else has deleted. See
// [sessionstore.Purger].
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	if s.opts.ReadOnly {
		return report, fail("purge", sessionstore.Key{}, errReadOnly)
	}
	projects, err := s.listProjects(ctx)
	if err != nil {
		return report, fail("purge", sessionstore.Key{}, err)
	}
	s.dropStrayProjects()
	var failed failures
	for _, project := range projects {
		if failed.first != nil && ctx.Err() != nil {
			break // the same error for each of the others would say nothing new
		}
		s.purgeProject(ctx, project, olderThan, &report, &failed)
	}
	return report, failed.err()
}

// purgeProject leaves nothing out for an error elsewhere: a session that cannot
// be read must not keep the others for ever.
func (s *Store) purgeProject(ctx context.Context, project string, olderThan time.Time, report *sessionstore.PurgeReport, failed *failures) {
	key := sessionstore.Key{ProjectKey: project}
	sessions, err := s.listSessions(ctx, key)
	if err != nil {
		failed.add(fail("purge", key, err))
	} else {
		s.dropStrays(key, sessions)
	}
	for _, session := range sessions {
		if !isBefore(session.Mtime, olderThan) {
			continue
		}
		key.SessionID = session.SessionID
		if err := s.purgeSession(ctx, key, olderThan, report); err != nil {
			failed.add(fail("purge", key, err))
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// isBefore compares with the whole milliseconds that ListSessions gives.
func isBefore(mtime int64, t time.Time) bool { return time.UnixMilli(mtime).Before(t) }

// purgeSession looks at the time again: the session may have come to life.
func (s *Store) purgeSession(ctx context.Context, key sessionstore.Key, olderThan time.Time, report *sessionstore.PurgeReport) error {
	return s.alone(ctx, key, func() error {
		info, err := s.root.Stat(placeOf(key).lines)
		if os.IsNotExist(err) || err == nil && !isBefore(info.ModTime().UnixMilli(), olderThan) {
			return nil
		}
		if err != nil {
			return err
		}
		subpaths, err := s.listSubkeys(ctx, key)
		if err != nil {
			return err
		}
		if err := s.remove(key); err != nil {
			return err
		}
		report.Sessions++
		report.Transcripts += 1 + len(subpaths)
		return nil
	})
}
