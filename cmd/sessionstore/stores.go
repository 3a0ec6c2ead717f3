package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// scheme is one kind of store.
type scheme struct {
	name string // before the colon
	form string // how the URL is written
	open func(ctx context.Context, a *app, rest string, mode mode) (*handle, error)
}

// schemes are the stores that this program knows. Each adapter has a line.
var schemes = []scheme{
	{"file", "file:DIR", openFile},
	{"mem", "mem:", openMem},
	{"postgres", "postgres://…", openPostgres},
	{"postgresql", "postgresql://…", openPostgres},
	{"s3", "s3://…", openS3},
	redisScheme("redis", ""),
	redisScheme("rediss", ""),
	redisScheme("redis", "-cluster"),
	redisScheme("rediss", "-cluster"),
	redisScheme("redis", "-sentinel"),
	redisScheme("rediss", "-sentinel"),
}

// mode says what a command will do with a store.
type mode int

const (
	reading mode = iota
	writing
	changing // writing to a store that must exist
)

// handle is an open store.
type handle struct {
	store sessionstore.SessionStore
	name  string // for messages
	dir   string // of a directory store
	flag  string // the flag that names it to another command, if one is needed
	close func() error

	mode   mode
	app    *app // told of what is passed over
	unread bool // something was passed over
}

// closeInto closes the store and keeps its error unless there is one already.
func (h *handle) closeInto(err *error) {
	if e := h.close(); *err == nil {
		*err = e
	}
}

// openStore opens the store that --store or SESSIONSTORE_URL name. Commands
// that only read fall back to the agent's own directory.
func (a *app) openStore(ctx context.Context, mode mode) (*handle, error) {
	given := a.storeURL
	if given == "" {
		given = os.Getenv("SESSIONSTORE_URL")
	}
	if given != "" {
		if mode == writing {
			mode = changing
		}
		h, err := a.open(ctx, given, mode)
		if err == nil && a.storeURL == "" {
			h.flag = "" // the variable is there for others too
		}
		return h, err
	}
	if mode == writing {
		return nil, usagef("this command changes the store: name it with --store or SESSIONSTORE_URL")
	}
	dir, err := agentDir()
	if err != nil {
		return nil, err
	}
	h, err := openFile(ctx, a, dir, reading)
	if h != nil {
		h.app = a
	}
	if errors.Is(err, sessionstore.ErrNotFound) {
		err = notFoundf("no directory %s, where the agent keeps its sessions; name a store with --store or SESSIONSTORE_URL", dir)
	}
	return h, err
}

// agentDir is where the agent keeps its own transcripts.
func agentDir() (string, error) {
	if dir := os.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "projects"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("home directory: %w", err)
	}
	return filepath.Join(home, ".claude", "projects"), nil
}

// open opens a store by its URL, or an existing directory by its path.
func (a *app) open(ctx context.Context, storeURL string, mode mode) (*handle, error) {
	name, rest, hasScheme := cutScheme(storeURL)
	if !hasScheme {
		return a.openPath(ctx, storeURL, mode)
	}
	forms := make([]string, len(schemes))
	for i, s := range schemes {
		if s.name == name {
			h, err := s.open(ctx, a, rest, mode)
			return h.named(a, mode), err
		}
		forms[i] = s.form
	}
	return nil, usagef("unknown kind of store %q in %s; known are %s", name, redact(storeURL), strings.Join(forms, ", "))
}

func (a *app) openPath(ctx context.Context, path string, mode mode) (*handle, error) {
	dir, err := expandHome(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if mode == writing {
			return nil, notFoundf("no directory %s; write file:%s to create it", notURL(dir), notURL(path))
		}
		return nil, noStore(dir)
	}
	h, err := openDir(ctx, a, dir, mode, filestore.Options{})
	return h.named(a, mode), err
}

// notURL keeps the password out of a path that was to be a URL.
func notURL(path string) string {
	from, to := strings.Index(path, "//"), strings.LastIndexByte(path, '@')
	if from < 0 || to < from {
		return path
	}
	return path[:from] + "//xxxxx" + path[to:]
}

func noStore(dir string) error {
	return notFoundf("no such store: there is no directory %s", notURL(dir))
}

// named adds the flag that names the store, and what else a handle has.
func (h *handle) named(a *app, mode mode) *handle {
	if h != nil {
		h.app, h.mode = a, mode
		h.flag = " -s " + quoteShell(h.name)
	}
	return h
}

// refuseConfigDir refuses the directory above the one that is meant, in which
// an agent keeps its transcripts.
func refuseConfigDir(dir string) error {
	inner := filepath.Join(dir, "projects")
	if isDir(inner) && !hasTranscripts(dir) && hasTranscripts(inner) {
		return usagef("%s holds no projects; did you mean %s?", dir, inner)
	}
	return nil
}

// hasTranscripts reports whether a directory below dir holds a session.
func hasTranscripts(dir string) bool {
	projects, _ := os.ReadDir(dir)
	for _, p := range projects {
		files, _ := os.ReadDir(filepath.Join(dir, p.Name()))
		for _, f := range files {
			if filepath.Ext(f.Name()) == ".jsonl" {
				return true
			}
		}
	}
	return false
}

