package mempg

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sessionstore/sessionstore/internal/testenv"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

func BenchmarkTool(b *testing.B) {
	pool := newPool(b, testenv.Postgres(b), pgx.QueryExecModeCacheStatement)
	s := open(b, pool, "scope", Options{Schema: newSchema(b, pool)})
	path := []byte(memorytest.BenchPath)
	memorytest.Bench(b, s, func() error {
		var data []byte
		return pool.QueryRow(b.Context(), "SELECT content FROM "+s.names.files+" WHERE scope = $1 AND path = $2", s.bytes, path).Scan(&data)
	}, func(data []byte) error {
		_, err := pool.Exec(b.Context(), "UPDATE "+s.names.files+" SET content = $3 WHERE scope = $1 AND path = $2", s.bytes, path, data)
		return err
	})
}
