package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

var mainKey = sessionstore.Key{ProjectKey: "p", SessionID: "s"}

func subKey(subpath string) sessionstore.Key {
	return sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: subpath}
}

func entry(format string, args ...any) sessionstore.Entry {
	return sessionstore.Entry(fmt.Sprintf(format, args...))
}

// numbered returns n entries with uuids that begin with name.
func numbered(name string, n int) []sessionstore.Entry {
	entries := make([]sessionstore.Entry, n)
	for i := range entries {
		entries[i] = entry(`{"type":"user","uuid":"%s-%d"}`, name, i)
	}
	return entries
}

func texts(entries []sessionstore.Entry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = string(e)
	}
	return all
}

func requireLoad(t *testing.T, s sessionstore.SessionStore, key sessionstore.Key, want ...sessionstore.Entry) {
	t.Helper()
	got, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, texts(want), texts(got))
}

func TestEveryOperationIsOneRoundTrip(t *testing.T) {
	l := &link{}
	s := newStore(t, newPool(t, l.through(func(c *pgxpool.Config) { c.MaxConns = 1 })), nil)
	ctx := t.Context()
	fresh := 0
	do := map[string]func() error{
		"Append":         func() error { return s.Append(ctx, mainKey, numbered("a", 20)) },
		"Append repeats": func() error { return s.Append(ctx, mainKey, numbered("a", 20)) },
		"Append mixture": func() error {
			fresh += 20
			return s.Append(ctx, mainKey, numbered("a", fresh))
		},
		"Append to a new transcript": func() error { return s.Append(ctx, subKey("x"), numbered("a", 3)) },
		"Append 20,000":              func() error { return s.Append(ctx, subKey("y"), numbered("a", 20_000)) },
		"Load":                       func() error { _, err := s.Load(ctx, mainKey); return err },
		"Load of an unknown key":     func() error { _, err := s.Load(ctx, subKey("unknown")); return err },
		"ListSessions":               func() error { _, err := s.ListSessions(ctx, "p"); return err },
		"ListSessionSummaries":       func() error { _, err := s.ListSessionSummaries(ctx, "p"); return err },
		"ListProjects":               func() error { _, err := s.ListProjects(ctx); return err },
		"ListSubkeys":                func() error { _, err := s.ListSubkeys(ctx, "p", "s"); return err },
		"Delete":                     func() error { return s.Delete(ctx, mainKey) },
	}
	for name, f := range do { // the connection prepares each statement once
		require.NoError(t, f(), name)
	}
	for name, f := range do {
		var err error
		n := l.RoundTrips(func() { err = f() })
		require.NoError(t, err, name)
		require.Equal(t, 1, n, name)
	}
}

