package memredis

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/redisutil"
	"github.com/sessionstore/sessionstore/memory"
)

// DefaultPrefix begins the names of keys unless [Options.Prefix] says something
// else.
const DefaultPrefix = "sessionstore:memory:"

// Options of [New]. The zero value is fine.
type Options struct {
	// Prefix starts the name of every key, so that several stores can share a
	// server. It must not contain braces. The default is [DefaultPrefix].
	Prefix string

	// RetryFor is how long an operation is repeated while the connection fails
	// or the server asks to come again, as during a failover. The default is
	// 10 s; a negative value leaves retries to the client.
	RetryFor time.Duration
}

// Store holds the files of one scope. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	client   redis.UniversalClient
	scope    string
	key      string
	retryFor time.Duration
	now      func() time.Time
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

// formatVersion is in the field v of every hash.
const formatVersion = "1"

var (
	//go:embed lua/common.lua
	commonSource string
	//go:embed lua/write.lua
	writeSource string
	//go:embed lua/delete.lua
	deleteSource string
	//go:embed lua/rename.lua
	renameSource string
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/expire.lua
	expireSource string
	//go:embed lua/touch.lua
	touchSource string

	writeScript  = script(writeSource)
	deleteScript = script(deleteSource)
	renameScript = script(renameSource)
	listScript   = script(listSource)
	expireScript = script(expireSource)
	touchScript  = script(touchSource)
)

func script(source string) *redis.Script {
	return redis.NewScript(redisutil.Minify(commonSource + source))
}

// New returns a store of a scope on the server or cluster of client. The caller
// owns the client and closes it. An empty scope is an error. Options may be nil.
// New sends nothing.
func New(client redis.UniversalClient, scope string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	err := cmp.Or(redisutil.CheckClient(client), memory.CheckScope(scope))
	if err == nil && strings.ContainsAny(o.Prefix, "{}") {
		err = fmt.Errorf("prefix %q contains a brace", o.Prefix)
	}
	if err != nil {
		return nil, &memory.OpError{Package: "memredis", Op: "new", Scope: scope, Err: err}
	}
	return &Store{
		client: client, scope: scope, now: time.Now,
		key:      cmp.Or(o.Prefix, DefaultPrefix) + "{" + keyenc.Encode(scope) + "}",
		retryFor: cmp.Or(o.RetryFor, 10*time.Second),
	}, nil
}

// do runs an operation, and again while it fails in a way that passes.
func (s *Store) do(ctx context.Context, op, path string, invalid error, f func() error) error {
	err := cmp.Or(invalid, ctx.Err())
	if err == nil {
		unsure := false
		err = redisutil.Retry(ctx, s.client, s.retryFor, passing, func() error {
			err := f()
			unsure = unsure || err != nil && !s.nothingDone(err)
			return err
		})
		err = readable(err)
		if err != nil && (!unsure || beforeChanges(err)) {
			err = memory.NothingDone(err)
		}
	}
	if err == nil {
		return nil
	}
	return &memory.OpError{Package: "memredis", Op: op, Scope: s.scope, Path: path, Err: err}
}

