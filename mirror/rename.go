package mirror

import "github.com/sessionstore/sessionstore"

// Renamer is a store that keeps transcripts under other keys than the agent's
// directories say, such as that of resume.Session.Store. [New] and [Watch] ask
// it for the key of each transcript, and from then on know the transcript by
// that one: in calls of the store, in errors and reports, and in the files of
// Options.Spill, which can then be delivered to the store behind it.
type Renamer interface {
	sessionstore.SessionStore
	// StoreKey returns the key under which the store keeps what the agent has
	// filed under the given one. It returns its own results unchanged.
	StoreKey(key sessionstore.Key) sessionstore.Key
}

func storeKey(store sessionstore.SessionStore, key sessionstore.Key) sessionstore.Key {
	if r, ok := store.(Renamer); ok {
		return r.StoreKey(key)
	}
	return key
}
