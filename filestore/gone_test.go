package filestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// Lists do not lock, so another process may delete what they are looking at.
func TestDirectoryDeletedWhileItIsListed(t *testing.T) {
	needLocks(t) // elsewhere an open directory stays
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	for _, again := range []bool{false, true} {
		for _, deletedAt := range []string{project, project + "/" + session, project + "/" + session + "/subagents"} {
			lists := map[string]func() (any, error){
				"projects": func() (any, error) { return s.ListProjects(t.Context()) },
				"sessions": func() (any, error) { return s.ListSessions(t.Context(), project) },
				"subkeys":  func() (any, error) { return s.ListSubkeys(t.Context(), project, session) },
				"orphans":  func() (any, error) { return s.ListOrphans(t.Context(), project) },
			}
			for what, list := range lists {
				appendAll(t, other, subKey, user("a"))
				s.OnListing(func(name string) {
					if name == deletedAt {
						require.NoError(t, other.Delete(t.Context(), mainKey))
						if again {
							appendAll(t, other, subKey, user("b"))
						}
					}
				})
				got, err := list()
				require.NoError(t, err, "%s, deleted at %s", what, deletedAt)
				if what == "sessions" {
					require.Equal(t, []sessionstore.SessionInfo{}, got)
				}
			}
		}
	}
}

func TestDirectoryMadeWhileItIsLookedFor(t *testing.T) {
	for _, key := range []sessionstore.Key{mainKey, subKey} {
		dir := t.TempDir()
		s, other := open(t, dir, nil), open(t, dir, nil)
		made := 0
		s.OnMissed(func(string) {
			if made++; made == 1 {
				appendAll(t, other, key, user("a"))
			}
		})
		sessions, err := s.ListSessions(t.Context(), project)
		require.NoError(t, err)
		require.Equal(t, key == mainKey, len(sessions) == 1)
		made = 0
		require.NoError(t, other.Delete(t.Context(), mainKey))
		subpaths, err := s.ListSubkeys(t.Context(), project, session)
		require.NoError(t, err)
		require.Equal(t, key == subKey, len(subpaths) == 1)
		made = 0
		require.NoError(t, other.Delete(t.Context(), mainKey))
		require.Equal(t, texts(user("a")), load(t, s, key))
	}
}

func TestListsRacingDeletes(t *testing.T) {
	needLocks(t)
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			other.Append(context.Background(), sub("a/b"), []sessionstore.Entry{user("a")})
			other.Delete(context.Background(), mainKey)
		}
	})
	var errs []error
	for ctx.Err() == nil {
		_, projects := s.ListProjects(t.Context())
		_, sessions := s.ListSessions(t.Context(), project)
		_, subkeys := s.ListSubkeys(t.Context(), project, session)
		_, orphans := s.ListOrphans(t.Context(), project)
		_, loaded := s.Load(t.Context(), sub("a/b"))
		errs = append(errs, projects, sessions, subkeys, orphans, loaded)
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestDeletedRootIsAnError(t *testing.T) {
	needLocks(t)
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	require.NoError(t, os.RemoveAll(dir))
	for _, again := range []bool{false, true} {
		if again { // another directory of that name is not this one
			require.NoError(t, os.Mkdir(dir, 0o700))
		}
		_, load := s.Load(t.Context(), mainKey)
		_, loadSub := s.Load(t.Context(), subKey)
		_, projects := s.ListProjects(t.Context())
		_, sessions := s.ListSessions(t.Context(), project)
		_, subkeys := s.ListSubkeys(t.Context(), project, session)
		_, orphans := s.ListOrphans(t.Context(), project)
		_, purged := s.Purge(t.Context(), time.Now())
		added := s.Append(t.Context(), mainKey, numbered(1))
		deleted := s.Delete(t.Context(), mainKey)
		for i, err := range []error{load, loadSub, projects, sessions, subkeys, orphans, purged, added, deleted} {
			require.ErrorContains(t, err, "has been deleted", "operation %d", i)
			require.NotErrorIs(t, err, os.ErrNotExist)
		}
	}
}

func TestMovedRootIsStillTheStore(t *testing.T) {
	needLocks(t)
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "old"), nil)
	appendAll(t, s, mainKey, user("a"))
	require.NoError(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")))
	require.Equal(t, texts(user("a")), load(t, s, mainKey))
	require.Nil(t, load(t, s, subKey))
}

func TestDirectoryThatIsADanglingLinkIsNotUnknown(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, mainKey, user("a"))
	symlink(t, "nothing", dir, "-dangling")
	symlink(t, "nothing", dir, project, session)
	for _, key := range []sessionstore.Key{
		subKey, sub("a"),
		{ProjectKey: "-dangling", SessionID: "x"}, {ProjectKey: "-dangling", SessionID: "x", Subpath: "y/z"},
	} {
		_, err := s.Load(t.Context(), key)
		require.ErrorContains(t, err, "link leads nowhere", "%v", key)
		require.Error(t, s.Append(t.Context(), key, numbered(1)))
	}
	_, err := s.ListSessions(t.Context(), "-dangling")
	require.ErrorContains(t, err, "link leads nowhere")
	_, err = s.ListSubkeys(t.Context(), "-dangling", "x")
	require.ErrorContains(t, err, "link leads nowhere")
	_, err = s.ListOrphans(t.Context(), "-dangling")
	require.ErrorContains(t, err, "link leads nowhere")
	require.Error(t, s.Delete(t.Context(), sessionstore.Key{ProjectKey: "-dangling", SessionID: "x"}))
	require.Empty(t, seen)
	subpaths, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Empty(t, subpaths)
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{project}, projects)
	require.Equal(t, []string{"-dangling", project + "/" + session}, seen.paths())
}