func TestManyHostsAppendFirstToAFreshDatabase(t *testing.T) {
	pool := newPool(t, nil)
	opts := &pgstore.Options{Schema: newSchema(t, pool)}
	const hosts = 50
	var wg sync.WaitGroup
	errs := make(chan error, hosts)
	for i := range hosts {
		wg.Go(func() {
			s, err := pgstore.New(pool, opts)
			if err == nil {
				err = s.Migrate(t.Context())
			}
			for _, key := range []sessionstore.Key{mainKey, subKey("a"), {ProjectKey: "p", SessionID: fmt.Sprint(i)}} {
				if err == nil {
					err = s.Append(t.Context(), key, numbered(fmt.Sprint(i), 3))
				}
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	s := newStore(t, pool, opts)
	sessions, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Len(t, sessions, hosts+1)
	for _, key := range []sessionstore.Key{mainKey, subKey("a")} {
		got, err := s.Load(t.Context(), key)
		require.NoError(t, err)
		require.Len(t, got, hosts*3)
		for i := 0; i < len(got); i += 3 {
			name := strings.TrimSuffix(got[i].UUID(), "-0")
			require.Equal(t, texts(numbered(name, 3)), texts(got[i:i+3]), "batches are whole")
		}
	}
}

func TestConnectionsInTurnKeepTheOrder(t *testing.T) {
	pool := newPool(t, relaxed)
	opts := &pgstore.Options{Schema: newSchema(t, pool)}
	newStore(t, pool, opts)
	var conns []*pgxpool.Conn
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		conns = append(conns, conn)
	}
	var want []sessionstore.Entry
	for i := range 50 {
		s, err := pgstore.New(conns[i%2].Conn(), opts)
		require.NoError(t, err)
		batch := numbered(fmt.Sprint(i), 2)
		require.NoError(t, s.Append(t.Context(), mainKey, batch))
		want = append(want, batch...)
		requireLoad(t, s, mainKey, want...)
	}
}

// A random history of batches, with repeats of the same uuid that say something
// else, always leaves the fold of what is stored.
func TestSummaryIsTheFoldOfWhatIsStored(t *testing.T) {
	s := newStore(t, newPool(t, relaxed), nil)
	r := rand.New(rand.NewPCG(3, 4))
	one := func(values ...string) string { return values[r.IntN(len(values))] }
	random := func() sessionstore.Entry {
		n := fmt.Sprint(r.IntN(100))
		text := func() string {
			return `{"type":"text","text":` + one(`"prompt `+n+`"`, `"<command-name>/c`+n+`</command-name>"`, `"<command-name></command-name>"`, `"<tick>"`, `"x\ud83d"`) + `}`
		}
		e := one(
			`{"type":"mode"`, `{"type":"tag","tag":"t`+n+`"`, `{"type":"tag","tag":""`, `{"type":"tag"`,
			`{"type":"custom-title","customTitle":"`+one("", `\u0000`, n)+`"`,
			`{"type":"ai-title","aiTitle":"a"`, `{"type":"summary","summary":"s","lastPrompt":"l\ud83d"`,
			`{"type":"user","message":{"content":[`+text()+`,`+text()+`]}`,
		)
		if r.IntN(2) == 0 {
			e += fmt.Sprintf(`,"uuid":"%d"`, r.IntN(40))
		}
		return sessionstore.Entry(e + one(``, `,"isSidechain":true`, `,"cwd":"/home"`, `,"gitBranch":"b"`, `,"timestamp":"2026-01-02T03:04:05Z"`) + `}`)
	}
	for session := range 40 {
		key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint(session)}
		for range 6 {
			batch := make([]sessionstore.Entry, 1+r.IntN(6))
			for i := range batch {
				batch[i] = random()
			}
			require.NoError(t, s.Append(t.Context(), key, batch))
			requireFold(t, s, key)
		}
	}
}

// In a batch with repeats only the entries that are added count.
func TestSummaryOfABatchWithRepeats(t *testing.T) {
	s := newStore(t, newPool(t, relaxed), nil)
	old := entry(`{"type":"mode","uuid":"old"}`)
	oldPrompt := entry(`{"type":"user","uuid":"old","cwd":"/x","isSidechain":true,"message":{"content":"dropped"}}`)
	prompt := entry(`{"type":"user","uuid":"p","message":{"content":"prompt"}}`)
	command := entry(`{"type":"user","uuid":"c","message":{"content":"<command-name>/c</command-name>"}}`)
	noCommand := entry(`{"type":"user","uuid":"n","message":{"content":"<command-name></command-name>"}}`)
	tagged, untagged := entry(`{"type":"tag","uuid":"t","tag":"t"}`), entry(`{"type":"tag","uuid":"u"}`)
	for i, batch := range [][]sessionstore.Entry{
		{old, prompt, command},
		{old, command, prompt},
		{oldPrompt, command},
		{oldPrompt, noCommand, command},
		{old, noCommand, prompt, command},
		{tagged, old, untagged},
		{untagged, tagged, old},
		{entry(`{"type":"tag","uuid":"old","tag":"dropped"}`), prompt},
	} {
		key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprint(i)}
		require.NoError(t, s.Append(t.Context(), key, []sessionstore.Entry{old}))
		require.NoError(t, s.Append(t.Context(), key, batch))
		requireFold(t, s, key)
	}
}

func requireFold(t *testing.T, s *pgstore.Store, key sessionstore.Key) {
	t.Helper()
	stored, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	want, err := sessionstore.FoldSummary(nil, stored)
	require.NoError(t, err)
	list, err := s.ListSessionSummaries(t.Context(), key.ProjectKey)
	require.NoError(t, err)
	for _, sum := range list {
		if sum.SessionID == key.SessionID {
			require.Equal(t, string(want), string(sum.Data), "%q", texts(stored))
			return
		}
	}
	require.Fail(t, "no summary")
}

func TestRepeatsAloneDoNotMoveTheTime(t *testing.T) {
	s := newStore(t, newPool(t, relaxed), nil)
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3)))
	before, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	time.Sleep(5 * time.Millisecond)
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3)))
	after, err := s.ListSessions(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The deepest entry that is valid must fit the stack of the server's parser.
func TestDeepestEntries(t *testing.T) {
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, newPool(t, func(c *pgxpool.Config) { relaxed(c); c.ConnConfig.DefaultQueryExecMode = mode }), nil)
			deep := []sessionstore.Entry{
				entry(`{"a":%s%s}`, strings.Repeat("[", 9999), strings.Repeat("]", 9999)),
				entry(`%s1%s`, strings.Repeat(`{"a":`, 10_000), strings.Repeat("}", 10_000)),
			}
			require.NoError(t, s.Append(t.Context(), mainKey, deep))
			requireLoad(t, s, mainKey, deep...)
		})
	}
}

// bigEntries are too long together for one statement.
func bigEntries() []sessionstore.Entry {
	var all []sessionstore.Entry
	for i := range 5 {
		all = append(all, entry(`{"uuid":"%d","type":"custom-title","customTitle":"%d","text":%q}`, i, i, strings.Repeat("0123456789abcdef", pgstore.MaxStatementBytes/3/16)))
	}
	return append(all, entry(`{"type":"mode"}`))
}

