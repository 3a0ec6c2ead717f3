package resume

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Defaults of [Options].
const (
	DefaultCallTimeout = 60 * time.Second
	DefaultConcurrency = 8
)

// DirPrefix begins the names of the directories that [Materialize] makes.
const DirPrefix = "sessionstore-resume-"

// Options say what to resume. With neither SessionID nor Continue the agent
// starts a new session.
type Options struct {
	// SessionID is the session to resume. It must be a UUID in form: 8-4-4-4-12
	// hexadecimal digits, in any case, of any version.
	SessionID string
	// Continue resumes the newest session that is not a sidechain. The store
	// must be able to list sessions.
	Continue bool
	// Fresh makes the private directory also when there is no session to put
	// into it, so that the agent runs apart from all others. A ProjectKey that
	// is not that of Dir does the same: an agent in its own config directory
	// can't be told of it.
	Fresh bool

	// Dir is the directory in which the agent will run; "" is the current one.
	// It must exist.
	Dir string
	// ProjectKey is the scope of the session in the store, such as a tenant.
	// "" is [sessionstore.ProjectKey] of Dir.
	ProjectKey string

	// Env is the environment that the agent would get without this package, in
	// the form of [os.Environ]; nil is the host's own.
	Env []string
	// ConfigDir is where credentials and settings come from. "" is the agent's
	// own config directory: CLAUDE_CONFIG_DIR of Env, or ~/.claude.
	ConfigDir string
	// TempDir is where the directory is made; "" is [os.TempDir]. A host that has
	// one of its own can recover what is in it after a crash: see host.Recover.
	TempDir string

	// CallTimeout limits each call of the store, and a stream's time between
	// two entries. 0 is [DefaultCallTimeout].
	CallTimeout time.Duration
	// Concurrency is how many subpath transcripts are read at a time. 0 is
	// [DefaultConcurrency].
	Concurrency int

	// OnSkip, if not nil, is told of everything that was left out, before
	// Materialize returns and on its goroutine.
	OnSkip func(Skip)
	// KeepOnMirrorLoss, if not nil, is asked by Close. If it says true, the
	// directory is the only full copy of the session: its "projects" are kept,
	// without credentials, settings or anything else, and Close returns a
	// [*KeptError]. Method NeedsFiles of a mirror is the answer: what it has
	// given up and spilled to files is not lost.
	KeepOnMirrorLoss func() bool
}

// Skip is something that was not written.
type Skip struct {
	// Subpath is the transcript, as the store named it; empty for a file.
	Subpath string
	// File is the file of the config directory; empty for a transcript.
	File string
	Err  error
}

func (s Skip) String() string {
	if s.File != "" {
		return fmt.Sprintf("%s: %v", s.File, s.Err)
	}
	return fmt.Sprintf("subpath %q: %v", s.Subpath, s.Err)
}

// OptionError says that an option can't be used, alone or with the others or
// with this store. Its cause is [sessionstore.ErrInvalidKey] for ids and keys,
// [errors.ErrUnsupported] for what the store can't do, and [ErrNotPersisted] or
// [ErrFileCheckpointing] for agents whose sessions can't be stored.
type OptionError struct {
	Option string // such as "SessionID", or the agent's flag or variable
	Err    error
}

func (e *OptionError) Error() string { return "resume: " + e.Option + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OptionError) Unwrap() error { return e.Err }

// Causes of an [OptionError].
var (
	// ErrNotPersisted: the agent would not write its session to its own disk,
	// and then it reports nothing that could be stored.
	ErrNotPersisted = errors.New("a session that the agent does not persist cannot be stored")
	// ErrFileCheckpointing: checkpoints of files lie on the local disk and are
	// not part of the session that is stored.
	ErrFileCheckpointing = errors.New("file checkpointing cannot be combined with a session store")
)

// Validate checks the options against each other and against the store, without
// calling it. Materialize does so first. The error is a [*OptionError].
func (o Options) Validate(store sessionstore.SessionStore) error {
	switch {
	case o.SessionID != "" && o.Continue:
		return &OptionError{"Continue", errors.New("cannot be combined with SessionID")}
	case o.SessionID != "":
		if err := CheckSessionID(o.SessionID); err != nil {
			return err
		}
	}
	if err := checkDir(o.Dir); err != nil {
		return &OptionError{"Dir", err}
	}
	if o.ProjectKey != "" {
		if err := sessionstore.ValidateProjectKey(o.ProjectKey); err != nil {
			return &OptionError{"ProjectKey", err}
		}
	}
	if o.Continue && !canList(store) {
		return &OptionError{"Continue", fmt.Errorf("the store cannot list sessions: %w", errors.ErrUnsupported)}
	}
	return CheckAgent(nil, o.env())
}

// checkDir: otherwise the agent could not be started, and its program would be
// blamed.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

