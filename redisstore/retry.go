package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// retry calls f until it succeeds, fails for good, or RetryFor is over. It
// bridges the seconds in which a replica takes over, which are longer than the
// client's own retries.
func (s *Store) retry(ctx context.Context, f func() error) error {
	end := time.Now().Add(s.retryFor)
	pause := firstPause
	for {
		err := f()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		// The cluster client keeps its map of the slots for a minute otherwise.
		if c, ok := s.client.(interface{ ReloadState(context.Context) }); ok {
			c.ReloadState(ctx)
		}
		wait := pause/2 + rand.N(pause)
		if time.Now().Add(wait).After(end) {
			return err
		}
		pause = min(2*pause, maxPause)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// passingReplies start error replies that a later attempt may not get. EXPIRED
// and STAGED are those of our own script.
var passingReplies = []string{
	"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "READONLY ", "MASTERDOWN ", "NOREPLICAS ",
	"EXECABORT ", "UNBLOCKED ", "EXPIRED ", "STAGED ", "ERR max number of clients",
}

// passing reports whether an error may pass by itself: everything that is not
// an answer of the server, and some answers.
func passing(err error) bool {
	var reply redis.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrClosed):
		return false
	case errors.Is(err, errAgain):
		return true
	case errors.As(err, &reply):
		for _, prefix := range passingReplies {
			if strings.HasPrefix(reply.Error(), prefix) {
				return !strings.Contains(reply.Error(), "OOM ")
			}
		}
		return false
	}
	var wrong *corruptError
	return !errors.As(err, &wrong)
}

// errAgain wraps what the store itself has found and may pass.
var errAgain = errors.New("not yet")
