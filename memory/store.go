package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
)

// Store keeps the files of one scope. All methods are safe for concurrent use.
//
// Paths are those of the tool: [Root], or below it. Every method refuses a path
// for which [CheckPath] has an error, with that error, and fails with the error
// of its context, having changed nothing, if the context is done before it
// begins. Names are bytes: two that differ in letter case, in Unicode normal
// form or in a final dot or space are two files. A store that cannot tell them
// apart refuses the second one.
//
// Only files are kept. A directory is there while a file is below it, and the
// root is always there. A path is never a file and a directory at once.
//
// A store is made for one scope, and an empty scope is an error; see
// [CheckScope]. Stores of different scopes share nothing.
//
// The sentences here are the contract. Package memorytest holds a test for each
// of them and quotes it when a store breaks it.
type Store interface {
	// List returns the files at path or below it, sorted by path. A path where
	// nothing is gives an empty list. What cannot be read does not hide the
	// rest.
	List(ctx context.Context, path string) ([]FileInfo, error)

	// Read returns a file, byte for byte as it was written. There is none:
	// ErrNotFound, for a directory too. It is longer than max bytes:
	// ErrTooLarge; a max of 0 is no limit. Reading counts as use. An outage is
	// never ErrNotFound.
	Read(ctx context.Context, path string, max int64) (File, error)

	// Write stores a file whole, or fails and leaves what was there.
	//
	// An empty ifVersion creates it. Anything at the path, a directory too, is
	// ErrExists; a file in the place of a parent directory is ErrNotDirectory.
	// Any other ifVersion replaces the file that Read has returned with that
	// version. If that is not what is there now, nothing is written and the
	// error is ErrConflict.
	//
	// A write that adds a file or bytes beyond the limits is ErrLimit and
	// changes nothing. One that adds neither is never refused for them.
	//
	// On a nil error the file is durable and every later Read returns it. The
	// store copies data.
	Write(ctx context.Context, path string, data []byte, ifVersion string, limits Limits) error

	// Delete removes a file, or a directory with all in it. Nothing there is
	// ErrNotFound. The root itself is ErrInvalidPath.
	Delete(ctx context.Context, path string) error

	// Rename moves a file, or a directory with all in it. Nothing at from is
	// ErrNotFound, anything at to is ErrExists, a file in the place of a parent
	// of to is ErrNotDirectory; what [CheckRename] refuses is ErrInvalidPath.
	// Each of them leaves everything as it was.
	Rename(ctx context.Context, from, to string) error
}

// Expirer is implemented by stores that can delete files by the time of their
// last use. Use [Expire] to call it. All stores of this module have it.
type Expirer interface {
	// Expire deletes the files that were last used before that time, and
	// returns their paths. A file used meanwhile stays. When it fails it
	// returns what it had deleted by then.
	Expire(ctx context.Context, before time.Time) ([]string, error)
}

// UseInterval is how coarsely stores note that a file has been read: a read
// notes the time only if the time noted before is older than this. So the last
// use of a file is known to within the interval, and hardly any read writes.
const UseInterval = time.Hour

// File is what [Store.Read] returns.
type File struct {
	Data []byte // the caller's own
	// Version stands for these bytes in this place until the next write. It is
	// never empty.
	Version string
}

// FileInfo is one row of [Store.List].
type FileInfo struct {
	Path string
	Size int64
	// Used is when the file was last written, or read if that was later by
	// more than [UseInterval].
	Used time.Time
}

// Limits bound what a scope may hold. Zero is no limit.
type Limits struct {
	Files int
	Bytes int64
}

// Check returns [ErrLimit] if adding files and bytes to what there is exceeds
// the limits. Stores that know their totals call it.
func (l Limits) Check(files int, bytes int64, addFiles int, addBytes int64) error {
	if addFiles > 0 && l.Files > 0 && files+addFiles > l.Files {
		return fmt.Errorf("%w: %d files, at most %d", ErrLimit, files+addFiles, l.Files)
	}
	if addBytes > 0 && l.Bytes > 0 && bytes+addBytes > l.Bytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrLimit, bytes+addBytes, l.Bytes)
	}
	return nil
}

// The errors that stores wrap. Every other failure wraps the error of the
// backend.
var (
	ErrInvalidPath  = errors.New("invalid path")
	ErrNotFound     = errors.New("no such file or directory in memory")
	ErrExists       = errors.New("file or directory exists in memory")
	ErrNotDirectory = errors.New("a file is in the place of a parent directory")
	ErrConflict     = errors.New("the file has changed meanwhile")
	ErrTooLarge     = errors.New("the file is too large")
	ErrLimit        = errors.New("the limits of the memory are exceeded")
)

// OpError is what the stores of this module return: which package and operation
// failed, in which scope, on which path, and why.
type OpError struct {
	Package string // such as "memdir"
	Op      string // such as "write"
	Scope   string
	Path    string // as far as the operation has one
	Err     error
}

func (e *OpError) Error() string {
	key := sessionstore.Key{ProjectKey: e.Scope}.String()
	if e.Path != "" {
		key += "#" + quotePath(e.Path)
	}
	return e.Package + ": " + e.Op + " " + key + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// NothingDone marks the error of an operation that has surely changed nothing.
// The tool tells the model so. Stores use it for failures of their backends: the
// errors that this package names need no mark.
func NothingDone(err error) error {
	if err == nil {
		return nil
	}
	return &undone{err}
}

type undone struct{ error }

func (e *undone) Unwrap() error { return e.error }
func (e *undone) NothingDone()  {}

// CheckScope reports whether every store can hold the scope: any text in UTF-8
// that is not empty, has no NUL and at most [sessionstore.MaxSegmentLen] bytes
// after escaping. The error wraps [sessionstore.ErrInvalidKey].
func CheckScope(scope string) error {
	if scope == "" {
		return fmt.Errorf("%w: the scope is empty; name the tenant, user or project that the memory belongs to", sessionstore.ErrInvalidKey)
	}
	if err := sessionstore.ValidateProjectKey(scope); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	return nil
}

// Expire deletes the files that were not used for that long, if the store can,
// and returns their paths. The error wraps [errors.ErrUnsupported] if it can't.
func Expire(ctx context.Context, s Store, unusedFor time.Duration) ([]string, error) {
	if unusedFor < UseInterval {
		return nil, fmt.Errorf("memory: expire: %v is less than %v, which is how exactly use is known", unusedFor, UseInterval)
	}
	if e, ok := s.(Expirer); ok {
		return e.Expire(ctx, time.Now().Add(-unusedFor))
	}
	return nil, fmt.Errorf("memory: expire: %w", errors.ErrUnsupported)
}

// Parents returns the directories above a path, without the root, from the top.
func Parents(path string) []string {
	var all []string
	for i := len(Root) + 1; i < len(path); i++ {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

// Below reports whether path lies in the directory dir, at any depth.
func Below(path, dir string) bool {
	return len(path) > len(dir) && strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
