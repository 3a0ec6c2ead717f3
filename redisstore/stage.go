package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore/internal/redisutil"
)

const (
	// stageTTL is how long pieces of a batch stay that is never completed.
	stageTTL = 10 * time.Minute
	// stageRounds is how often a batch is sent when its pieces get lost.
	stageRounds = 3
	// dropLimit is how long Append takes care of the pieces after it has failed.
	dropLimit = time.Second
)

// stage is a batch that is sent ahead in pieces. Each piece has a key of its
// own, and what it holds follows from the name of the key: the identity of the
// batch and a number. So it does not matter how often a piece arrives, how late,
// and of which attempt.
type stage struct {
	name   string // what the names of the keys start with
	pieces int
	sent   int // how many may be there
}

func newStage(base string, id batchID, b *batch) stage {
	return stage{name: base + ":stage/" + hex.EncodeToString(id[:]), pieces: len(b.pushes(""))}
}

func (g stage) key(i int) string { return g.name + "/" + strconv.Itoa(i+1) }

// String is what the script takes; it is empty for a batch without pieces.
func (g stage) String() string {
	if g.pieces == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", g.pieces, g.name)
}

// storeStaged stores a very large batch: the pieces first, and then the script,
// which moves them. A batch that may be there already is asked for before
// anything is sent.
func (st *step) storeStaged(ctx context.Context, repeated bool) (err error) {
	defer func() {
		if err != nil {
			st.dropStage(ctx)
		}
	}()
	for round := 0; ; round++ {
		if round > 0 || !repeated {
			if err := st.sendAhead(ctx); err != nil {
				return err
			}
		}
		err := st.s.retry(ctx, func() error { return st.run(ctx) })
		if !redis.HasErrorPrefix(err, "STAGED") || round == stageRounds {
			return err
		}
	}
}

// sendAhead sends the pieces, which fit into the server's buffers and the
// client's time limits.
func (st *step) sendAhead(ctx context.Context) error {
	renewed := time.Now()
	for i, push := range st.batch.pushes("") {
		st.stage.sent = max(st.stage.sent, i+1)
		push[1] = st.stage.key(i)
		err := st.s.retry(ctx, func() error {
			pipe := st.s.client.TxPipeline()
			pipe.Unlink(ctx, st.stage.key(i))
			_ = pipe.Process(ctx, redis.NewIntCmd(ctx, push...))
			pipe.PExpire(ctx, st.stage.key(i), st.s.stageTTL)
			return redisutil.Cause(pipe.Exec(ctx))
		})
		if err != nil {
			return err
		}
		if time.Since(renewed) > st.s.stageTTL/4 {
			renewed = time.Now()
			if err := st.renewStage(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// renewStage keeps the first n pieces while the others are on their way.
func (st *step) renewStage(ctx context.Context, n int) error {
	return st.s.retry(ctx, func() error {
		pipe := st.s.client.Pipeline()
		for i := range n {
			pipe.PExpire(ctx, st.stage.key(i), st.s.stageTTL)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}

// dropStage removes the pieces of a batch that has failed, so that they don't
// take room until they expire. The context may be the reason of the failure.
func (st *step) dropStage(ctx context.Context) {
	if st.stage.sent == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
	defer cancel()
	pipe := st.s.client.Pipeline()
	for i := range st.stage.sent {
		pipe.Unlink(ctx, st.stage.key(i))
	}
	_, _ = pipe.Exec(ctx)
}