func TestLongBatchIsOneTransaction(t *testing.T) {
	l := &link{}
	pool := newPool(t, l.through(relaxed))
	s := newStore(t, pool, nil)
	batch := bigEntries()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			got, err := s.ListSessions(t.Context(), "p")
			if err != nil || len(got) > 0 {
				return
			}
		}
	}()
	require.NoError(t, s.Append(t.Context(), mainKey, batch))
	<-done
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Equal(t, len(batch), len(got))
	requireFold(t, s, mainKey)

	// The reply to COMMIT gets lost: the batch is there, and a retry adds nothing.
	l.Lose("COMMIT")
	more := []sessionstore.Entry{entry(`{"type":"mode"}`)}
	for _, e := range batch[:5] {
		more = append(more, sessionstore.Entry(strings.Replace(string(e), `"uuid":"`, `"uuid":"x`, 1)))
	}
	require.Error(t, s.Append(t.Context(), mainKey, more))
	got, err = s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Equal(t, len(batch)+len(more), len(got), "the reply to COMMIT was lost, not the batch")
	require.NoError(t, s.Append(t.Context(), mainKey, more))
	got, err = s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Equal(t, len(batch)+len(more), len(got))
}

func TestHalfABatchIsNotStored(t *testing.T) {
	l := &link{}
	pool := newPool(t, l.through(relaxed))
	s := newStore(t, pool, nil)
	require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 1)))
	// The first statement of the transaction has been answered, and then the
	// connection ends.
	l.Lose("SELECT")
	require.Error(t, s.Append(t.Context(), mainKey, bigEntries()))
	require.Equal(t, 1, l.lost)
	requireLoad(t, s, mainKey, numbered("a", 1)...)
}

func TestCancelledAppendsLeaveThePoolClean(t *testing.T) {
	pool := newPool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	s := newStore(t, pool, nil)
	batch := benchEntries(50)
	require.NoError(t, s.Append(t.Context(), subKey("warm"), batch))
	landed := 0
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		batch := []sessionstore.Entry{entry(`{"n":%d}`, i), entry(`{"n":%d}`, i)}
		if s.Append(ctx, mainKey, batch) == nil {
			landed++
		}
		cancel()
	}
	t.Logf("%d of 200 were not cancelled in time", landed)
	require.NoError(t, s.Append(t.Context(), mainKey, []sessionstore.Entry{entry(`{"n":-1}`)}))
	got, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	for i := 0; i < len(got)-1; i += 2 {
		require.Equal(t, got[i], got[i+1], "no half batch")
	}
	var stuck int
	const look = `SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND query LIKE '%' || $1 || '%'`
	require.NoError(t, newPool(t, nil).QueryRow(t.Context(), look, "sessionstore_").Scan(&stuck))
	require.Zero(t, stuck)
}

func TestTransactionOfTheCaller(t *testing.T) {
	pool := newPool(t, relaxed)
	schema := newSchema(t, pool)
	opts := &pgstore.Options{Schema: schema}
	outside := newStore(t, pool, opts)
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.Background())
		s, err := pgstore.New(tx, opts)
		require.NoError(t, err)
		require.NoError(t, s.Append(t.Context(), mainKey, numbered("a", 3)))
		require.NoError(t, s.Append(t.Context(), subKey("x"), bigEntries()), "a savepoint")
		require.ErrorIs(t, s.Append(t.Context(), mainKey, []sessionstore.Entry{nil}), sessionstore.ErrInvalidEntry)
		for range s.Stream(t.Context(), mainKey) {
			require.NoError(t, s.Append(t.Context(), mainKey, numbered("b", 2)))
		}
		requireLoad(t, s, mainKey, append(numbered("a", 3), numbered("b", 2)...)...)
		got, err := outside.Load(t.Context(), mainKey)
		require.NoError(t, err)
		require.Nil(t, got, "nobody else sees it yet")
		if !commit {
			require.NoError(t, tx.Rollback(t.Context()))
			got, err := outside.Load(t.Context(), mainKey)
			require.NoError(t, err)
			require.Nil(t, got)
			continue
		}
		require.NoError(t, tx.Commit(t.Context()))
		requireLoad(t, outside, mainKey, append(numbered("a", 3), numbered("b", 2)...)...)
	}
}

// Under a higher isolation level writers of one transcript fail each other's
// transactions; the store repeats them.
func TestConflictsAreRetried(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			s := newStore(t, newPool(t, func(c *pgxpool.Config) {
				relaxed(c)
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			}), nil)
			var wg sync.WaitGroup
			errs := make(chan error, 100)
			for w := range 5 {
				wg.Go(func() {
					for n := range 10 {
						errs <- s.Append(t.Context(), mainKey, numbered(fmt.Sprint(w, "-", n), 2))
					}
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			got, err := s.Load(t.Context(), mainKey)
			require.NoError(t, err)
			require.Len(t, got, 100)
			requireFold(t, s, mainKey)
		})
	}
}
