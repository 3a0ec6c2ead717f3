package redisstore

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// between stands between a store and its client. It sees every pipeline.
type between func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error

func (between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (f between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return f(ctx, cmds, next) }
}

// isPiece says whether a pipeline carries a piece of a staged batch.
func isPiece(cmds []redis.Cmder) bool {
	for _, c := range cmds {
		if c.Name() == "rpush" {
			return strings.Contains(fmt.Sprint(c.Args()[1]), ":stage/")
		}
	}
	return false
}

// isAppend says whether a pipeline is the script that stores a staged batch.
func isAppend(cmds []redis.Cmder) bool {
	return len(cmds) == 1 && cmds[0].Args()[1] == carryScript
}

// timedOut is how the client says that no answer has come in time.
func timedOut(cmds []redis.Cmder) error {
	for _, c := range cmds {
		c.SetErr(os.ErrDeadlineExceeded)
	}
	return os.ErrDeadlineExceeded
}

// copyOf returns commands that do the same once more.
func copyOf(cmds []redis.Cmder) []redis.Cmder {
	var again []redis.Cmder
	for _, c := range cmds {
		if c.Name() == "multi" {
			again = append(again, redis.NewStatusCmd(context.Background(), c.Args()...))
		} else if c.Name() == "exec" {
			again = append(again, redis.NewSliceCmd(context.Background(), c.Args()...))
		} else {
			again = append(again, redis.NewCmd(context.Background(), c.Args()...))
		}
	}
	return again
}

// staged is a batch of four pieces, half of it without uuid unless all are to
// have one.
func staged(uuids bool) []sessionstore.Entry {
	var batch []sessionstore.Entry
	for n := range 3500 {
		if uuids || n%2 == 0 {
			batch = append(batch, user(fmt.Sprint(n)))
		} else {
			batch = append(batch, bare(fmt.Sprint(n)))
		}
	}
	return batch
}

func openStaged(t *testing.T, f between, b backend, o Options) *Store {
	s := b.open(t, o, nil)
	s.stageAbove = 100
	s.client.(interface{ AddHook(redis.Hook) }).AddHook(f)
	return s
}

func TestLatePiecesOfEarlierAttemptsChangeNothing(t *testing.T) {
	var late [][]redis.Cmder
	n := 0
	s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if !isPiece(cmds) {
			return next(ctx, cmds)
		}
		if n++; n <= 3 || n == 5 {
			late = append(late, copyOf(cmds))
			if n > 1 {
				return timedOut(cmds)
			}
		}
		for i := range late {
			if err := next(ctx, copyOf(late[len(late)-1-i])); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}, single(t), Options{})
	appendTo(t, s, mainKey, staged(true)...)
	appendTo(t, s, at("p", "s", "a"), staged(false)...)
	requireLoad(t, s, mainKey, staged(true)...)
	requireLoad(t, s, at("p", "s", "a"), staged(false)...)
}

func TestTransactionsThatAreSentTwiceCountOnce(t *testing.T) {
	for what, above := range map[string]int{"Pushed": 1 << 30, "Staged": 100} {
		t.Run(what, func(t *testing.T) {
			s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
				if err := next(ctx, copyOf(cmds)); err != nil {
					return err
				}
				return next(ctx, cmds)
			}, single(t), Options{RetryFor: -1})
			s.stageAbove = above
			appendTo(t, s, mainKey, bare("1"), bare("1"))
			appendTo(t, s, mainKey, staged(false)...)
			appendTo(t, s, at("p", "s", "a"), staged(true)...)
			requireLoad(t, s, mainKey, append([]sessionstore.Entry{bare("1"), bare("1")}, staged(false)...)...)
			requireLoad(t, s, at("p", "s", "a"), staged(true)...)
		})
	}
}

// The script that moves a very large batch may need longer than the client
// waits for it.
func TestStagedBatchWhoseAnswerIsLostIsSentOnce(t *testing.T) {
	onBackends(t, func(t *testing.T, b backend) {
		for _, uuids := range []bool{false, true} {
			pieces, lost := 0, 0
			s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
				err := next(ctx, cmds)
				if isPiece(cmds) {
					pieces++
				} else if err == nil && isAppend(cmds) {
					if lost++; lost <= 2 {
						return timedOut(cmds)
					}
				}
				return err
			}, b, Options{})
			appendTo(t, s, mainKey, bare("before"))
			pieces, lost = 0, 0
			appendTo(t, s, mainKey, staged(uuids)...)
			require.NotZero(t, lost)
			require.Equal(t, 4, pieces)
			requireLoad(t, s, mainKey, append([]sessionstore.Entry{bare("before")}, staged(uuids)...)...)
			require.NotContains(t, fmt.Sprint(b.keys(t, s.prefix)), ":stage/")
		}
	})
}

func TestRepeatedStagedBatchIsAskedForFirst(t *testing.T) {
	pieces, lose := 0, false
	s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		err := next(ctx, cmds)
		if isPiece(cmds) {
			pieces++
		} else if lose && isAppend(cmds) {
			return timedOut(cmds)
		}
		return err
	}, single(t), Options{RetryFor: -1})
	lose = true
	require.Error(t, s.Append(t.Context(), mainKey, staged(false)))
	lose = false
	appendTo(t, s, mainKey, staged(false)...)
	require.Equal(t, 4, pieces)
	requireLoad(t, s, mainKey, staged(false)...)
}

func TestFailedStagedBatchLeavesNoPieces(t *testing.T) {
	b := single(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if isPiece(cmds) {
			if n++; n == 3 {
				cancel()
			}
		}
		return next(ctx, cmds)
	}, b, Options{})
	require.ErrorIs(t, s.Append(ctx, mainKey, staged(false)), context.Canceled)
	require.Empty(t, b.keys(t, s.prefix))
	appendTo(t, s, mainKey, staged(false)...)
	requireLoad(t, s, mainKey, staged(false)...)
}

func TestPiecesOutliveASlowBatch(t *testing.T) {
	n := 0
	s := openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		if isPiece(cmds) {
			n++
			time.Sleep(500 * time.Millisecond)
		}
		return next(ctx, cmds)
	}, single(t), Options{})
	s.stageTTL = time.Second
	appendTo(t, s, mainKey, staged(false)...)
	require.Equal(t, 4, n)
	requireLoad(t, s, mainKey, staged(false)...)
}

func TestPiecesThatAreLostAreSentAgain(t *testing.T) {
	var s *Store
	n := 0
	s = openStaged(t, func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		err := next(ctx, cmds)
		if isPiece(cmds) {
			if n++; n == 4 {
				name := cmds[1].Args()[1]
				require.NoError(t, s.client.Del(context.Background(), fmt.Sprint(name)).Err())
			}
		}
		return err
	}, single(t), Options{})
	appendTo(t, s, mainKey, staged(false)...)
	require.Equal(t, 8, n)
	requireLoad(t, s, mainKey, staged(false)...)
}
