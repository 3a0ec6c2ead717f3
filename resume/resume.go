package resume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

// Session is what an agent is started with. Its fields are not changed after
// [Materialize] has returned it.
type Session struct {
	// Found says that the session was in the store and is in ConfigDir now.
	// Otherwise there was nothing to materialise: the id is passed on to the
	// agent as it is, or the agent starts a new session.
	Found bool
	// Key is the session in the store. Its SessionID is empty for a new one.
	Key sessionstore.Key
	// ConfigDir is the agent's config directory: a private one if Found or
	// [Options].Fresh, otherwise the agent's own.
	ConfigDir string
	// Private says that Close removes ConfigDir.
	Private bool

	plan   plan
	lock   *os.File // the directory, locked
	keep   func() bool
	remove func(dir string) error

	mu       sync.Mutex
	closed   bool
	kept     *KeptError
	stripped bool // the kept directory
}

// KeptError is returned by [Session.Close] when the directory was kept because
// it is the only full copy of the session. Bring what is missing into the store
// with host.RecoverDir, which also deletes it, or as [Leftover] says.
type KeptError struct{ Dir string }

func (e *KeptError) Error() string {
	return "resume: not everything is in the store; the whole session is only in " + e.Dir
}

// Materialize writes a session of the store into a private config directory.
// That nothing was found is no error: see [Session].Found. The error is a
// [*OptionError] for options that can't be used, before the store is called, and
// a [*sessionstore.OpError] otherwise.
func Materialize(ctx context.Context, store sessionstore.SessionStore, opts Options) (*Session, error) {
	return materialize(ctx, store, opts, thisMachine)
}

func materialize(ctx context.Context, store sessionstore.SessionStore, opts Options, on machine) (*Session, error) {
	if err := opts.Validate(store); err != nil {
		return nil, err
	}
	if opts.CallTimeout <= 0 {
		opts.CallTimeout = DefaultCallTimeout
	}
	if opts.Concurrency <= 0 {
		opts.Concurrency = DefaultConcurrency
	}
	p, err := opts.plan()
	if err != nil {
		return nil, fail(sessionstore.Key{ProjectKey: opts.ProjectKey, SessionID: opts.SessionID}, err)
	}
	m := &materializer{
		store: limited{store, opts.CallTimeout},
		opts:  opts, on: on,
		session: &Session{
			Key:       sessionstore.Key{ProjectKey: p.projectKey, SessionID: opts.SessionID},
			ConfigDir: p.ownDir, plan: p,
			keep: opts.KeepOnMirrorLoss, remove: on.remove,
		},
	}
	if err := m.run(ctx); err != nil {
		return nil, fail(m.session.Key, err)
	}
	return m.session, nil
}

func fail(key sessionstore.Key, err error) error {
	if bad := (*OptionError)(nil); errors.As(err, &bad) {
		return bad
	}
	return &sessionstore.OpError{Package: "resume", Op: "materialize", Key: key, Err: err}
}

// materializer is one Materialize under way.
type materializer struct {
	store   limited
	opts    Options
	on      machine
	session *Session
	root    *os.Root // of the private directory

	mu      sync.Mutex
	skipped []Skip
}

func (m *materializer) run(ctx context.Context) (err error) {
	if m.opts.Continue {
		if err := m.findLatest(ctx); err != nil {
			return err
		}
	}
	s := m.session
	fresh := m.opts.Fresh || s.plan.private
	if s.Key.SessionID == "" && !fresh {
		return ctx.Err()
	}
	dir, err := m.makeDir()
	if err != nil {
		return err
	}
	keep := false
	defer func() { // on a panic of OnSkip too
		err = errors.Join(err, m.root.Close())
		if !keep || err != nil {
			err = errors.Join(err, m.removeAgain(dir))
		}
	}()
	if err := m.fill(ctx, fresh); err != nil {
		return err
	}
	if s.Found || fresh {
		s.ConfigDir, s.Private = dir, true
	}
	m.reportSkips()
	keep = s.Private
	return ctx.Err()
}

// fill writes what the agent needs.
func (m *materializer) fill(ctx context.Context, fresh bool) (err error) {
	if err := m.writeRecord(ctx); err != nil {
		return err
	}
	s := m.session
	if s.Key.SessionID != "" {
		if s.Found, err = m.transcripts(ctx); err != nil {
			return err
		}
	}
	if !s.Found && !fresh {
		return nil
	}
	return m.config(ctx)
}

