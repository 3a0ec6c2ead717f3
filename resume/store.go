package resume

import (
	"context"
	"iter"

	"github.com/sessionstore/sessionstore"
)

// Store returns the store to give to the mirror of this agent. Usually that is
// the given one. An agent can name a directory after a project key of at most
// 64 letters, digits, '-' and '_', or after the directory that it runs in; for
// any other key this store files under it what the agent has filed elsewhere.
func (s *Session) Store(store sessionstore.SessionStore) sessionstore.SessionStore {
	if !s.Private || s.plan.dirName == s.plan.projectKey {
		return store
	}
	return renamed{store: store, from: s.plan.dirName, to: s.plan.projectKey}
}

// renamed is a store in which one project has another name.
type renamed struct {
	store    sessionstore.SessionStore
	from, to string
}

func (r renamed) key(key sessionstore.Key) sessionstore.Key {
	if key.ProjectKey == r.from {
		key.ProjectKey = r.to
	}
	return key
}

func (r renamed) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	return r.store.Append(ctx, r.key(key), entries)
}

func (r renamed) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	return r.store.Load(ctx, r.key(key))
}

func (r renamed) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return sessionstore.Stream(ctx, r.store, r.key(key))
}