func passing(err error) bool {
	for _, final := range []error{
		memory.ErrNotFound, memory.ErrExists, memory.ErrNotDirectory, memory.ErrConflict, memory.ErrTooLarge, memory.ErrLimit, sessionstore.ErrCorrupt,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return redisutil.Passing(err)
}

// beforeChanges reports whether a script has ended before its first change, and
// has not found that an attempt before it made that: another format, or no
// memory left. A script that has written gets all memory it asks for.
func beforeChanges(err error) bool {
	return errors.Is(err, sessionstore.ErrCorrupt) || strings.Contains(err.Error(), "OOM command not allowed")
}

// nothingDone reports whether an attempt has surely changed nothing. Where the
// client repeats commands itself nobody knows what came of those before the last.
func (s *Store) nothingDone(err error) bool {
	if c, ok := s.client.(*redis.Client); !ok || c.Options().MaxRetries > 0 {
		return false
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	for _, prefix := range []string{"NOAUTH ", "WRONGPASS ", "LOADING ", "MASTERDOWN ", "BUSY ", "max number of clients"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// readable turns the errors of the scripts into those of the package.
func readable(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		if version, ok := strings.CutPrefix(reply.Error(), "FORMAT "); ok {
			return laterFormat(version)
		}
	}
	return err
}

func laterFormat(version string) error {
	return fmt.Errorf("%w: the memory has the format %q, this version knows %q", sessionstore.ErrCorrupt, version, formatVersion)
}

// answers are what the scripts say when they have done nothing.
var answers = map[string]error{
	"OK": nil, "NOTFOUND": memory.ErrNotFound, "EXISTS": memory.ErrExists, "NOTDIRECTORY": memory.ErrNotDirectory,
	"CONFLICT": memory.ErrConflict, "LIMIT": memory.ErrLimit,
}

// change runs a script that changes something.
func (s *Store) change(ctx context.Context, script *redis.Script, args ...any) error {
	answer, err := script.Run(ctx, s.client, []string{s.key, s.key + ":ops"}, args...).Text()
	if err != nil {
		return err
	}
	return answers[answer]
}

// info is what is known about a file.
type info struct {
	version string
	size    int64
	used    int64 // ms
}

func parseInfo(text string) (info, error) {
	var i info
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return i, fmt.Errorf("%w: info %q", sessionstore.ErrCorrupt, text)
	}
	var err1, err2 error
	i.version = fields[0]
	i.size, err1 = strconv.ParseInt(fields[1], 10, 64)
	i.used, err2 = strconv.ParseInt(fields[2], 10, 64)
	if err := cmp.Or(err1, err2); err != nil {
		return i, fmt.Errorf("%w: info %q: %w", sessionstore.ErrCorrupt, text, err)
	}
	return i, nil
}

// Read returns a file. One longer than max is read all the same.
func (s *Store) Read(ctx context.Context, path string, max int64) (f memory.File, err error) {
	err = s.do(ctx, "read", path, memory.CheckPath(path), func() error {
		f, err = s.read(ctx, path, max)
		return err
	})
	if err != nil {
		return memory.File{}, err
	}
	return f, nil
}

func (s *Store) read(ctx context.Context, path string, max int64) (f memory.File, err error) {
	got, err := s.client.HMGet(ctx, s.key, path, "i:"+path, "v").Result()
	if err != nil {
		return f, err
	}
	data, isFile := got[0].(string)
	text, isKnown := got[1].(string)
	if version, ok := got[2].(string); ok && version != formatVersion {
		return f, laterFormat(version)
	}
	switch {
	case !isFile && !isKnown:
		return f, memory.ErrNotFound
	case !isFile || !isKnown:
		return f, fmt.Errorf("%w: a part of the file is missing", sessionstore.ErrCorrupt)
	}
	i, err := parseInfo(text)
	switch {
	case err != nil:
		return f, err
	case i.size != int64(len(data)):
		return f, fmt.Errorf("%w: the file has %d bytes, not %d", sessionstore.ErrCorrupt, len(data), i.size)
	case max > 0 && i.size > max:
		return f, fmt.Errorf("%w: %d bytes, at most %d", memory.ErrTooLarge, i.size, max)
	}
	if now := s.now().UnixMilli(); now-i.used > memory.UseInterval.Milliseconds() {
		// That it was used is not worth failing for: the next read tries again.
		_ = touchScript.Run(ctx, s.client, []string{s.key}, path, i.version, now).Err()
	}
	return memory.File{Data: []byte(data), Version: i.version}, nil
}

// List returns the files at path or below it.
func (s *Store) List(ctx context.Context, path string) (list []memory.FileInfo, err error) {
	err = s.do(ctx, "list", path, memory.CheckPath(path), func() error {
		list, err = s.list(ctx, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *Store) list(ctx context.Context, path string) ([]memory.FileInfo, error) {
	got, err := listScript.Run(ctx, s.client, []string{s.key}, path).StringSlice()
	if err != nil {
		return nil, err
	}
	list := make([]memory.FileInfo, 0, len(got)/2)
	for row := range slices.Chunk(got, 2) {
		i, err := parseInfo(row[1])
		if err != nil {
			return nil, err
		}
		list = append(list, memory.FileInfo{Path: row[0], Size: i.size, Used: time.UnixMilli(i.used)})
	}
	slices.SortFunc(list, func(a, b memory.FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	version := rand.Text()
	return s.do(ctx, "write", path, memory.CheckWrite(path), func() error {
		return s.change(ctx, writeScript, path, data, ifVersion, version, s.now().UnixMilli(), max(limits.Files, 0), max(limits.Bytes, 0))
	})
}

// Delete removes a file, or a directory with all in it.
func (s *Store) Delete(ctx context.Context, path string) error {
	name := rand.Text()
	return s.do(ctx, "delete", path, memory.CheckDelete(path), func() error {
		return s.change(ctx, deleteScript, path, name)
	})
}

// Rename moves a file, or a directory with all in it.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	name := rand.Text()
	return s.do(ctx, "rename", from, memory.CheckRename(from, to), func() error {
		return s.change(ctx, renameScript, from, to, name)
	})
}

// Expire deletes the files that were last used before that time. When a reply
// has been lost the paths in it are missing from the result.
func (s *Store) Expire(ctx context.Context, before time.Time) (gone []string, err error) {
	err = s.do(ctx, "expire", "", nil, func() error {
		gone, err = expireScript.Run(ctx, s.client, []string{s.key}, before.UnixMilli()).StringSlice()
		return err
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}
