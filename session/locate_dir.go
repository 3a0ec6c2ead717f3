package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// DirOptions are the options of [ListDir]. The zero value and nil are fine.
type DirOptions struct {
	// Limit and Offset are those of [ListOptions].
	Limit, Offset int
	// IncludeWorktrees adds the sessions of the other worktrees of the
	// directory's git repository.
	IncludeWorktrees bool
}

// DirSession is a session of a list over several project keys.
type DirSession struct {
	Session
	ProjectKey string `json:"projectKey"`
}

// ListDir lists the sessions that ran in a directory, whether or not it still
// exists, and in the other worktrees of its git repository. It is [List] over
// several project keys: newest first, and by id where times are equal. A session
// that lies under several of them is one row. Its time and project key are those
// of the newest place, which [Locate] has first; the rest comes from there too,
// unless that has nothing to show, as when the agent has just moved. Sessions of
// another directory that happens to have the same project key are left out. When
// a session or a project can't be read, the list holds the others and the error
// says which are missing.
func ListDir(ctx context.Context, store sessionstore.SessionStore, dir string, opts *DirOptions) ([]DirSession, error) {
	var o DirOptions
	if opts != nil {
		o = *opts
	}
	l := dirLister{store: store, few: o.Limit > 0}
	keys, dirs, err := directories(ctx, dir, o.IncludeWorktrees)
	if err == nil {
		l.dirs = dirs
		err = l.find(ctx, keys)
	}
	if err != nil {
		return nil, opError("list directory", sessionstore.Key{}, err)
	}
	need := len(l.sessions)
	if o.Limit > 0 {
		need = min(need, max(o.Offset, 0)+o.Limit)
	}
	list := l.collect(ctx, need)
	if err := ctx.Err(); err != nil {
		return nil, opError("list directory", sessionstore.Key{}, err)
	}
	for i := range list {
		if list[i].Cwd == "" && list[i].ProjectKey == keys[0] {
			list[i].Cwd = dir
		}
	}
	from, to := page(len(list), o.Offset, o.Limit)
	return list[from:to], opError("list directory", sessionstore.Key{}, errors.Join(l.failed...))
}

// dirLister makes a list over several project keys.
type dirLister struct {
	store    sessionstore.SessionStore
	few      bool                // rows are looked at
	dirs     map[string][]string // that each project key stands for
	sessions [][]dirRow          // the rows of each id, newest first
	failed   []error
}

type dirRow struct {
	row
	project string
}

// find groups the rows of all project keys by id.
func (l *dirLister) find(ctx context.Context, keys []string) error {
	byID := map[string][]dirRow{}
	for _, key := range keys {
		rows, err := listRows(ctx, l.store, key, l.few)
		switch {
		case err != nil && (ctx.Err() != nil || errors.Is(err, errors.ErrUnsupported)):
			return err
		case err != nil:
			l.failed = append(l.failed, err)
		}
		for _, r := range rows {
			byID[r.id] = append(byID[r.id], dirRow{r, key})
		}
	}
	for _, rows := range byID {
		slices.SortFunc(rows, compareRows)
		l.sessions = append(l.sessions, rows)
	}
	slices.SortFunc(l.sessions, func(a, b []dirRow) int { return compareRows(a[0], b[0]) })
	return nil
}

func compareRows(a, b dirRow) int {
	return cmp.Or(cmp.Compare(b.mtime, a.mtime), strings.Compare(a.id, b.id), strings.Compare(a.project, b.project))
}

// collect returns the first rows that are shown, need of them if there are so
// many, and loads few transcripts of others.
func (l *dirLister) collect(ctx context.Context, need int) (list []DirSession) {
	for at := 0; at < len(l.sessions) && len(list) < need && ctx.Err() == nil; {
		some := l.sessions[at:min(at+min(maxLoads, need-len(list)), len(l.sessions))]
		shown := make([]*DirSession, len(some))
		failed := make([]error, len(some))
		err := inParallel(ctx, len(some), func(ctx context.Context, i int) error {
			shown[i], failed[i] = l.show(ctx, some[i])
			return nil
		})
		if err != nil {
			break
		}
		for i := range some {
			if shown[i] != nil {
				list = append(list, *shown[i])
			}
			if failed[i] != nil {
				l.failed = append(l.failed, failed[i])
			}
		}
		at += len(some)
	}
	return list
}

