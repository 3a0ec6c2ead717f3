package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

// The floor of an append is one multi-row INSERT, of a load one SELECT in the
// order of the primary key, both on a table with the storage options of the
// entries but without identities.
const floorTable = `
CREATE TABLE %[1]s (transcript bigint NOT NULL, position bigint NOT NULL, entry json NOT NULL, PRIMARY KEY (transcript, position))
WITH (toast_tuple_target = 4080);
ALTER TABLE %[1]s ALTER COLUMN entry SET COMPRESSION lz4`

// benchEntries returns entries of about 2 kB of words, which compress as prose
// does, with uuids of their own.
func benchEntries(n int) []sessionstore.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", r.Uint64N(1<<(8+r.UintN(24))))
	}
	entries := make([]sessionstore.Entry, n)
	for i := range entries {
		var text strings.Builder
		for text.Len() < 1780 {
			text.WriteString(words[r.IntN(len(words))] + " ")
		}
		entries[i] = sessionstore.Entry(fmt.Sprintf(`{"parentUuid":%q,"isSidechain":false,"cwd":"/home/user/project","gitBranch":"main","type":"assistant",`+
			`"timestamp":"2026-02-03T04:05:06.789Z","uuid":"%032x","message":{"role":"assistant","content":%q}}`, "x", i, text.String()))
	}
	return entries
}

// renumber gives every entry of a batch a new uuid.
func renumber(batch []sessionstore.Entry, n int) {
	for i, e := range batch {
		at := strings.Index(string(e[:300]), `"uuid":"`) + len(`"uuid":"`)
		copy(e[at:], fmt.Sprintf("%016x%016x", n, i))
	}
}

func totalBytes(entries []sessionstore.Entry) (n int64) {
	for _, e := range entries {
		n += int64(len(e))
	}
	return n
}

func BenchmarkAppend(b *testing.B) {
	batch := benchEntries(20)
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	b.Run("20x2KB/op", func(b *testing.B) {
		pool := newPool(b, nil)
		s := newStore(b, pool, nil)
		b.SetBytes(totalBytes(batch))
		for n := 0; b.Loop(); n++ {
			renumber(batch, n)
			require.NoError(b, s.Append(b.Context(), key, batch))
		}
	})
	b.Run("20x2KB/floor", func(b *testing.B) {
		pool := newPool(b, nil)
		table := newFloorTable(b, pool)
		sql := floorInsert(table, len(batch))
		args := make([]any, 0, 3*len(batch))
		b.SetBytes(totalBytes(batch))
		for n := 0; b.Loop(); n++ {
			renumber(batch, n)
			args = args[:0]
			for i, e := range batch {
				args = append(args, int64(1), int64(n*len(batch)+i), string(e))
			}
			_, err := pool.Exec(b.Context(), sql, args...)
			require.NoError(b, err)
		}
	})
}

func newFloorTable(tb testing.TB, pool *pgxpool.Pool) string {
	tb.Helper()
	table := newSchema(tb, pool) + ".floor"
	_, err := pool.Exec(tb.Context(), fmt.Sprintf(floorTable, table))
	require.NoError(tb, err)
	return table
}

func floorInsert(table string, rows int) string {
	var sql strings.Builder
	sql.WriteString("INSERT INTO " + table + " (transcript, position, entry) VALUES ")
	for i := range rows {
		if i > 0 {
			sql.WriteString(", ")
		}
		fmt.Fprintf(&sql, "($%d, $%d, $%d)", 3*i+1, 3*i+2, 3*i+3)
	}
	return sql.String()
}

func BenchmarkLoad(b *testing.B) {
	const n = 5000
	entries := benchEntries(n)
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	b.Run("5000x2KB/op", func(b *testing.B) {
		s := newStore(b, newPool(b, nil), nil)
		for i := 0; i < n; i += 20 {
			require.NoError(b, s.Append(b.Context(), key, entries[i:i+20]))
		}
		b.SetBytes(totalBytes(entries))
		for b.Loop() {
			got, err := s.Load(b.Context(), key)
			require.NoError(b, err)
			require.Len(b, got, n)
		}
	})
	b.Run("5000x2KB/floor", func(b *testing.B) {
		pool := newPool(b, nil)
		table := newFloorTable(b, pool)
		for i := 0; i < n; i += 20 {
			var args []any
			for j, e := range entries[i : i+20] {
				args = append(args, int64(1), int64(i+j), string(e))
			}
			_, err := pool.Exec(b.Context(), floorInsert(table, 20), args...)
			require.NoError(b, err)
		}
		b.SetBytes(totalBytes(entries))
		for b.Loop() {
			floorLoad(b, pool, table, n)
		}
	})
}

func floorLoad(b *testing.B, pool *pgxpool.Pool, table string, n int) {
	rows, err := pool.Query(b.Context(), "SELECT entry FROM "+table+" WHERE transcript = $1 ORDER BY position", int64(1))
	require.NoError(b, err)
	got := make([][]byte, 0, n)
	for rows.Next() {
		var e []byte
		require.NoError(b, rows.Scan(&e))
		got = append(got, e)
	}
	require.NoError(b, rows.Err())
	require.Len(b, got, n)
}

func BenchmarkSummaries(b *testing.B) {
	s := newStore(b, newPool(b, relaxed), nil)
	const sessions = 10_000
	fillSessions(b, s, sessions)
	b.Run("10000/op", func(b *testing.B) {
		for b.Loop() {
			list, err := s.ListSessionSummaries(b.Context(), "p")
			require.NoError(b, err)
			require.Len(b, list, sessions)
		}
	})
}

func fillSessions(tb testing.TB, s *pgstore.Store, sessions int) {
	tb.Helper()
	for i := range sessions {
		key := sessionstore.Key{ProjectKey: "p", SessionID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}
		require.NoError(tb, s.Append(tb.Context(), key, []sessionstore.Entry{
			sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"u","timestamp":"2026-02-03T04:05:06.789Z","cwd":"/home/user/project","gitBranch":"main","message":{"role":"user","content":"Please look at %d"}}`, i)),
			sessionstore.Entry(fmt.Sprintf(`{"type":"custom-title","customTitle":"The title of session %d"}`, i)),
		}))
	}
}
