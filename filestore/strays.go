package filestore

import (
	"context"
	"io"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// Summaries hold prompts and titles. When somebody else deletes a transcript,
// such as the agent that cleans up, its summary must not stay for ever. It goes
// with the next list, since a list knows what is there.

// DropStrays removes the summaries of sessions that somebody else has deleted,
// in all projects, and returns how many. Lists of a store that may write do the
// same for what they list; this is for whoever lists nothing.
func (s *Store) DropStrays(ctx context.Context) (int, error) {
	if s.opts.ReadOnly {
		return 0, fail("drop strays", sessionstore.Key{}, errReadOnly)
	}
	projects, err := s.listProjects(ctx)
	if err != nil {
		return 0, fail("drop strays", sessionstore.Key{}, err)
	}
	n := s.dropStrayProjects()
	var failed failures
	for _, project := range projects {
		key := sessionstore.Key{ProjectKey: project}
		list, err := s.listSessions(ctx, key)
		if err != nil {
			failed.add(err)
			continue
		}
		n += s.dropStrays(key, list)
	}
	return n, fail("drop strays", sessionstore.Key{}, failed.err())
}

// dropStrays removes the summaries of a project that belong to none of its
// sessions. One that was written after they were listed goes too, and is made
// again when it is needed.
func (s *Store) dropStrays(key sessionstore.Key, sessions []sessionstore.SessionInfo) (n int) {
	if s.opts.ReadOnly {
		return 0
	}
	name := summariesDir + "/" + placeOf(key).project
	dir, err := s.root.OpenRoot(name + "/.")
	if err != nil {
		return 0
	}
	defer dir.Close()
	listed := make(map[string]bool, len(sessions))
	for _, info := range sessions {
		listed[keyenc.Encode(info.SessionID)+summarySuffix] = true
	}
	n = dropUnlisted(dir, listed)
	if len(sessions) == 0 {
		s.removeEmpty(name)
	}
	return n
}

func dropUnlisted(dir *os.Root, listed map[string]bool) (n int) {
	f, err := dir.Open(".")
	if err != nil {
		return 0
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(dirBatch)
		for _, name := range names {
			if !listed[name] && !isTemp(name) && dir.Remove(name) == nil {
				n++
			}
		}
		if err == io.EOF || err != nil {
			return n
		}
	}
}

// dropStrayProjects removes the summaries of projects of which not even a name
// is left.
func (s *Store) dropStrayProjects() (n int) {
	f, err := s.openDirFile(summariesDir)
	if err != nil {
		return 0
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(dirBatch)
		for _, name := range names {
			if _, err := s.root.Lstat(name); isMissing(err) && s.checkRoot() == nil {
				n += s.dropSummaries(summariesDir + "/" + name)
			}
		}
		if err == io.EOF || err != nil {
			return n
		}
	}
}

func (s *Store) dropSummaries(name string) (n int) {
	dir, err := s.root.OpenRoot(name + "/.")
	if err != nil {
		return 0
	}
	defer dir.Close()
	n = dropUnlisted(dir, nil)
	s.removeEmpty(name)
	return n
}
