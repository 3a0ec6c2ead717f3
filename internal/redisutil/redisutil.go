// Package redisutil is the care for a Redis client that the stores on Redis
// share: which clients they take, what they try again, and how they send
// scripts.
package redisutil

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// CheckClient refuses a client that a store cannot be used with.
func CheckClient(client redis.UniversalClient) error {
	none := client == nil
	switch c := client.(type) {
	case *redis.Client:
		none = c == nil
	case *redis.Ring:
		none = c == nil
	case *redis.ClusterClient:
		if none = c == nil; none {
			break
		}
		// A replica may not have yet what has been stored.
		if opts := c.Options(); opts.ReadOnly || opts.RouteByLatency || opts.RouteRandomly {
			return errors.New("the client reads from replicas; ReadOnly, RouteByLatency and RouteRandomly must be off")
		}
	}
	if none {
		return errors.New("the client is nil")
	}
	return nil
}

// Cause returns why a pipeline has failed. The answer to EXEC only says that
// there was an error before; that of the command says which.
func Cause(cmds []redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		if e := cmd.Err(); e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
			return e
		}
	}
	return err
}

const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Retry calls f until it succeeds, fails in a way that does not pass, or the
// limit is over. It bridges the seconds in which a replica takes over, which
// are longer than the client's own retries.
func Retry(ctx context.Context, client redis.UniversalClient, limit time.Duration, passing func(error) bool, f func() error) error {
	end := time.Now().Add(limit)
	pause := firstPause
	for {
		err := f()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		// The cluster client keeps its map of the slots for a minute otherwise.
		if c, ok := client.(interface{ ReloadState(context.Context) }); ok {
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

// passingReplies start error replies that a later attempt may not get.
var passingReplies = []string{
	"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "READONLY ", "MASTERDOWN ", "NOREPLICAS ",
	"EXECABORT ", "UNBLOCKED ", "ERR max number of clients",
}

// Passing reports whether an error may pass by itself: everything that is not
// an answer of the server, and some answers. More are the beginnings of further
// ones.
func Passing(err error, more ...string) bool {
	var reply redis.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrClosed):
		return false
	case errors.As(err, &reply):
		for _, list := range [][]string{passingReplies, more} {
			for _, prefix := range list {
				if strings.HasPrefix(reply.Error(), prefix) {
					return !OutOfMemory(err)
				}
			}
		}
		return false
	}
	return true
}

// OutOfMemory reports whether the server has refused to write because its
// memory is full.
func OutOfMemory(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "OOM ")
}

// Minify takes comments and blanks out of a script: the server hashes the text
// of a script at every call. No string in the script may have "--" or one of
// these pairs.
func Minify(source string) string {
	blanks := strings.NewReplacer(" = ", "=", " == ", "==", " ~= ", "~=", " + ", "+", " - ", "-", " * ", "*",
		" .. ", "..", ", ", ",", "{ ", "{", " }", "}", " < ", "<", " > ", ">")
	var b strings.Builder
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(blanks.Replace(line))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