// cutScheme splits a URL. A single letter is a drive, not a scheme.
func cutScheme(s string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(s, ":")
	if !ok || len(name) < 2 || strings.ContainsAny(name, `/\.~ `) {
		return "", "", false
	}
	return strings.ToLower(name), rest, true
}

// shown are the options of a URL whose values may be in a message.
var shown = map[string]bool{
	"addr": true, "db": true, "dbname": true, "endpoint": true, "fsync": true, "host": true, "master_name": true,
	"path_style": true, "port": true, "prefix": true, "readonly": true, "region": true, "schema": true,
	"sslmode": true, "table_prefix": true, "ttl": true,
}

// redact keeps secrets out of a message. Of a URL that is not written as it
// should be nobody knows where they are, so nothing of it is shown.
func redact(storeURL string) string {
	name, _, _ := cutScheme(storeURL)
	u, err := url.Parse(storeURL)
	if err != nil {
		return name + ":…"
	}
	redis := strings.HasPrefix(name, "redis")
	switch {
	case name == "file" || name == "s3" || name == "mem":
	case u.Opaque != "" || strings.Contains(u.Path+u.Fragment, "@") || redis && u.Host == "":
		return name + ":…"
	}
	if redis && u.User != nil {
		u.User = url.User("xxxxx") // one without a name is often a password
	}
	if strings.Contains(u.RawQuery, "@") {
		return name + ":…"
	}
	u.RawQuery = redactQuery(u.RawQuery)
	return u.Redacted()
}

// redactQuery leaves the names of options, and the values of those that are no
// secret. Behind a secret, what looks like an option may be a piece of it.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	secret := false
	for i, pair := range pairs {
		option, _, ok := strings.Cut(pair, "=")
		switch {
		case pair == "" || ok && shown[option]:
		case ok && !secret:
			pairs[i], secret = option+"=xxxxx", true
		default:
			pairs[i] = "xxxxx"
		}
	}
	return strings.Join(pairs, "&")
}

func openMem(_ context.Context, _ *app, rest string, _ mode) (*handle, error) {
	if rest != "" {
		return nil, usagef("a store in memory is written mem: and has no name (got %q)", rest)
	}
	return &handle{store: inmemory.New(), name: "mem:", close: func() error { return nil }}, nil
}

func openFile(ctx context.Context, a *app, rest string, mode mode) (*handle, error) {
	path, query := rest, ""
	if i := strings.LastIndexByte(rest, '?'); i >= 0 {
		path, query = rest[:i], rest[i+1:]
	}
	opts, err := fileOptions(query)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(path, "//") {
		if path, err = fileURLPath(path); err != nil {
			return nil, err
		}
	}
	dir, err := expandHome(path)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, usagef("file: names no directory; the form is file:DIR")
	}
	return openDir(ctx, a, dir, mode, opts)
}

func fileOptions(query string) (filestore.Options, error) {
	var opts filestore.Options
	values, err := url.ParseQuery(query)
	if err != nil {
		return opts, usagef("file store: options %q: %v", query, err)
	}
	for name, v := range values {
		on, err := strconv.ParseBool(v[0])
		if err != nil {
			return opts, usagef("file store: option %s=%s: write true or false", name, v[0])
		}
		switch name {
		case "readonly":
			opts.ReadOnly = on
		case "fsync":
			opts.Fsync = on
		default:
			return opts, usagef("file store: unknown option %q; known are readonly, fsync (write a ? in a name as %%3F in file:///…)", name)
		}
	}
	return opts, nil
}

// fileURLPath takes the part of a URL behind "file:" that begins with "//".
func fileURLPath(s string) (string, error) {
	host, path, _ := strings.Cut(s[2:], "/")
	if host != "" && host != "localhost" {
		return "", usagef("file:%s: a path behind file:// is absolute; write file:%s, or file:/// and the whole path", s, s[2:])
	}
	path, err := url.PathUnescape("/" + path)
	if err != nil {
		return "", usagef("file:%s: %v", s, err)
	}
	return path, nil
}

// expandHome replaces a leading ~, which shells leave alone behind "file:".
func expandHome(path string) (string, error) {
	if path == "" || path[0] != '~' {
		return path, nil
	}
	if len(path) > 1 && !os.IsPathSeparator(path[1]) {
		return "", usagef("%s: only ~ and ~/ are expanded; write ./%s for a directory of that name", path, path)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("home directory: %w", err)
	}
	return filepath.Join(home, path[1:]), nil
}

func openDir(_ context.Context, a *app, dir string, mode mode, opts filestore.Options) (*handle, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mode != writing:
		return nil, noStore(dir)
	case errors.Is(err, fs.ErrNotExist):
		// The store creates it.
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	if err := refuseConfigDir(dir); err != nil {
		return nil, err
	}
	opts.ReadOnly = opts.ReadOnly || mode == reading
	opts.OnSkip = func(s filestore.Skip) { a.skips.add(dir, s) }
	s, err := filestore.Open(dir, &opts)
	if err != nil {
		return nil, err
	}
	return &handle{store: s, name: "file:" + dir, dir: dir, close: s.Close}, nil
}
