package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// MaxStatementBytes is how many bytes of entries one statement carries at
// most. A longer batch becomes several statements in one transaction; a longer
// entry is sent alone.
const MaxStatementBytes = 16 << 20

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
	// TablePrefix begins the name of every table and index. Empty means
	// [DefaultTablePrefix].
	TablePrefix string
}

// Store is a store in PostgreSQL. It is safe for concurrent use; on a single
// connection or transaction its operations wait for each other.
type Store struct {
	db       DB
	names    names
	sql      statements
	inTx     bool        // db is a transaction of the caller
	single   pgutil.Gate // not nil: one operation at a time
	checked  atomic.Bool // the version of the tables is known to be right
	attempts attempt.Tracker[sessionstore.Key, batchID]
}

// batchID is the identity of a batch, from which entries without uuid get
// theirs.
type batchID [16]byte

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
	_ sessionstore.SummaryLister = (*Store)(nil)
	_ sessionstore.ProjectLister = (*Store)(nil)
	_ sessionstore.SubkeyLister  = (*Store)(nil)
	_ sessionstore.OrphanLister  = (*Store)(nil)
	_ sessionstore.Deleter       = (*Store)(nil)
	_ sessionstore.Streamer      = (*Store)(nil)
	_ sessionstore.Purger        = (*Store)(nil)
)

// New returns a store on db. It does not talk to the server. The caller owns
// db, and keeps it open while the store is in use.
func New(db DB, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.TablePrefix = cmp.Or(o.TablePrefix, DefaultTablePrefix)
	n, err := newNames(o)
	if err == nil && db == nil {
		err = errors.New("the database is nil")
	}
	if err != nil {
		return nil, fmt.Errorf("pgstore: new: %w", err)
	}
	s := &Store{db: db, names: n, sql: newStatements(n)}
	_, s.inTx = db.(pgx.Tx)
	s.single = pgutil.NewGate(db)
	return s, nil
}

// Append adds a batch at the end of a transcript.
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	batch, err := sessionstore.Check(key, entries)
	if err = cmp.Or(err, ctx.Err()); err == nil && len(batch) > 0 {
		err = s.appendBatch(ctx, key, batch)
	}
	return s.wrap("append", key, err)
}

func (s *Store) appendBatch(ctx context.Context, key sessionstore.Key, batch []sessionstore.Checked) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	lines := make([][]byte, len(batch))
	for i, c := range batch {
		lines[i] = c.Line
	}
	a := s.attempts.Begin(ctx, key, lines)
	if !a.Repeated {
		rand.Read(a.State[:])
	}
	statements := s.split(key, batch, a.State)
	err = s.retry(ctx, func() error { return s.execAppend(ctx, statements) })
	switch {
	case err == nil:
		a.Stored()
	case pgutil.StoredNothing(err):
		a.NotStored()
	default:
		a.Unknown()
	}
	return err
}

// appendArgs are the arguments of one append statement.
type appendArgs struct {
	key     sessionstore.Key
	lock    int64
	ids     pgtype.FlatArray[pgtype.UUID]
	entries []string
	bytes   int
	summary contributions
}

func (a *appendArgs) list() []any {
	return []any{
		a.key.ProjectKey, a.key.SessionID, a.key.Subpath, a.lock, a.ids, a.entries,
		len(a.entries), a.bytes, a.summary.all, a.summary.from, a.summary.to, a.summary.field, a.summary.value,
	}
}

// split makes the statements for a batch, without the repeats inside it.
func (s *Store) split(key sessionstore.Key, batch []sessionstore.Checked, id batchID) []*appendArgs {
	var (
		all  []*appendArgs
		args *appendArgs
		seen idset.Set
	)
	for i := range batch {
		c := &batch[i]
		var dedupe idset.ID
		if len(c.UUID) == 0 {
			dedupe = id.entry(i)
		} else if dedupe = idset.Of(c.UUID); !seen.Add(dedupe) {
			continue
		}
		if args == nil || args.bytes+len(c.Line) > MaxStatementBytes {
			args = &appendArgs{
				key: key, lock: s.sessionLock(key), summary: newContributions(),
				ids: make([]pgtype.UUID, 0, len(batch)-i), entries: make([]string, 0, len(batch)-i),
			}
			all = append(all, args)
		}
		args.ids = append(args.ids, pgtype.UUID{Bytes: dedupe, Valid: true})
		args.entries = append(args.entries, text(c.Line))
		args.bytes += len(c.Line)
		if key.Subpath == "" {
			args.summary.add(len(args.entries), c)
		}
	}
	return all
}

// text is a line as a string, without a copy: nobody changes the entries before
// Append returns, and nothing keeps them longer.
func text(line sessionstore.Entry) string { return unsafe.String(unsafe.SliceData(line), len(line)) }

// entry is the identity of the i-th entry of the batch, if it has no uuid.
func (id batchID) entry(i int) idset.ID {
	return idset.Of(binary.BigEndian.AppendUint64(id[:], uint64(i)))
}

func (s *Store) execAppend(ctx context.Context, all []*appendArgs) error {
	if len(all) == 1 {
		return s.execStatement(ctx, s.db, all[0])
	}
	return inTx(ctx, s.db, func(tx pgx.Tx) error {
		for _, args := range all {
			if err := s.execStatement(ctx, tx, args); err != nil {
				return err
			}
		}
		return nil
	})
}