// removeAgain removes a directory that nobody gets.
func (m *materializer) removeAgain(dir string) error {
	if !removesOpen {
		m.session.unlock()
	}
	err := removeDir(m.on.remove, dir)
	m.session.unlock()
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func (m *materializer) reportSkips() {
	for _, skip := range m.skipped {
		if m.opts.OnSkip != nil {
			m.opts.OnSkip(skip)
		}
	}
}

// findLatest finds the session to continue, if there is one.
func (m *materializer) findLatest(ctx context.Context) error {
	latest, _, err := session.Latest(ctx, m.store.forSession(), m.session.Key.ProjectKey)
	if errors.Is(err, errors.ErrUnsupported) {
		return &OptionError{"Continue", err}
	}
	m.session.Key.SessionID = latest.SessionID
	return err
}

func (m *materializer) makeDir() (string, error) {
	dir, err := os.MkdirTemp(m.opts.TempDir, DirPrefix)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err == nil {
		m.root, err = os.OpenRoot(dir)
	}
	if err == nil {
		if err = m.root.MkdirAll(m.project(), dirMode); err != nil {
			m.root.Close()
		}
	}
	if err != nil {
		return "", errors.Join(err, m.on.remove(dir))
	}
	return dir, nil
}

// project is the directory of the project's transcripts.
func (m *materializer) project() string { return "projects/" + m.session.plan.dirName }

func (m *materializer) skip(s Skip) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped = append(m.skipped, s)
}

// Args returns the arguments that make the agent resume the session, each as
// one token. There are none for a new session.
func (s *Session) Args() []string {
	if s.Key.SessionID == "" {
		return nil
	}
	return []string{"--resume=" + s.Key.SessionID}
}

// Env returns the environment for the agent: that of the options, and where its
// config directory is if it is not its own.
func (s *Session) Env() []string {
	env := slices.Clone(s.plan.env)
	if !s.Private {
		return env
	}
	env = append(unsetenv(env, configDirVariable), configDirVariable+"="+s.ConfigDir)
	env = unsetenv(env, projectDirVariable) // which counts from now on
	if s.plan.override {
		env = append(env, projectDirVariable+"="+s.plan.dirName)
	}
	return env
}

// ProjectsDir returns the directory in which the agent will write transcripts.
func (s *Session) ProjectsDir() string { return filepath.Join(s.ConfigDir, "projects") }

// Close removes the private directory. Call it when the agent has ended and
// the mirror is closed. It may be called more than once, and tries again if it
// failed. See [Options].KeepOnMirrorLoss for when it keeps the directory; then
// everything but "projects" and the record is removed, for what else is there may hold secrets.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.Private {
		return nil
	}
	if s.kept == nil && s.keep != nil && s.keep() {
		s.kept = &KeptError{Dir: s.ConfigDir}
	}
	if s.kept != nil {
		defer s.unlock()
		return s.strip()
	}
	if !removesOpen {
		s.unlock()
	}
	if err := removeDir(s.remove, s.ConfigDir); err != nil {
		return fail(s.Key, fmt.Errorf("remove %s: %w", s.ConfigDir, err))
	}
	s.unlock()
	s.closed = true
	return nil
}

// Release makes the private directory the caller's, or whoever opens it with
// [OpenLeftover]: Close does nothing from now on.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlock()
	s.closed = true
}

// unlock leaves the directory to others.
func (s *Session) unlock() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// strip removes everything but the transcripts, and what says whose they are,
// from a kept directory: what was brought there, and what the agent has made of
// it.
func (s *Session) strip() error {
	if s.stripped {
		return s.kept
	}
	if err := strip(s.remove, s.ConfigDir); err != nil {
		return errors.Join(s.kept, fail(s.Key, fmt.Errorf("remove what may hold secrets: %w", err)))
	}
	s.stripped = true
	return s.kept
}

func strip(remove func(string) error, dir string) error {
	list, err := os.ReadDir(dir)
	errs := []error{ignoreMissing(err)}
	for _, file := range list {
		if name := file.Name(); name != "projects" && name != RecordFile {
			errs = append(errs, removeDir(remove, filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a directory in which there may be read-only ones, such as a
// cache of modules.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return os.RemoveAll(dir)
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if rel, err := filepath.Rel(dir, path); err == nil && d != nil && d.IsDir() {
			_ = root.Chmod(rel, dirMode)
		}
		return nil
	})
	return errors.Join(os.RemoveAll(dir), root.Close())
}

// Removing is tried for about two seconds: scanners and agents that are about
// to end hold files open, and where they do, Windows removes nothing.
const (
	removeTries = 7
	removePause = 32 * time.Millisecond // doubled each time
)

func removeDir(remove func(string) error, dir string) (err error) {
	pause := removePause
	for try := 1; ; try++ {
		if err = remove(dir); err == nil || try == removeTries {
			return err
		}
		time.Sleep(pause)
		pause *= 2
	}
}
