package main

import (
	"context"
	"iter"
	"slices"

	"github.com/sessionstore/sessionstore"
)

// narrowed is a store of which package session sees only a part, so that it
// reads no more than a command shows. A nil list stands for what the store
// itself says.
type narrowed struct {
	sessionstore.SessionStore
	sessions  []sessionstore.SessionInfo
	summaries []sessionstore.SessionSummary
	subpaths  []string
}

// summaryReader reads single summaries, as a directory does.
type summaryReader interface {
	SessionSummary(ctx context.Context, key sessionstore.Key) (sessionstore.SessionSummary, bool, error)
}

// withSingleSummaries adds what only some stores can do.
func withSingleSummaries(n narrowed) sessionstore.SessionStore {
	if r, ok := n.SessionStore.(summaryReader); ok {
		return struct {
			narrowed
			summaryReader
		}{n, r}
	}
	return n
}

func (n narrowed) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	if n.sessions != nil {
		return slices.Clone(n.sessions), nil
	}
	return sessionstore.ListSessions(ctx, n.SessionStore, project)
}

func (n narrowed) ListSessionSummaries(ctx context.Context, project string) ([]sessionstore.SessionSummary, error) {
	if n.summaries != nil {
		return slices.Clone(n.summaries), nil
	}
	return sessionstore.ListSessionSummaries(ctx, n.SessionStore, project)
}

func (n narrowed) ListSubkeys(ctx context.Context, project, session string) ([]string, error) {
	if n.subpaths != nil {
		return slices.Clone(n.subpaths), nil
	}
	return sessionstore.ListSubkeys(ctx, n.SessionStore, project, session)
}

func (n narrowed) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return sessionstore.Stream(ctx, n.SessionStore, key)
}