// execStatement runs the append statement. It has done nothing when another
// writer has created the transcript since it began; the next try sees it.
func (s *Store) execStatement(ctx context.Context, db DB, args *appendArgs) error {
	for {
		var found bool
		if err := db.QueryRow(ctx, s.sql.append, args.list()...).Scan(&found); err != nil || found {
			return err
		}
	}
}

// inTx runs f in a transaction, or in a savepoint of the caller's.
func inTx(ctx context.Context, db DB, f func(tx pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	return pgutil.Finish(ctx, tx, func() error { return f(tx) })
}

// Delete removes a session, or one subpath transcript of it.
func (s *Store) Delete(ctx context.Context, key sessionstore.Key) error {
	err := cmp.Or(key.Validate(), ctx.Err())
	if err == nil {
		err = s.do(ctx, func() error { return s.deleteKey(ctx, key) })
	}
	return s.wrap("delete", key, err)
}

// deleteKey sends all statements at once: they are one transaction and one
// round trip. Every append holds the lock of its session, so those under way
// are over when it is granted. The statements behind have snapshots of their
// own, which see all that was committed by then; an append that waits for the
// lock comes wholly afterwards.
func (s *Store) deleteKey(ctx context.Context, key sessionstore.Key) error {
	args := []any{key.ProjectKey, key.SessionID, key.Subpath}
	var b pgx.Batch
	b.Queue(s.sql.lockSession, s.sessionLock(key))
	b.Queue(s.sql.deleteEntries, args...)
	b.Queue(s.sql.deleteTranscripts, args...)
	return s.db.SendBatch(ctx, &b).Close()
}

// ListSessions lists the sessions of a project that have a main transcript, in
// one query.
func (s *Store) ListSessions(ctx context.Context, projectKey string) ([]sessionstore.SessionInfo, error) {
	var list []sessionstore.SessionInfo
	err := s.list(ctx, sessionstore.ValidateProjectKey(projectKey), s.sql.listSessions, []any{projectKey}, func(rows pgx.Rows) error {
		var info sessionstore.SessionInfo
		err := rows.Scan(&info.SessionID, &info.Mtime)
		list = append(list, info)
		return err
	}, func() { list = nil })
	return list, s.wrap("list sessions", sessionstore.Key{ProjectKey: projectKey}, err)
}

// ListSessionSummaries lists the summaries of the sessions that ListSessions
// lists, in one query.
func (s *Store) ListSessionSummaries(ctx context.Context, projectKey string) ([]sessionstore.SessionSummary, error) {
	var list []sessionstore.SessionSummary
	err := s.list(ctx, sessionstore.ValidateProjectKey(projectKey), s.sql.listSummaries, []any{projectKey}, func(rows pgx.Rows) error {
		values := rows.RawValues() // scanning many columns of many rows is slow
		mtime, err := strconv.ParseInt(string(values[0]), 10, 64)
		list = append(list, sessionstore.SessionSummary{
			SessionID: string(values[1]), Mtime: mtime, Data: summaryJSON(values[2:]),
		})
		return err
	}, func() { list = nil })
	return list, s.wrap("list session summaries", sessionstore.Key{ProjectKey: projectKey}, err)
}

// ListProjects lists the project keys that hold anything. Its cost grows with
// the number of projects, not of transcripts.
func (s *Store) ListProjects(ctx context.Context) ([]string, error) {
	list, err := s.listStrings(ctx, nil, s.sql.listProjects)
	return list, s.wrap("list projects", sessionstore.Key{}, err)
}

// ListSubkeys lists the subpaths of a session.
func (s *Store) ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error) {
	key := sessionstore.Key{ProjectKey: projectKey, SessionID: sessionID}
	list, err := s.listStrings(ctx, key.Validate(), s.sql.listSubkeys, projectKey, sessionID)
	return list, s.wrap("list subkeys", key, err)
}

// ListOrphans lists the sessions of a project that have no main transcript.
func (s *Store) ListOrphans(ctx context.Context, projectKey string) ([]string, error) {
	project := sessionstore.Key{ProjectKey: projectKey}
	list, err := s.listStrings(ctx, sessionstore.ValidateProjectKey(projectKey), s.sql.listOrphans, projectKey)
	return list, s.wrap("list orphans", project, err)
}

func (s *Store) listStrings(ctx context.Context, invalid error, sql string, args ...any) ([]string, error) {
	var list []string
	err := s.list(ctx, invalid, sql, args, func(rows pgx.Rows) error {
		list = append(list, string(rows.RawValues()[0]))
		return nil
	}, func() { list = nil })
	return list, err
}

// list runs a query and calls each for its rows; restart, before each try.
func (s *Store) list(ctx context.Context, invalid error, sql string, args []any, each func(pgx.Rows) error, restart func()) error {
	if err := cmp.Or(invalid, ctx.Err()); err != nil {
		return err
	}
	err := s.do(ctx, func() error {
		restart()
		return queryEach(ctx, s.db, sql, args, each)
	})
	if err != nil {
		restart()
	}
	return err
}

func queryEach(ctx context.Context, db DB, sql string, args []any, each func(pgx.Rows) error) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sessionLock is the number of the advisory lock of a session. Two sessions
// with the same number only wait for each other.
func (s *Store) sessionLock(key sessionstore.Key) int64 {
	return pgutil.LockNumber(s.names.transcripts, key.ProjectKey, key.SessionID)
}

// wrap says which operation failed.
func (s *Store) wrap(op string, key sessionstore.Key, err error) error {
	if err == nil {
		return nil
	}
	return &sessionstore.OpError{Package: "pgstore", Op: op, Key: key, Err: s.explain(err)}
}
