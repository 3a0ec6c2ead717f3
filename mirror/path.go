package mirror

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
)

const linesSuffix = ".jsonl"

// paths turns file paths into keys.
type paths struct {
	dir     string // as the host gave it, absolute
	windows bool   // paths have drives and backslashes
	segs    []string

	mu       sync.Mutex
	resolved []string // segs with links resolved; nil: not known yet
	seen     map[string]bool
}

func newPaths(dir string) (*paths, error) {
	if dir == "" {
		return nil, errors.New("projects directory is empty")
	}
	p := &paths{dir: dir, windows: isWindowsPath(dir) || filepath.Separator == '\\'}
	if !isWindowsPath(dir) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		p.dir = abs
	}
	segs, err := p.split(p.dir)
	if err != nil {
		return nil, fmt.Errorf("projects directory %s: %w", p.dir, err)
	}
	p.segs = segs
	return p, nil
}

// isWindowsPath recognises C:\… and \\server\….
func isWindowsPath(s string) bool {
	if strings.HasPrefix(s, `\\`) {
		return true
	}
	return len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

var errOutside = errors.New("path lies outside the projects directory")

// split returns the segments of an absolute path. Double and trailing slashes
// and "." mean nothing; ".." is refused, since what it means depends on links.
func (p *paths) split(path string) ([]string, error) {
	if p.windows {
		path = strings.ReplaceAll(path, `\`, "/")
	}
	if !strings.HasPrefix(path, "/") && !(p.windows && isWindowsPath(path)) {
		return nil, errors.New("path is not absolute")
	}
	var segs []string
	for seg := range strings.SplitSeq(path, "/") {
		switch seg {
		case "", ".":
		case "..":
			return nil, errors.New(`path holds ".."`)
		default:
			segs = append(segs, seg)
		}
	}
	return segs, nil
}

// key returns the key of a transcript file, or what is wrong with its path.
func (p *paths) key(path string) (sessionstore.Key, *ForeignError) {
	segs, err := p.split(path)
	if err == nil && strings.HasSuffix(path, "/") {
		err = errors.New("path ends in a slash")
	}
	if err != nil {
		return sessionstore.Key{}, p.foreign(path, err, false)
	}
	rest, ok := p.cut(segs, p.segs)
	if !ok {
		rest, ok = p.cutResolved(path, segs)
	}
	if !ok {
		return sessionstore.Key{}, p.foreign(path, errOutside, true)
	}
	key, err := keyOf(rest)
	if err != nil {
		return key, p.foreign(path, err, false)
	}
	return key, nil
}

func (p *paths) cut(segs, prefix []string) ([]string, bool) {
	if len(segs) < len(prefix) {
		return nil, false
	}
	for i, want := range prefix {
		if segs[i] != want && !(p.windows && strings.EqualFold(segs[i], want)) {
			return nil, false
		}
	}
	return segs[len(prefix):], true
}

// cutResolved compares without symbolic links: the host may name the
// configuration directory by another way than the agent does.
func (p *paths) cutResolved(path string, segs []string) ([]string, bool) {
	base := p.resolvedDir()
	if base == nil {
		return nil, false
	}
	if rest, ok := p.cut(segs, base); ok {
		return rest, true
	}
	// The directories of a session may not exist any more, or not yet.
	for n := len(segs) - 1; n > 0; n-- {
		dir := strings.Join(segs[:n], "/")
		if !isWindowsPath(dir) {
			dir = "/" + dir
		}
		real, err := filepath.EvalSymlinks(filepath.FromSlash(dir))
		if err != nil {
			continue
		}
		realSegs, err := p.split(real)
		if err != nil {
			return nil, false
		}
		return p.cut(append(realSegs, segs[n:]...), base)
	}
	return nil, false
}

func (p *paths) resolvedDir() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resolved == nil {
		if real, err := filepath.EvalSymlinks(p.dir); err == nil {
			p.resolved, _ = p.split(real)
		}
	}
	return p.resolved
}

// keyOf makes a key of a path below the projects directory.
func keyOf(segs []string) (sessionstore.Key, error) {
	var key sessionstore.Key
	if len(segs) != 2 && len(segs) < 4 {
		return key, fmt.Errorf("a transcript lies two levels below the projects directory, or four and more, not %d", len(segs))
	}
	name, ok := strings.CutSuffix(segs[len(segs)-1], linesSuffix)
	if !ok || name == "" {
		return key, fmt.Errorf("the name of a transcript ends in %s", linesSuffix)
	}
	for _, seg := range segs {
		if strings.ContainsAny(seg, "\\\x00") {
			return key, fmt.Errorf("%q holds a backslash or a NUL byte", seg)
		}
	}
	key = sessionstore.Key{ProjectKey: segs[0], SessionID: name}
	if len(segs) > 2 {
		key.SessionID = segs[1]
		key.Subpath = strings.Join(segs[2:len(segs)-1], "/") + "/" + name
	}
	return key, key.Validate()
}

// maxSeen limits how many foreign paths are remembered.
const maxSeen = 1024

func (p *paths) foreign(path string, err error, outside bool) *ForeignError {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.seen[path] && len(p.seen) < maxSeen
	if first {
		if p.seen == nil {
			p.seen = make(map[string]bool)
		}
		p.seen[path] = true
	}
	return &ForeignError{Path: path, ProjectsDir: p.dir, Outside: outside, First: first, Err: err}
}