func canList(store sessionstore.SessionStore) bool {
	_, lists := store.(sessionstore.SessionLister)
	_, summarizes := store.(sessionstore.SummaryLister)
	return lists || summarizes
}

// CheckSessionID reports whether an agent takes the text as the id of a
// session: a UUID in form. The error is a [*OptionError] that wraps
// [sessionstore.ErrInvalidKey].
func CheckSessionID(id string) error {
	ok := len(id) == 36
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			ok = c == '-'
		} else {
			ok = '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		}
	}
	if ok {
		return nil
	}
	shown := id
	if len(shown) > 60 {
		shown = shown[:60] + "…"
	}
	return &OptionError{"SessionID", fmt.Errorf("%w: %q is not a UUID", sessionstore.ErrInvalidKey, shown)}
}

// CheckAgent looks for what makes an agent's session impossible to store, in
// the arguments and the environment that it will be started with: no
// persistence, and file checkpointing. The error is a [*OptionError].
func CheckAgent(args, env []string) error {
	for _, arg := range args {
		if name, value, _ := strings.Cut(arg, "="); name == "--no-session-persistence" && !isOff(value, true) {
			return &OptionError{arg, ErrNotPersisted}
		}
	}
	for name, cause := range map[string]error{
		"CLAUDE_CODE_SKIP_PROMPT_HISTORY":           ErrNotPersisted,
		"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": ErrFileCheckpointing,
	} {
		if value, ok := getenv(env, name); ok && !isOff(value, false) {
			return &OptionError{name, cause}
		}
	}
	return nil
}

// isOff reads a switch. A flag without a value is on, a variable is off.
func isOff(value string, flag bool) bool {
	switch strings.ToLower(value) {
	case "0", "false", "no", "off":
		return true
	}
	return value == "" && !flag
}

func (o Options) env() []string {
	if o.Env == nil {
		return os.Environ()
	}
	return o.Env
}

// getenv returns the last value of a variable, which is the one that counts.
func getenv(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// unsetenv returns a copy of env without a variable.
func unsetenv(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, name+"=")
	})
}

// plan is what the options amount to.
type plan struct {
	projectKey string
	// dirName is the directory of the project under "projects", override says
	// that the agent must be told of it, and private that it must be told by us.
	dirName           string
	override, private bool

	env       []string
	ownDir    string // the agent's own config directory
	configDir string // where credentials and settings come from
	isDefault bool   // that is the one that agents use when they are told nothing
}

const (
	maxDirName = 64

	configDirVariable  = "CLAUDE_CONFIG_DIR"
	projectDirVariable = "CLAUDE_CODE_PROJECT_DIR_NAME"
)

func (o Options) plan() (plan, error) {
	p := plan{projectKey: o.ProjectKey, env: o.env(), configDir: o.ConfigDir}
	own, err := sessionstore.ProjectKey(o.Dir)
	if err != nil {
		return p, err
	}
	// The agent reads this variable only together with the other.
	named, _ := getenv(p.env, projectDirVariable)
	if config, _ := getenv(p.env, configDirVariable); config != "" && isDirName(named) {
		own, p.override = named, true
	}
	p.projectKey = cmp.Or(p.projectKey, own)
	switch {
	case p.projectKey == own:
		p.dirName = own
	case isDirName(p.projectKey):
		p.dirName, p.override, p.private = p.projectKey, true, true
	default:
		// The agent can't have a directory of this name, so it gets another.
		sum := sha256.Sum256([]byte(p.projectKey))
		p.dirName, p.override, p.private = "project-"+hex.EncodeToString(sum[:16]), true, true
	}
	return p, p.findConfig()
}

// isDirName reports whether projectDirVariable may have this value.
func isDirName(s string) bool {
	return s != "" && len(s) <= maxDirName && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) < 0
}

// findConfig finds the config directories. If nothing names the agent's own, it
// is the default one, and then .claude.json lies beside it.
func (p *plan) findConfig() (err error) {
	named, isNamed := getenv(p.env, configDirVariable)
	isNamed = isNamed && named != ""
	standard := ""
	if home := homeDir(p.env); home != "" {
		standard = filepath.Join(home, ".claude")
	}
	p.ownDir = cmp.Or(named, standard)
	if p.ownDir == "" {
		return &OptionError{"Env", errors.New("it names no home directory; set HOME or CLAUDE_CONFIG_DIR")}
	}
	if p.ownDir, err = filepath.Abs(p.ownDir); err != nil {
		return err
	}
	if p.configDir, err = filepath.Abs(cmp.Or(p.configDir, p.ownDir)); err != nil {
		return err
	}
	p.isDefault = !isNamed && p.configDir == standard
	return nil
}

// homeDir is the home of an agent with this environment.
func homeDir(env []string) string {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if home, ok := getenv(env, name); ok && home != "" {
		return home
	}
	home, _ := os.UserHomeDir()
	return home
}
