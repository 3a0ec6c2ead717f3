package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore"
)

// One transaction of Purge deletes at most so many sessions, and entries unless
// a session has more.
const (
	purgeSessions = 100
	purgeEntries  = 50_000
)

// Purge removes the sessions last written before olderThan, in transactions of
// bounded size. Each counts in the report once it has been committed; a call
// that is cut short has lost nothing, and the next one goes on.
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	err := ctx.Err()
	limit, after := olderThan.UnixMilli(), int64(0)
	for more := true; more && err == nil; {
		err = s.do(ctx, func() error {
			batch, err := s.purgeable(ctx, limit, after)
			if err != nil || len(batch.ids) == 0 {
				more = false
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
// meanwhile stay.
func (s *Store) purge(ctx context.Context, b purgeBatch, limit int64) (sessionstore.PurgeReport, error) {
	var deleted sessionstore.PurgeReport
	var batch pgx.Batch
	batch.Queue(s.sql.lockSessions, b.locks)
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
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return sessionstore.PurgeReport{}, err
	}
	return deleted, nil
}
