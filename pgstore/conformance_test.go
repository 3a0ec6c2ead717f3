package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/pgstore"
)

var execModes = map[string]pgx.QueryExecMode{
	"CacheStatement": pgx.QueryExecModeCacheStatement,
	"CacheDescribe":  pgx.QueryExecModeCacheDescribe,
	"DescribeExec":   pgx.QueryExecModeDescribeExec,
	"Exec":           pgx.QueryExecModeExec,
	"SimpleProtocol": pgx.QueryExecModeSimpleProtocol,
}

// TestConformance runs the whole suite in the default mode and its heavy cases
// scaled down in the others.
func TestConformance(t *testing.T) {
	for name, mode := range execModes {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeSimpleProtocol {
				t.Skip("between the two extremes")
			}
			o := newOpeners(t, testenv.Postgres(t), mode)
			h := o.harness()
			h.Short = mode != pgx.QueryExecModeCacheStatement
			conformance.Run(t, h)
		})
	}
}

// TestConformanceThroughPgbouncer runs the suite through a pooler that gives a
// connection to another client after each transaction, in the modes that fit.
func TestConformanceThroughPgbouncer(t *testing.T) {
	for _, name := range []string{"CacheDescribe", "Exec", "SimpleProtocol"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "Exec" {
				t.Skip("one mode will do")
			}
			o := newOpeners(t, testenv.PgBouncer(t), execModes[name])
			o.pooler = true
			h := o.harness()
			h.Short = true
			conformance.Run(t, h)
		})
	}
}

// TestConformanceOnOneConnection runs the suite on a single connection.
func TestConformanceOnOneConnection(t *testing.T) {
	o := newOpeners(t, testenv.Postgres(t), pgx.QueryExecModeCacheStatement)
	conformance.Run(t, conformance.Harness{
		Short: true, Require: conformance.All | conformance.CommitOrder, CommitOrder: true,
		Open: func(tb testing.TB) sessionstore.SessionStore {
			opts := &pgstore.Options{Schema: o.schema(tb)}
			newStore(tb, o.admin, opts)
			conn, err := o.admin.Acquire(context.Background())
			require.NoError(tb, err)
			tb.Cleanup(conn.Release)
			s, err := pgstore.New(conn.Conn(), opts)
			require.NoError(tb, err)
			return s
		},
	})
}

// openers makes the stores of one run of the suite. Each is on a pool of its
// own, over a link of its own.
type openers struct {
	tb     testing.TB
	admin  *pgxpool.Pool // not over a link that may be cut
	url    string
	mode   pgx.QueryExecMode
	pooler bool
	opened sync.Map // *pgstore.Store to opened
	free   []string // schemas whose tables are there and empty
}

func newOpeners(tb testing.TB, url string, mode pgx.QueryExecMode) *openers {
	return &openers{tb: tb, admin: newPool(tb, relaxed), url: url, mode: mode}
}

type opened struct {
	link   *link
	schema string
}

func (o *openers) harness() conformance.Harness {
	reopen := func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore {
		return o.open(tb, o.get(s).schema)
	}
	return conformance.Harness{
		Open: func(tb testing.TB) sessionstore.SessionStore { return o.open(tb, "") },
		// The clock of the host is never looked at.
		Reopen: reopen,
		ReopenBehind: func(tb testing.TB, s sessionstore.SessionStore, _ time.Duration) sessionstore.SessionStore {
			return reopen(tb, s)
		},
		LoseReply: func(_ testing.TB, s sessionstore.SessionStore) { o.get(s).link.Lose("SELECT") },
		Outage:    func(_ testing.TB, s sessionstore.SessionStore) { o.get(s).link.Cut() },
		Damage:    o.damage,
		Require: conformance.All | conformance.Handover | conformance.HandoverBehind | conformance.LostReply |
			conformance.Outage | conformance.Damage | conformance.CommitOrder,
		CommitOrder: true,
	}
}

func (o *openers) get(s sessionstore.SessionStore) opened {
	v, _ := o.opened.Load(s)
	return v.(opened)
}

// open returns a store in a schema, or in a new one.
func (o *openers) open(tb testing.TB, schema string) sessionstore.SessionStore {
	l := &link{}
	if schema == "" {
		schema = o.schema(tb)
	}
	pool := newPoolAt(tb, o.url, l.through(func(config *pgxpool.Config) {
		if !o.pooler { // it takes no settings for one of its clients
			relaxed(config)
		}
		config.ConnConfig.DefaultQueryExecMode = o.mode
	}))
	s := newStore(tb, pool, &pgstore.Options{Schema: schema})
	o.opened.Store(sessionstore.SessionStore(s), opened{l, schema})
	tb.Cleanup(func() { o.opened.Delete(sessionstore.SessionStore(s)) })
	return s
}

// schema returns a schema without data, and sees to it that the next case can
// have it: making tables takes longer than most cases.
func (o *openers) schema(tb testing.TB) string {
	if len(o.free) == 0 {
		o.free = append(o.free, newSchema(o.tb, o.admin))
	}
	name := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	tb.Cleanup(func() {
		_, err := o.admin.Exec(context.Background(), fmt.Sprintf(`DELETE FROM %[1]s.sessionstore_entries; DELETE FROM %[1]s.sessionstore_transcripts`, name))
		require.NoError(tb, err)
		o.free = append(o.free, name)
	})
	return name
}

func (o *openers) damage(tb testing.TB, s sessionstore.SessionStore, key sessionstore.Key) {
	tag, err := o.admin.Exec(context.Background(), `DELETE FROM `+o.get(s).schema+`.sessionstore_entries WHERE position = 3 AND transcript =
		(SELECT id FROM `+o.get(s).schema+`.sessionstore_transcripts WHERE project = $1 AND session = $2 AND subpath = $3)`,
		key.ProjectKey, key.SessionID, key.Subpath)
	require.NoError(tb, err)
	require.EqualValues(tb, 1, tag.RowsAffected())
}
