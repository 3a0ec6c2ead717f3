package mems3

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/s3fake"
	"github.com/sessionstore/sessionstore/memory"
)

func TestAFileThatIsUsedWhileExpireRunsStays(t *testing.T) {
	var old atomic.Bool
	old.Store(true)
	server := newFake(t, &s3fake.Options{Clock: func() time.Time {
		if old.Load() {
			return time.Now().Add(-5 * time.Hour)
		}
		return time.Now()
	}})
	a, b := fakeStore(t, server, "a"), fakeStore(t, server, "b")
	ctx := t.Context()
	for _, p := range []string{"0", "1", "2", "3"} {
		require.NoError(t, a.Write(ctx, "/memories/"+p, []byte("x"), "", memory.Limits{}))
	}
	require.NoError(t, b.probe(ctx))
	old.Store(false)
	edit := func(path, text string) {
		f, err := b.Read(ctx, path, 0)
		if assert.NoError(t, err) {
			assert.NoError(t, b.Write(ctx, path, []byte(text), f.Version, memory.Limits{}))
		}
	}
	server.Once(func(r s3fake.Request) bool { return r.Account == "a" && r.Op == "DeleteObject" }, s3fake.Fault{Before: func() {
		_, err := b.Read(ctx, "/memories/0", 0) // the one that is being deleted
		assert.NoError(t, err)
		_, err = b.Read(ctx, "/memories/2", 0)
		assert.NoError(t, err)
		edit("/memories/1", "y")
		edit("/memories/1", "x") // the same bytes and etag again
	}})
	gone, err := a.Expire(ctx, time.Now().Add(-2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, []string{"/memories/3"}, gone)
	require.Equal(t, map[string]string{"0": "x", "1": "x", "2": "x"}, contents(t, b))
}