// show makes one row of those of one session.
func (l *dirLister) show(ctx context.Context, rows []dirRow) (*DirSession, error) {
	for i := range rows {
		r := &rows[i]
		if r.loads() {
			if err := r.load(ctx, l.store, r.project, false); err != nil {
				return nil, fmt.Errorf("session %s: %w", r.id, err)
			}
		}
		if s, ok := r.session(); ok && !l.isForeign(s.Cwd, r.project) {
			s.LastModified = rows[0].mtime
			return &DirSession{s, rows[0].project}, nil
		}
	}
	return nil, nil
}

// isForeign reports whether a session ran in another directory that has the
// same project key. One that has moved here from another key has not.
func (l *dirLister) isForeign(cwd, project string) bool {
	if cwd == "" || slices.ContainsFunc(l.dirs[project], func(d string) bool { return sameDir(cwd, d, runtime.GOOS) }) {
		return false
	}
	key, err := sessionstore.ProjectKey(cwd)
	return err == nil && key == project
}

// ProjectKeys returns the project keys of a directory, its own first, and with
// worktrees those of the other worktrees of its git repository. The directory
// may be gone. If it is in no repository, or there is no git, it has only its
// own key.
func ProjectKeys(ctx context.Context, dir string, worktrees bool) ([]string, error) {
	keys, _, err := directories(ctx, dir, worktrees)
	return keys, err
}

// directories returns project keys, and the directories that each stands for.
func directories(ctx context.Context, dir string, worktrees bool) (keys []string, dirs map[string][]string, err error) {
	all := []string{dir}
	if worktrees {
		trees, err := Worktrees(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, trees...)
	}
	dirs = make(map[string][]string)
	for _, d := range all {
		real, err := realDir(d)
		if err != nil {
			return nil, nil, err
		}
		key, err := sessionstore.ProjectKey(real)
		if err != nil {
			return nil, nil, err
		}
		if dirs[key] == nil {
			keys = append(keys, key)
		}
		dirs[key] = append(dirs[key], real)
	}
	return keys, dirs, nil
}

// realDir resolves the links on the way to a directory as they were when an
// agent ran there, also when it is gone.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	there := nearest(abs)
	if real, err := filepath.EvalSymlinks(there); err == nil {
		abs = filepath.Join(real, strings.TrimPrefix(abs, there))
	}
	return abs, nil
}

// nearest returns the directory, or what still exists above it.
func nearest(abs string) string {
	for {
		if info, err := os.Stat(abs); err == nil && info.IsDir() {
			return abs
		}
		up := filepath.Dir(abs)
		if up == abs {
			return abs
		}
		abs = up
	}
}

// Worktrees returns the directories of the worktrees of a git repository, the
// main one first. Those that were deleted are among them as long as git has
// not pruned them. The directory may be gone itself; then git is asked above
// it. If it is in no repository, or there is no git, there are none. GIT_DIR and
// the like of the environment do not count.
func Worktrees(ctx context.Context, dir string) ([]string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	there := nearest(abs)
	out, err := git(ctx, there, "worktree", "list", "--porcelain", "-z")
	if err != nil && isExit(err, 129) { // git before 2.36 knows no -z
		out, err = git(ctx, there, "worktree", "list", "--porcelain")
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\x00"))
	}
	if errors.Is(err, exec.ErrNotFound) || isNoRepository(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("worktrees of %s: %w", dir, err)
	}
	return parseWorktrees(out), nil
}

// parseWorktrees reads the attributes of "git worktree list --porcelain -z". A
// bare repository is no directory that one works in.
func parseWorktrees(out []byte) (dirs []string) {
	for record := range strings.SplitSeq(string(out), "\x00\x00") {
		dir, bare := "", false
		for line := range strings.SplitSeq(record, "\x00") {
			if path, ok := strings.CutPrefix(line, "worktree "); ok {
				dir = path
			}
			bare = bare || line == "bare"
		}
		if dir != "" && !bare {
			dirs = append(dirs, filepath.FromSlash(dir))
		}
	}
	return dirs
}

// gitLingering is how long what git has started may keep its output open.
var gitLingering = time.Second

// selectsRepository finds the variables with which a caller, such as a hook,
// tells git of a repository that is not that of the directory.
func selectsRepository(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch strings.ToUpper(name) { // Windows takes any case
	case "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
		"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE":
		return true
	}
	return false
}

func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), selectsRepository), "LC_ALL=C")
	cmd.WaitDelay = gitLingering
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // git has said everything; what it has started has the pipe
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("git: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

func isExit(err error, code int) bool {
	exit := (*exec.ExitError)(nil)
	return errors.As(err, &exit) && exit.ExitCode() == code
}

func isNoRepository(err error) bool {
	return isExit(err, 128) && strings.Contains(err.Error(), "not a git repository")
}
