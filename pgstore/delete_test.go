package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

// deletion is a test of Delete against an append that is still under way.
type deletion struct {
	pool  *pgxpool.Pool
	opts  *pgstore.Options
	store *pgstore.Store
}

func newDeletion(t *testing.T) deletion {
	t.Helper()
	pool := newPool(t, relaxed)
	opts := &pgstore.Options{Schema: newSchema(t, pool)}
	return deletion{pool, opts, newStore(t, pool, opts)}
}

// appendSlowly begins an append and returns what completes it.
func (d deletion) appendSlowly(t *testing.T, key sessionstore.Key, entries ...sessionstore.Entry) (commit func()) {
	t.Helper()
	tx, err := d.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	s, err := pgstore.New(tx, d.opts)
	require.NoError(t, err)
	require.NoError(t, s.Append(t.Context(), key, entries))
	return func() { require.NoError(t, tx.Commit(t.Context())) }
}

// async runs an operation and waits until it waits for a lock.
func (d deletion) async(t *testing.T, op func() error) (wait func()) {
	t.Helper()
	before := d.waiting(t)
	done := make(chan error, 1)
	go func() { done <- op() }()
	require.Eventually(t, func() bool { return d.waiting(t) > before }, 5*time.Second, time.Millisecond, "it waits for nobody")
	return func() { require.NoError(t, <-done) }
}

func (d deletion) waiting(t *testing.T) (n int) {
	t.Helper()
	const sql = `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query LIKE '%' || $1 || '%' OR NOT granted AND locktype = 'advisory'`
	require.NoError(t, d.pool.QueryRow(t.Context(), sql, d.opts.Schema).Scan(&n))
	return n
}

// requireNoOrphans looks for entries that no key leads to, and for transcripts
// that say something else than what is there.
func (d deletion) requireNoOrphans(t *testing.T) {
	t.Helper()
	var orphans, wrong int
	sql := fmt.Sprintf(`SELECT
		(SELECT count(*) FROM %[1]s.sessionstore_entries e WHERE NOT EXISTS (SELECT FROM %[1]s.sessionstore_transcripts t WHERE t.id = e.transcript)),
		(SELECT count(*) FROM %[1]s.sessionstore_transcripts t WHERE entries <> (SELECT count(*) FROM %[1]s.sessionstore_entries e WHERE t.id = e.transcript))`, d.opts.Schema)
	require.NoError(t, d.pool.QueryRow(t.Context(), sql).Scan(&orphans, &wrong))
	require.Zero(t, orphans, "entries without transcript")
	require.Zero(t, wrong, "transcripts with a wrong count")
}

func TestDeleteTakesAlongTheFirstAppendOfASubpath(t *testing.T) {
	d := newDeletion(t)
	require.NoError(t, d.store.Append(t.Context(), mainKey, numbered("a", 2)))
	commit := d.appendSlowly(t, subKey("x"), numbered("x", 2)...)
	wait := d.async(t, func() error { return d.store.Delete(t.Context(), mainKey) })
	commit()
	wait()
	subkeys, err := d.store.ListSubkeys(t.Context(), "p", "s")
	require.NoError(t, err)
	require.Empty(t, subkeys, "the append came before the deletion")
	d.requireNoOrphans(t)
}

func TestFirstAppendWaitsForADelete(t *testing.T) {
	d := newDeletion(t)
	require.NoError(t, d.store.Append(t.Context(), mainKey, numbered("a", 2)))
	commit := d.appendSlowly(t, mainKey, numbered("b", 2)...)
	waitDelete := d.async(t, func() error { return d.store.Delete(t.Context(), mainKey) })
	waitAppend := d.async(t, func() error { return d.store.Append(t.Context(), subKey("x"), numbered("x", 2)) })
	commit()
	waitDelete()
	waitAppend()
	got, err := d.store.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Nil(t, got)
	requireLoad(t, d.store, subKey("x"), numbered("x", 2)...)
	d.requireNoOrphans(t)
}

func TestDeleteTakesAlongWhatIsJustBeingAppended(t *testing.T) {
	d := newDeletion(t)
	for _, key := range []sessionstore.Key{mainKey, subKey("x")} {
		require.NoError(t, d.store.Append(t.Context(), key, numbered("a", 2)))
		commit := d.appendSlowly(t, key, numbered("b", 2)...)
		wait := d.async(t, func() error { return d.store.Delete(t.Context(), key) })
		commit()
		wait()
		got, err := d.store.Load(t.Context(), key)
		require.NoError(t, err)
		require.Nil(t, got)
		d.requireNoOrphans(t)
	}
}

