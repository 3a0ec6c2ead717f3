package mempg

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sessionstore/sessionstore/internal/pgutil"
	"github.com/sessionstore/sessionstore/memory"
)

// DB is what a [Store] needs of pgx. [*pgxpool.Pool], [*pgxpool.Conn],
// [*pgx.Conn] and [pgx.Tx] have it.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// DefaultTablePrefix begins the names of the tables unless
// [Options.TablePrefix] says something else.
const DefaultTablePrefix = "sessionstore_"

// Options are the options of [New]. The zero value and nil are fine.
type Options struct {
	// Schema holds the tables. Empty means the first schema of the
	// connection's search_path. Like TablePrefix it is taken as it is: letter
	// case counts, and any character is allowed.
	Schema string
	// TablePrefix begins the name of every table. Empty means
	// [DefaultTablePrefix]. It may be that of a session store.
	TablePrefix string
}

// Store holds the files of one scope. It is safe for concurrent use; on a
// single connection or transaction its operations wait for each other.
type Store struct {
	db      DB
	scope   string
	bytes   []byte // the scope as it is stored
	names   names
	sql     statements
	lock    int64
	inTx    bool
	single  pgutil.Gate
	checked atomic.Bool // the version of the tables is known to be right
	now     func() time.Time
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

// New returns a store of a scope on db. It does not talk to the server. The
// caller owns db, and keeps it open while the store is in use. An empty scope
// is an error.
func New(db DB, scope string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.TablePrefix = cmp.Or(o.TablePrefix, DefaultTablePrefix)
	s := &Store{db: db, scope: scope, bytes: []byte(scope), now: time.Now}
	n, err := newNames(o)
	err = cmp.Or(memory.CheckScope(scope), err)
	if err == nil && db == nil {
		err = errors.New("the database is nil")
	}
	if err != nil {
		return nil, s.wrap("new", "", err)
	}
	s.names, s.sql = n, newStatements(n)
	s.lock = pgutil.LockNumber(n.files, scope)
	_, s.inTx = db.(pgx.Tx)
	s.single = pgutil.NewGate(db)
	return s, nil
}

// do runs an operation: with the tables checked, alone on a single connection,
// and again after an error that time heals.
func (s *Store) do(ctx context.Context, op, path string, invalid error, f func() error) error {
	err := cmp.Or(invalid, ctx.Err())
	if err == nil {
		err = s.enter(ctx, f)
	}
	return s.wrap(op, path, err)
}

func (s *Store) enter(ctx context.Context, f func() error) error {
	leave, err := s.single.Enter(ctx)
	if err != nil {
		return memory.NothingDone(err)
	}
	defer leave()
	if !s.checked.Load() {
		if err := s.retry(ctx, func() error { return s.checkVersion(ctx) }); err != nil {
			return memory.NothingDone(err)
		}
		s.checked.Store(true)
	}
	err = s.retry(ctx, f)
	if err != nil && pgutil.StoredNothing(err) {
		err = memory.NothingDone(err)
	}
	return err
}

func (s *Store) retry(ctx context.Context, f func() error) error {
	return pgutil.Retry(ctx, s.inTx, pgutil.TriesFor, f)
}

func (s *Store) wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &memory.OpError{Package: "mempg", Op: op, Scope: s.scope, Path: path, Err: s.explain(err)}
}

// verdicts are what the statements say when they have changed nothing.
var verdicts = map[string]error{
	"OK": nil, "NOTFOUND": memory.ErrNotFound, "EXISTS": memory.ErrExists, "NOTDIRECTORY": memory.ErrNotDirectory,
	"CONFLICT": memory.ErrConflict, "LIMIT": memory.ErrLimit,
}

// change sends the lock of the scope and a statement at once: they are one
// transaction and one round trip. The statement has a snapshot of its own,
// which sees all that was committed before the lock was granted.
func (s *Store) change(ctx context.Context, sql string, args ...any) error {
	var verdict string
	err := s.locked(ctx, sql, args, func(rows pgx.Rows) error { return rows.Scan(&verdict) })
	if err != nil {
		return err
	}
	return verdicts[verdict]
}

