package resume

import (
	"bytes"
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
	"time"

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

// lockWait is how long Materialize waits for who looks at its new directory.
const lockWait = 5 * time.Second

const recordTemp = RecordFile + ".tmp"

// writeRecord locks the directory, which is nobody else's as long as the session
// is open, and then puts the record in place whole. Others may look at the new
// directory meanwhile and lock it for a moment; they leave it alone, because
// nothing is in it yet.
func (m *materializer) writeRecord(ctx context.Context) error {
	s := m.session
	var err error
	if s.lock, err = m.root.Open("."); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, ErrInUse)
	defer cancel()
	if osdir.Lock(ctx, s.lock, true) != nil && ctx.Err() != nil { // some file systems have no locks
		return fmt.Errorf("lock the private directory: %w", context.Cause(ctx))
	}
	text, err := json.Marshal(record{recordVersion, s.Key.ProjectKey, s.Key.SessionID, s.plan.dirName})
	if err != nil {
		return err
	}
	f, err := m.root.OpenFile(recordTemp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return m.root.Rename(recordTemp, RecordFile)
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
// without a record gives an error that wraps [fs.ErrNotExist]. Links instead of
// "projects" and of the project's directory are refused. On systems
// without flock(2), directories in use can't be told from others.
func OpenLeftover(dir string) (*Leftover, error) {
	l, err := openLeftover(dir)
	if err != nil {
		return nil, fmt.Errorf("resume: open what is left in %s: %w", dir, err)
	}
	return l, nil
}

func openLeftover(dir string) (*Leftover, error) {
	root, lock, _, err := lockPrivate(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	l := &Leftover{Dir: root.Name(), lock: lock}
	if err = l.read(root); err != nil {
		err = fmt.Errorf("%s: %w", RecordFile, err)
	} else {
		err = checkProjects(root, l.dirName)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return l, nil
}

// lockPrivate opens and locks a directory of this user that is closed to others.
// Held is false on a file system that has no locks.
func lockPrivate(dir string) (root *os.Root, lock *os.File, held bool, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, false, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, nil, false, err
	}
	if !info.IsDir() {
		return nil, nil, false, errors.New("not a directory")
	}
	if err := checkPrivate(info); err != nil {
		return nil, nil, false, err
	}
	if root, err = os.OpenRoot(dir); err != nil {
		return nil, nil, false, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		root.Close()
		return nil, nil, false, errors.Join(errors.New("it was replaced meanwhile"), err)
	}
	if lock, err = root.Open("."); err != nil {
		root.Close()
		return nil, nil, false, err
	}
	held, err = osdir.TryLock(lock, true)
	if !held && err == nil { // some file systems have no locks
		root.Close()
		lock.Close()
		return nil, nil, false, ErrInUse
	}
	return root, lock, held, nil
}

// checkProjects refuses links: they lead to what may be another's, and what is
// there would be stored under the key of this directory.
func checkProjects(root *os.Root, dirName string) error {
	for _, name := range []string{"projects", "projects/" + dirName} {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%w: %s is not a directory of its own", sessionstore.ErrCorrupt, name)
		}
	}
	return nil
}

// CheckProjects reports an error if the agent has put a link to another place
// where the transcripts of its private directory are. Ask it before they are
// brought into a store.
func (s *Session) CheckProjects() error {
	root, err := os.OpenRoot(s.ConfigDir)
	if err != nil {
		return fail(s.Key, err)
	}
	defer root.Close()
	if err := checkProjects(root, s.plan.dirName); err != nil {
		return fail(s.Key, err)
	}
	return nil
}

// StripLeftover is for a private directory that [OpenLeftover] could not open,
// because of its record. It removes everything but the transcripts and the
// record if the directory is named as those of [Materialize], belongs to this
// user, is closed to others and can be locked. It removes the directory if
// its host was killed while it wrote the record: no agent has run there then.
func StripLeftover(dir string) (removed bool, err error) {
	if !strings.HasPrefix(filepath.Base(dir), DirPrefix) {
		return false, fmt.Errorf("resume: strip %s: its name does not begin with %s", dir, DirPrefix)
	}
	root, lock, held, err := lockPrivate(dir)
	if err != nil || !held {
		return false, err // the error of OpenLeftover says so
	}
	defer root.Close()
	l := &Leftover{Dir: root.Name(), lock: lock}
	defer l.Close()
	if neverBegun(root) {
		root.Close() // for Windows
		return true, l.Remove()
	}
	return false, l.Strip()
}

// neverBegun reports whether the host was killed while it wrote the record. The
// caller holds the lock, and a host writes the record only while it holds it,
// so that host has ended. It writes the record before everything else but empty
// directories, and starts the agent later: nothing can be lost. A directory
// with anything else in it is not taken for one.
func neverBegun(root *os.Root) bool {
	begun := false
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case name == recordTemp && d.Type().IsRegular():
			begun = true
			return nil
		}
		return fs.ErrExist
	})
	return err == nil && begun
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
	if hasLoneSurrogate(text, r.ProjectKey+r.SessionID+r.Directory) {
		return fmt.Errorf("%w: it holds half a character", sessionstore.ErrCorrupt)
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

// hasLoneSurrogate reports whether decoding has replaced something: the key would
// be another one's.
func hasLoneSurrogate(text []byte, decoded string) bool {
	const replaced = "\uFFFD"
	given := bytes.Count(text, []byte(replaced)) + bytes.Count(bytes.ToLower(text), []byte(`\ufffd`))
	return strings.Count(decoded, replaced) > given
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
