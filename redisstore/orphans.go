package redisstore

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
)

var _ sessionstore.OrphanLister = (*Store)(nil)

// ListOrphans lists the sessions of a project that have no main transcript. It
// finds them by the index of the project. A session of which it can't be told
// is in ListSessions.
func (s *Store) ListOrphans(ctx context.Context, projectKey string) ([]string, error) {
	list, err := s.orphans(ctx, projectKey)
	if err != nil {
		return nil, opError("list orphans", sessionstore.Key{ProjectKey: projectKey}, err)
	}
	return list, nil
}

func (s *Store) orphans(ctx context.Context, project string) (list []string, err error) {
	if err := begin(ctx, sessionstore.ValidateProjectKey(project)); err != nil {
		return nil, err
	}
	var ids []string
	err = s.retry(ctx, func() (err error) { ids, err = s.client.HKeys(ctx, s.sessionsKey(project)).Result(); return err })
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var fields []*redis.StringSliceCmd
	err = s.retry(ctx, func() error {
		pipe := s.client.Pipeline()
		fields = fields[:0]
		for _, id := range ids {
			fields = append(fields, pipe.HKeys(ctx, s.metaKey(project, id)))
		}
		return execAll(ctx, pipe)
	})
	if err != nil {
		return nil, err
	}
	var rest []string
	for i, id := range ids {
		if fields[i].Err() == nil && !slices.Contains(fields[i].Val(), mainField) {
			rest = append(rest, id)
		}
	}
	left, err := s.remains(ctx, project, rest)
	for i, id := range rest {
		if err == nil && left[i] == ofSubpaths {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list, err
}
