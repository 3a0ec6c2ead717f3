package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/pgutil"
)

// One transaction of Purge deletes at most so many sessions, and entries unless
// a session has more.
const (
	purgeSessions = 100
	purgeEntries  = 50_000
)

// purgeTimeout bounds the deletions of one transaction, which the context of the
// caller does not end.
const purgeTimeout = 5 * time.Minute

// Purge removes the sessions last written before olderThan, in transactions of
// bounded size. Each counts in the report once it has been committed. When the
// context ends, the transaction that is deleting is completed first, so that
// the report is exact; the next call goes on. Only a connection that is lost in
// a commit, or a transaction of more than five minutes, can be missing from it.
//
// On a [pgx.Tx] the server keeps a lock for each session until you commit.
// Thousands exceed its max_locks_per_transaction (SQLSTATE 53200), so purge
// many sessions through a pool.
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	var err error
	limit, after := olderThan.UnixMilli(), int64(0)
	for more := true; more && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		err = s.do(ctx, func() error {
			batch, err := s.purgeable(ctx, limit, after)
			if more = err != nil || len(batch.ids) > 0; err != nil || !more {
				return err
			}
			deleted, err := s.purge(ctx, batch, limit)
			if err != nil {
				return err
			}
			after = batch.ids[len(batch.ids)-1]
			report.Sessions += deleted.Sessions
			report.Transcripts += deleted.Transcripts
			return nil
		})
	}
	return report, s.wrap("purge", sessionstore.Key{}, err)
}

// purgeBatch names sessions by the rows of their main transcripts.
type purgeBatch struct {
	ids   []int64
	locks []int64 // in ascending order, so that two purges can't block each other
}

// purgeable finds the next sessions that look old enough.
func (s *Store) purgeable(ctx context.Context, limit, after int64) (purgeBatch, error) {
	var b purgeBatch
	total := int64(0)
	err := queryEach(ctx, s.db, s.sql.purgeable, []any{limit, after, purgeSessions}, func(rows pgx.Rows) error {
		var id, entries int64
		var key sessionstore.Key
		if err := rows.Scan(&id, &key.ProjectKey, &key.SessionID, &entries); err != nil {
			return err
		}
		if total += entries; total <= purgeEntries || len(b.ids) == 0 {
			b.ids = append(b.ids, id)
			b.locks = append(b.locks, s.sessionLock(key))
		}
		return nil
	})
	slices.Sort(b.locks)
	return b, err
}

// purge deletes sessions as Delete does. Those that have been written to
// meanwhile stay. The context may end it while it waits for a connection or for
// the locks; then nothing has been deleted.
func (s *Store) purge(ctx context.Context, b purgeBatch, limit int64) (sessionstore.PurgeReport, error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return sessionstore.PurgeReport{}, err
	}
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), purgeTimeout)
	defer cancel()
	var deleted sessionstore.PurgeReport
	err = pgutil.Finish(lasting, tx, func() (err error) {
		if _, err = tx.Exec(ctx, s.sql.lockSessions, b.locks); err == nil {
			deleted, err = s.purgeLocked(lasting, tx, b, limit)
		}
		return err
	})
	if err != nil {
		return sessionstore.PurgeReport{}, err
	}
	return deleted, nil
}

func (s *Store) purgeLocked(ctx context.Context, tx pgx.Tx, b purgeBatch, limit int64) (sessionstore.PurgeReport, error) {
	var deleted sessionstore.PurgeReport
	var batch pgx.Batch
	batch.Queue(s.sql.purgeEntries, b.ids, limit)
	batch.Queue(s.sql.purge, b.ids, limit).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var main bool
			if err := rows.Scan(&main); err != nil {
				return err
			}
			if deleted.Transcripts++; main {
				deleted.Sessions++
			}
		}
		return rows.Err()
	})
	return deleted, tx.SendBatch(ctx, &batch).Close()
}
