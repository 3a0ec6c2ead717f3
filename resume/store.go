package resume

import (
	"context"
	"iter"

	"github.com/sessionstore/sessionstore"
)

// Store returns the store to give to the mirror of this agent. Usually that is
// the given one. An agent can name a directory after a project key of at most
// 64 letters, digits, '-' and '_', or after the directory that it runs in; for
// any other key this store files under it what the agent has filed elsewhere,
// and mirrors name that key.
func (s *Session) Store(store sessionstore.SessionStore) sessionstore.SessionStore {
	if !s.Private {
		return store
	}
	return rename(store, s.plan.dirName, s.plan.projectKey)
}

func rename(store sessionstore.SessionStore, from, to string) sessionstore.SessionStore {
	if from == to {
		return store
	}
	return renamed{store: store, from: from, to: to}
}

// renamed is a store in which one project has another name. It is a
// mirror.Renamer.
type renamed struct {
	store    sessionstore.SessionStore
	from, to string
}

// StoreKey returns the key in the store for one that the agent uses.
func (r renamed) StoreKey(key sessionstore.Key) sessionstore.Key {
	if key.ProjectKey == r.from {
		key.ProjectKey = r.to
	}
	return key
}

func (r renamed) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	return r.store.Append(ctx, r.StoreKey(key), entries)
}

func (r renamed) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	return r.store.Load(ctx, r.StoreKey(key))
}

func (r renamed) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return sessionstore.Stream(ctx, r.store, r.StoreKey(key))
}
