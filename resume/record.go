package resume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/osdir"
)

// RecordFile is the file of a private directory that says which session it
// holds. It lies beside "projects", so that no mirror takes it for a transcript.
const RecordFile = ".sessionstore-session.json"

const (
	recordVersion = 1
	maxRecord     = 64 << 10
)

// record is what the file holds.
type record struct {
	Version    int    `json:"version"`
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId,omitempty"` // of the session that was materialised
	// Directory is the project's directory below "projects".
	Directory string `json:"directory"`
}

// writeRecord locks the directory, which is nobody else's as long as the session
// is open, and puts the record in place whole. Whoever looks for leftovers may
// have the lock for a moment; without a record they leave the directory alone.
func (m *materializer) writeRecord(ctx context.Context) error {
	s := m.session
	var err error
	if s.lock, err = m.root.Open("."); err != nil {
		return err
	}
	if err := osdir.Lock(ctx, s.lock, true); err != nil && ctx.Err() != nil {
		return err // other errors are of file systems that have no locks
	}
	text, err := json.Marshal(record{recordVersion, s.Key.ProjectKey, s.Key.SessionID, s.plan.dirName})
	if err != nil {
		return err
	}
	const temp = RecordFile + ".tmp"
	f, err := m.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return m.root.Rename(temp, RecordFile)
}

// Leftover is a private directory that its host has not removed: the host was
// killed, or [Session.Close] has kept it. Bring what it holds into the store:
//
//	mirror.Watch(ctx, l.ProjectsDir(), l.Store(store), &mirror.WatchOptions{Once: true})
//
// and then call Remove. Function host.Recover does so for all that a host has
// left behind.
type Leftover struct {
	// Dir is the directory.
	Dir string
	// Key is the session that it was made for. SessionID is empty if that was a
	// new one. The agent that ran in the directory could have written anything
	// there; check the key where one tenant's agent must not reach another's
	// sessions.
	Key sessionstore.Key

	dirName string
	lock    *os.File
}

// removesOpen: Windows does not remove directories that are open.
const removesOpen = runtime.GOOS != "windows"

// Errors of [OpenLeftover].
var (
	// ErrInUse: the host of the directory is alive.
	ErrInUse = errors.New("the directory is in use")
	// ErrNotOurs: the directory, or its record, belongs to another user.
	ErrNotOurs = errors.New("it belongs to another user")
	// ErrNotPrivate: others may read or write the directory or its record, so
	// what is written there is not to be trusted.
	ErrNotPrivate = errors.New("it is open to other users")
)

// OpenLeftover opens a private directory and keeps others from opening it until
// Close or Remove; a process that ends gives it up. It trusts only a directory
// and a record that belong to this user and are closed to others. A directory
// without a record gives an error that wraps [fs.ErrNotExist]. On systems
// without flock(2), directories in use can't be told from others.
func OpenLeftover(dir string) (*Leftover, error) {
	l, err := openLeftover(dir)
	if err != nil {
		return nil, fmt.Errorf("resume: open what is left in %s: %w", dir, err)
	}
	return l, nil
}

func openLeftover(dir string) (*Leftover, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("not a directory")
	}
	if err := checkPrivate(info); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(errors.New("it was replaced meanwhile"), err)
	}
	l := &Leftover{Dir: dir}
	if l.lock, err = root.Open("."); err != nil {
		return nil, err
	}
	// The agent may have put a link there, to what belongs to others.
	if projects, err := root.Lstat("projects"); err == nil && !projects.IsDir() {
		l.lock.Close()
		return nil, errors.New("projects is not a directory")
	}
	held, err := osdir.TryLock(l.lock, true)
	if !held && err == nil { // some file systems have no locks
		err = ErrInUse
	} else if err = l.read(root); err != nil {
		err = fmt.Errorf("%s: %w", RecordFile, err)
	}
	if err != nil {
		l.lock.Close()
		return nil, err
	}
	return l, nil
}

// openRecord opens the record itself, not what a link leads to.
func openRecord(root *os.Root) (*os.File, error) {
	info, err := root.Lstat(RecordFile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(RecordFile)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = errors.New("it was replaced meanwhile")
	}
	if err == nil {
		err = checkPrivate(now)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkPrivate(info fs.FileInfo) error {
	switch {
	case !isOurs(info):
		return ErrNotOurs
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return ErrNotPrivate
	}
	return nil
}

func (l *Leftover) read(root *os.Root) error {
	f, err := openRecord(root)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return err
	}
	var r record
	if len(text) > maxRecord {
		return fmt.Errorf("%w: it is too long", sessionstore.ErrCorrupt)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%w: %w", sessionstore.ErrCorrupt, err)
	}
	if r.Version != recordVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", sessionstore.ErrCorrupt, r.Version, recordVersion)
	}
	if err := sessionstore.ValidateProjectKey(r.ProjectKey); err != nil {
		return err
	}
	if r.SessionID != "" {
		if err := CheckSessionID(r.SessionID); err != nil {
			return err
		}
	}
	if r.Directory == "" || r.Directory == "." || strings.ContainsAny(r.Directory, `/\`) || !filepath.IsLocal(r.Directory) {
		return fmt.Errorf("%w: %q is no directory of a project", sessionstore.ErrCorrupt, r.Directory)
	}
	l.Key, l.dirName = sessionstore.Key{ProjectKey: r.ProjectKey, SessionID: r.SessionID}, r.Directory
	return nil
}

// ProjectsDir returns the directory with the transcripts.
func (l *Leftover) ProjectsDir() string { return filepath.Join(l.Dir, "projects") }

// Store returns the store to give to mirror.Watch: it files under Key what the
// agent has filed under the name of its directory.
func (l *Leftover) Store(store sessionstore.SessionStore) sessionstore.SessionStore {
	return rename(store, l.dirName, l.Key.ProjectKey)
}

// Strip removes everything but the transcripts and the record: credentials,
// settings, and what the agent has made of them.
func (l *Leftover) Strip() error {
	if err := strip(removeAll, l.Dir); err != nil {
		return fmt.Errorf("resume: remove from %s what may hold secrets: %w", l.Dir, err)
	}
	return nil
}

// Remove removes the directory.
func (l *Leftover) Remove() error {
	if !removesOpen {
		_ = l.Close()
	}
	err := removeDir(removeAll, l.Dir)
	if err = errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("resume: remove %s: %w", l.Dir, err)
	}
	return nil
}

// Close leaves the directory to others.
func (l *Leftover) Close() error {
	if err := l.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Leftovers returns the private directories in a directory for temporary files
// that belong to this user, whether or not they are in use. [OpenLeftover]
// tells.
func Leftovers(ctx context.Context, tempDir string) ([]string, error) {
	list, err := os.ReadDir(tempDir)
	if err != nil {
		return nil, fmt.Errorf("resume: look for what is left: %w", err)
	}
	var dirs []string
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !e.IsDir() || !strings.HasPrefix(e.Name(), DirPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && isOurs(info) { // else it has gone
			dirs = append(dirs, filepath.Join(tempDir, e.Name()))
		}
	}
	return dirs, nil
}