// locked runs a statement under the lock, and calls each for its rows.
func (s *Store) locked(ctx context.Context, sql string, args []any, each func(pgx.Rows) error) (err error) {
	var b pgx.Batch
	b.Queue(pgutil.AdvisoryLock, s.lock)
	b.Queue(sql, args...)
	results := s.db.SendBatch(ctx, &b)
	defer func() { err = cmp.Or(err, results.Close()) }()
	if _, err := results.Exec(); err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	return eachRow(rows, each)
}

func eachRow(rows pgx.Rows, each func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Read returns a file.
func (s *Store) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	var f memory.File
	err := s.do(ctx, "read", path, memory.CheckPath(path), func() (err error) {
		f, err = s.read(ctx, path, max)
		return err
	})
	if err != nil {
		return memory.File{}, err
	}
	return f, nil
}

func (s *Store) read(ctx context.Context, path string, max int64) (f memory.File, err error) {
	var size int64
	var used time.Time
	err = s.db.QueryRow(ctx, s.sql.read, s.bytes, []byte(path), max).Scan(&f.Version, &used, &size, &f.Data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return f, memory.ErrNotFound
	case err != nil:
		return f, err
	case max > 0 && size > max:
		return f, fmt.Errorf("%w: %d bytes, at most %d", memory.ErrTooLarge, size, max)
	}
	if now := s.now(); now.Sub(used) > memory.UseInterval && !s.inTx {
		// That it was used is not worth failing for: the next read tries again.
		_, _ = s.db.Exec(ctx, s.sql.touch, s.bytes, []byte(path), f.Version, now)
	}
	return f, nil
}

// List returns the files at path or below it.
func (s *Store) List(ctx context.Context, path string) ([]memory.FileInfo, error) {
	var list []memory.FileInfo
	err := s.do(ctx, "list", path, memory.CheckPath(path), func() error {
		list = nil
		rows, err := s.db.Query(ctx, s.sql.list, s.bytes, []byte(path))
		if err != nil {
			return err
		}
		return eachRow(rows, func(rows pgx.Rows) error {
			var path []byte
			var f memory.FileInfo
			err := rows.Scan(&path, &f.Size, &f.Used)
			f.Path = string(path)
			list = append(list, f)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	if data == nil {
		data = []byte{} // not NULL
	}
	version := rand.Text()
	return s.do(ctx, "write", path, memory.CheckWrite(path), func() error {
		if ifVersion == "" {
			return s.change(ctx, s.sql.create, s.bytes, []byte(path), data, version, s.now(), limits.Files, limits.Bytes, above(path))
		}
		return s.change(ctx, s.sql.replace, s.bytes, []byte(path), data, version, s.now(), limits.Bytes, ifVersion)
	})
}

// above are the directories above a path as one text with a line feed around
// each, which no path contains.
func above(path string) []byte {
	return []byte("\n" + strings.Join(memory.Parents(path), "\n") + "\n")
}

// Delete removes a file, or a directory with all in it.
func (s *Store) Delete(ctx context.Context, path string) error {
	return s.do(ctx, "delete", path, memory.CheckDelete(path), func() error {
		return s.change(ctx, s.sql.delete, s.bytes, []byte(path))
	})
}

// Rename moves a file, or a directory with all in it.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	return s.do(ctx, "rename", from, memory.CheckRename(from, to), func() error {
		return s.change(ctx, s.sql.rename, s.bytes, []byte(from), []byte(to), above(to))
	})
}

// Expire deletes the files that were last used before that time.
func (s *Store) Expire(ctx context.Context, before time.Time) ([]string, error) {
	var gone []string
	err := s.do(ctx, "expire", "", nil, func() error {
		gone = nil
		return s.locked(ctx, s.sql.expire, []any{s.bytes, before}, func(rows pgx.Rows) error {
			var path []byte
			err := rows.Scan(&path)
			gone = append(gone, string(path))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}
