package main

import (
	"context"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

const asMirroredHelp = `A backup is kept either by "import" or by "watch", which stores what a host's
mirror would: neither requests (types api-request…) nor journals of workflows.
With --as-mirrored these are left out here too, in both stores.`

func asMirroredFlag(cmd *cobra.Command, p *bool) {
	cmd.Flags().BoolVar(p, "as-mirrored", false, "leave out what agents never mirror")
}

// asMirrored is a store without what agents never mirror. What is appended to
// it is stored as it is.
type asMirrored struct{ sessionstore.SessionStore }

func (m asMirrored) ListProjects(ctx context.Context) ([]string, error) {
	return sessionstore.ListProjects(ctx, m.SessionStore)
}

func (m asMirrored) ListSessions(ctx context.Context, project string) ([]sessionstore.SessionInfo, error) {
	return sessionstore.ListSessions(ctx, m.SessionStore, project)
}

func (m asMirrored) ListOrphans(ctx context.Context, project string) ([]string, error) {
	return sessionstore.ListOrphans(ctx, m.SessionStore, project)
}

func (m asMirrored) ListSubkeys(ctx context.Context, project, session string) ([]string, error) {
	list, err := sessionstore.ListSubkeys(ctx, m.SessionStore, project, session)
	return slices.DeleteFunc(slices.Clone(list), func(sub string) bool {
		return mirror.NeverMirrored(sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: sub}, nil)
	}), err
}

func (m asMirrored) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	list, err := m.SessionStore.Load(ctx, key)
	return slices.DeleteFunc(list, func(e sessionstore.Entry) bool { return mirror.NeverMirrored(key, e) }), err
}

func (m asMirrored) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	return func(yield func(sessionstore.Entry, error) bool) {
		for e, err := range sessionstore.Stream(ctx, m.SessionStore, key) {
			if err == nil && mirror.NeverMirrored(key, e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

var _ sessionstore.OrphanLister = asMirrored{}