func TestDeleteAndAppendAtOnce(t *testing.T) {
	d := newDeletion(t)
	var wg sync.WaitGroup
	errs := make(chan error, 10_000)
	for w, key := range []sessionstore.Key{mainKey, subKey("x"), subKey("y"), mainKey, subKey("x")} {
		wg.Go(func() {
			for n := range 150 {
				errs <- d.store.Append(t.Context(), key, numbered(fmt.Sprint(w, "-", n), 3))
			}
		})
	}
	for _, key := range []sessionstore.Key{mainKey, subKey("x"), mainKey} {
		wg.Go(func() {
			for range 100 {
				errs <- d.store.Delete(t.Context(), key)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	d.requireNoOrphans(t)
	require.NoError(t, d.store.Delete(t.Context(), mainKey))
	projects, err := d.store.ListProjects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
	d.requireNoOrphans(t)
}

func TestPurgeGoesOnWhereItWasCutShort(t *testing.T) {
	d := newDeletion(t)
	const sessions = 350
	for i := range sessions {
		key := sessionstore.Key{ProjectKey: fmt.Sprint("p", i%3), SessionID: fmt.Sprint(i)}
		require.NoError(t, d.store.Append(t.Context(), key, numbered("a", 2)))
		key.Subpath = "x"
		require.NoError(t, d.store.Append(t.Context(), key, numbered("a", 1)))
	}
	limit := time.Now().Add(time.Hour)
	// Cut off while the third of its transactions is under way.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tracer := &countingTracer{after: 3, then: cancel}
	s, err := pgstore.New(newPool(t, func(c *pgxpool.Config) { relaxed(c); c.ConnConfig.Tracer = tracer }), d.opts)
	require.NoError(t, err)
	first, err := s.Purge(ctx, limit)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, sessionstore.PurgeReport{Sessions: 300, Transcripts: 600}, first, "what was under way is completed and counts")
	d.requireNoOrphans(t)

	second, err := d.store.Purge(t.Context(), limit)
	require.NoError(t, err)
	var left int
	require.NoError(t, d.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+d.opts.Schema+".sessionstore_transcripts").Scan(&left))
	require.Zero(t, left)
	require.Equal(t, sessionstore.PurgeReport{Sessions: 50, Transcripts: 100}, second)
	d.requireNoOrphans(t)
}

// A Purge that waits for a writer can be ended, and has deleted nothing then.
func TestPurgeEndsWhileItWaits(t *testing.T) {
	d := newDeletion(t)
	require.NoError(t, d.store.Append(t.Context(), mainKey, numbered("a", 2)))
	commit := d.appendSlowly(t, subKey("x"), numbered("x", 2)...)
	ctx, cancel := context.WithCancel(t.Context())
	var report sessionstore.PurgeReport
	wait := d.async(t, func() (err error) {
		if report, err = d.store.Purge(ctx, time.Now().Add(time.Hour)); errors.Is(err, context.Canceled) {
			return nil
		}
		return fmt.Errorf("not ended: %w", err)
	})
	cancel()
	wait()
	require.Zero(t, report)
	commit()
	requireLoad(t, d.store, mainKey, numbered("a", 2)...)
}

// countingTracer calls then when the batch number after is sent.
type countingTracer struct {
	after int
	then  func()
}

func (c *countingTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	if c.after--; c.after == 0 {
		c.then()
	}
	return ctx
}
func (c *countingTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *countingTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (c *countingTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *countingTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestPurgeSparesWhatIsWrittenMeanwhile(t *testing.T) {
	d := newDeletion(t)
	require.NoError(t, d.store.Append(t.Context(), mainKey, numbered("a", 2)))
	require.NoError(t, d.store.Append(t.Context(), subKey("x"), numbered("x", 2)))
	list, err := d.store.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	limit := time.UnixMilli(list[0].Mtime + 1)
	time.Sleep(3 * time.Millisecond)
	commit := d.appendSlowly(t, mainKey, numbered("b", 2)...)
	var report sessionstore.PurgeReport
	wait := d.async(t, func() (err error) { report, err = d.store.Purge(t.Context(), limit); return err })
	commit()
	wait()
	require.Equal(t, sessionstore.PurgeReport{}, report)
	requireLoad(t, d.store, mainKey, append(numbered("a", 2), numbered("b", 2)...)...)
	requireLoad(t, d.store, subKey("x"), numbered("x", 2)...)
}

func TestPurgesAtOnceShareTheWork(t *testing.T) {
	d := newDeletion(t)
	for i := range 300 {
		require.NoError(t, d.store.Append(t.Context(), sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint(i)}, numbered("a", 1)))
	}
	var wg sync.WaitGroup
	reports, errs := make([]sessionstore.PurgeReport, 4), make([]error, 4)
	for i := range reports {
		wg.Go(func() { reports[i], errs[i] = d.store.Purge(t.Context(), time.Now().Add(time.Hour)) })
	}
	wg.Wait()
	total := 0
	for i := range reports {
		require.NoError(t, errs[i])
		total += reports[i].Sessions
	}
	require.Equal(t, 300, total, "each session counts once")
	d.requireNoOrphans(t)
}
