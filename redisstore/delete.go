package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
)

// purgeBatch is how many sessions Purge deletes in one round trip.
const purgeBatch = 100

// Delete removes a session, or one subpath transcript of it. It works when the
// server's memory is full. Whether an append at the same time comes before or
// after, it does so as a whole.
func (s *Store) Delete(ctx context.Context, key sessionstore.Key) error {
	if err := begin(ctx, key.Validate()); err != nil {
		return opError("delete", key, err)
	}
	err := s.retry(ctx, func() error {
		_, err := s.delete(ctx, time.Time{}, key)
		return err
	})
	if err != nil {
		return opError("delete", key, err)
	}
	return nil
}

// deletion is the answer of the delete script.
type deletion struct {
	transcripts int
	empty       bool // nothing is left of the session
}

// delete deletes transcripts, or sessions where the subpath is empty; those
// only if they are older than limit, unless it is zero.
//
// On a cluster the index follows. An append writes the session and the index at
// the same time, so a fresh entry may belong to one that is still to come. It
// stays, and a list removes it later.
func (s *Store) delete(ctx context.Context, limit time.Time, keys ...sessionstore.Key) ([]deletion, error) {
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		s.summaries.drop(key)
		field, older := "", any("")
		if key.Subpath != "" {
			field = fieldOf(key)
		}
		if !limit.IsZero() {
			older = firstMilli(limit)
		}
		names := append([]string{s.metaKey(key.ProjectKey, key.SessionID)}, s.indexKeys(key.ProjectKey)...)
		cmds[i] = pipe.Eval(ctx, deleteScript, names, field, key.ProjectKey, key.SessionID, older)
	}
	_, err := pipe.Exec(ctx)
	deleted := make([]deletion, len(keys))
	index := s.client.Pipeline()
	for i, cmd := range cmds {
		if cmd.Err() != nil {
			continue
		}
		d, parseErr := parseDeletion(cmd)
		err = errors.Join(err, parseErr)
		if deleted[i] = d; d.empty && !s.single {
			index.Eval(ctx, forgetScript, []string{s.sessionsKey(keys[i].ProjectKey)}, s.grace.Milliseconds(), "", keys[i].SessionID, "")
		}
	}
	if index.Len() > 0 {
		// The session is gone whatever becomes of the index, which lists heal.
		_, _ = index.Exec(ctx)
	}
	return deleted, err
}

func parseDeletion(cmd *redis.Cmd) (deletion, error) {
	reply, err := cmd.Slice()
	if err != nil || len(reply) != 2 {
		return deletion{}, errors.Join(err, errors.New("unexpected answer of the delete script"))
	}
	n, _ := reply[0].(int64)
	empty, _ := reply[1].(int64)
	return deletion{int(n), empty == 1}, nil
}

// firstMilli is the first millisecond that is not before t. Sessions have whole
// milliseconds, limits need not.
func firstMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// Purge removes the sessions last written before olderThan. It finds them by
// the indexes; see [Store.Repair]. A session whose time can't be told, because
// it is damaged or of a later format, stays; Purge goes on, and names it in the
// error at the end.
func (s *Store) Purge(ctx context.Context, olderThan time.Time) (sessionstore.PurgeReport, error) {
	var report sessionstore.PurgeReport
	err := begin(ctx, nil)
	if err == nil {
		err = s.purge(ctx, olderThan, &report)
	}
	if err != nil {
		return report, opError("purge", sessionstore.Key{}, err)
	}
	return report, nil
}

func (s *Store) purge(ctx context.Context, olderThan time.Time, report *sessionstore.PurgeReport) error {
	projects, err := s.projects(ctx)
	if err != nil {
		return err
	}
	var damage []error
	for _, p := range projects {
		mains, err := s.mains(ctx, p, false)
		if errors.Is(err, sessionstore.ErrCorrupt) {
			damage = append(damage, fmt.Errorf("index of project %q: %w", p, err))
		} else if err != nil {
			return errors.Join(append(damage, err)...)
		}
		var old []sessionstore.Key
		for _, m := range mains {
			key := sessionstore.Key{ProjectKey: p, SessionID: m.id}
			if m.damage != nil {
				damage = append(damage, fmt.Errorf("session %s: %w", key, m.damage))
			} else if m.row.time < firstMilli(olderThan) {
				old = append(old, key)
			}
		}
		for len(old) > 0 {
			n := min(purgeBatch, len(old))
			if err := s.purgeSome(ctx, olderThan, old[:n], report); err != nil {
				return errors.Join(append(damage, err)...)
			}
			old = old[n:]
		}
	}
	return errors.Join(damage...)
}

func (s *Store) purgeSome(ctx context.Context, olderThan time.Time, keys []sessionstore.Key, report *sessionstore.PurgeReport) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		deleted, err := s.delete(ctx, olderThan, keys...)
		for _, d := range deleted {
			if d.transcripts > 0 {
				report.Sessions++
				report.Transcripts += d.transcripts
			}
		}
		return err
	})
}
