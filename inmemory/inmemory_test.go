package inmemory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func batchOf(texts ...string) []sessionstore.Entry {
	var es []sessionstore.Entry
	for _, s := range texts {
		es = append(es, sessionstore.Entry(s))
	}
	return es
}

func TestLostReplyOfASessionDeletedMeanwhileStoresTheRetry(t *testing.T) {
	s := New()
	k := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	lost := errors.New("lost reply")
	s.AfterAppend = func(context.Context, sessionstore.Key) error { return lost }
	require.ErrorIs(t, s.Append(ctx, k, batchOf(`{"a":1}`)), lost)
	require.ErrorIs(t, s.Append(ctx, k, batchOf(`{"a":1}`)), lost)
	require.NoError(t, s.Delete(ctx, k))
	s.AfterAppend = nil
	require.NoError(t, s.Append(ctx, k, batchOf(`{"a":1}`)))
	got, err := s.Load(ctx, k)
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestTimeNeverGoesBack(t *testing.T) {
	now := time.UnixMilli(5000)
	s := New()
	s.now = func() time.Time { return now }
	k := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	require.NoError(t, s.Append(ctx, k, batchOf(`{"a":1}`)))
	now = time.UnixMilli(1000)
	require.NoError(t, s.Append(ctx, k, batchOf(`{"a":2}`)))
	list, err := s.ListSessions(ctx, "p")
	require.NoError(t, err)
	require.Equal(t, []sessionstore.SessionInfo{{SessionID: "s", Mtime: 5000}}, list)
}

func TestErrorsSayPackageOperationKeyAndCause(t *testing.T) {
	s := New()
	k := sessionstore.Key{ProjectKey: "p", SessionID: "s", Subpath: "subagents/agent-1"}
	err := s.Append(ctx, k, batchOf(`{"a":1}`, `[]`))
	require.EqualError(t, err, "inmemory: append p/s#subagents/agent-1: entry 2 of 2: invalid entry: not a JSON object at byte 0")
	var op *sessionstore.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, k, op.Key)
}
