package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/redisutil"
)

// Options of [New]. The zero value is fine.
type Options struct {
	// Prefix starts the name of every key, so that several stores can share a
	// server. It must not contain braces. The default is "sessionstore:".
	Prefix string

	// TTL is how long a session is kept after its last append; 0 keeps it for
	// good. An append to any transcript of the session renews all of it. All
	// keys of a session expire at the same instant, which is TTL to 1.125 TTL
	// after the last append. A store without TTL leaves an instant that others
	// have set as it is.
	TTL time.Duration

	// WaitReplicas makes Append wait until that many replicas have the batch
	// (WAIT), which costs a second round trip. 0 does not wait. If fewer have
	// confirmed in time, Append fails; the batch may be there, and appending
	// it again stores it once.
	WaitReplicas int
	// WaitTimeout limits that; the default is 1 s. It should be less than the
	// client's ReadTimeout.
	WaitTimeout time.Duration

	// RetryFor is how long an operation is repeated while the connection fails
	// or the server asks to come again, as during a failover. The default is
	// 10 s; a negative value leaves retries to the client.
	RetryFor time.Duration
}

// Store is a handle on the sessions in a Redis server or cluster. It is safe
// for concurrent use. Make one with [New].
type Store struct {
	client   redis.UniversalClient
	prefix   string
	ttl      time.Duration
	replicas int
	waitFor  time.Duration
	retryFor time.Duration
	// single says that one server holds all keys, so that a script can touch
	// a session and the indexes together.
	single bool
	// grace is how long an index entry without data is left alone. On a
	// cluster an append writes both at the same time, and either may be first.
	grace time.Duration
	// stageAbove is the size of a batch, in bytes, above which it is sent in
	// several transactions.
	stageAbove int
	stageTTL   time.Duration
	// windowBytes is about how much a read gets at a time.
	windowBytes int

	attempts  attempt.Tracker[sessionstore.Key, batchID]
	summaries summaryCache
}

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
	_ sessionstore.SummaryLister = (*Store)(nil)
	_ sessionstore.ProjectLister = (*Store)(nil)
	_ sessionstore.SubkeyLister  = (*Store)(nil)
	_ sessionstore.Deleter       = (*Store)(nil)
	_ sessionstore.Streamer      = (*Store)(nil)
	_ sessionstore.Purger        = (*Store)(nil)
)

// New returns a store on the server or cluster of client. The caller owns the
// client and closes it. A [redis.Client] must lead to one server, as one made
// with [redis.NewClient] or [redis.NewFailoverClient] does; any other client
// is treated as a cluster. Options may be nil. New sends nothing.
func New(client redis.UniversalClient, options *Options) (*Store, error) {
	o := Options{}
	if options != nil {
		o = *options
	}
	if err := o.check(client); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	_, single := client.(*redis.Client)
	s := &Store{
		client: client, single: single,
		prefix: cmp.Or(o.Prefix, "sessionstore:"), ttl: o.TTL,
		replicas: o.WaitReplicas, waitFor: cmp.Or(o.WaitTimeout, time.Second),
		retryFor:   cmp.Or(o.RetryFor, 10*time.Second),
		stageAbove: 64 << 20, stageTTL: stageTTL, windowBytes: 4 << 20,
	}
	if !single {
		s.grace = 5 * time.Minute
	}
	return s, nil
}

func (o Options) check(client redis.UniversalClient) error {
	if err := redisutil.CheckClient(client); err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("prefix %q contains a brace", o.Prefix)
	case o.TTL < 0 || o.TTL > 0 && o.TTL < 100*time.Millisecond:
		return fmt.Errorf("TTL %v is less than 100ms", o.TTL)
	case o.WaitReplicas < 0 || o.WaitTimeout < 0:
		return errors.New("WaitReplicas or WaitTimeout is negative")
	case o.WaitTimeout > 0 && o.WaitTimeout < time.Millisecond:
		return fmt.Errorf("WaitTimeout %v is less than 1ms", o.WaitTimeout) // WAIT would take it as for ever
	}
	return nil
}

// indexKeys are the further keys of a script on a single server.
func (s *Store) indexKeys(project string) []string {
	if s.single {
		return []string{s.sessionsKey(project), s.projectsKey()}
	}
	return nil
}

// begin is how every operation starts: an invalid key or a cancelled context
// ends it before anything is sent.
func begin(ctx context.Context, invalid error) error { return cmp.Or(invalid, ctx.Err()) }

func opError(op string, key sessionstore.Key, err error) error {
	return &sessionstore.OpError{Package: "redisstore", Op: op, Key: key, Err: readable(err)}
}

// corruptError says that stored data is not whole.
type corruptError struct{ what string }

func (e *corruptError) Error() string { return sessionstore.ErrCorrupt.Error() + ": " + e.what }
func (e *corruptError) Unwrap() error { return sessionstore.ErrCorrupt }

func corrupt(format string, args ...any) error { return &corruptError{fmt.Sprintf(format, args...)} }

func laterFormat(version string) error {
	return corrupt("the session has the format %q, this version knows %q", version, formatVersion)
}

// readable turns the errors of our scripts, and those that say that a key has
// another type, into those of the package.
func readable(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	code, text, _ := strings.Cut(reply.Error(), " ")
	switch {
	case code == "DAMAGED:":
		return corrupt("%s", text)
	case code == "FORMAT":
		return laterFormat(text)
	case strings.Contains(reply.Error(), "WRONGTYPE "):
		// A key of ours holds something that we have not written.
		text, _, _ := strings.Cut(reply.Error(), " script: ")
		return corrupt("%s", text)
	}
	return err
}
