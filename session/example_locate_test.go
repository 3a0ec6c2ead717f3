package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/session"
)

// An agent went into a worktree and stayed there.
func ExampleJoin() {
	ctx := context.Background()
	store := inmemory.New()
	const id = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
	repo := sessionstore.Key{ProjectKey: "-src-repo", SessionID: id}
	worktree := sessionstore.Key{ProjectKey: "-src-repo--claude-worktrees-w1", SessionID: id}
	for key, entry := range map[sessionstore.Key]string{
		repo:     `{"type":"user","uuid":"u1","timestamp":"2026-01-01T10:00:00Z"}`,
		worktree: `{"type":"user","uuid":"u2","timestamp":"2026-01-01T10:05:00Z"}`,
	} {
		if err := store.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(entry)}); err != nil {
			log.Fatal(err)
		}
	}

	places, err := session.Locate(ctx, store, id, nil)
	if err != nil {
		log.Fatal(err)
	}
	report, err := session.Join(ctx, store, repo, []sessionstore.Key{repo, worktree})
	if err != nil {
		log.Fatal(err)
	}
	entries, err := store.Load(ctx, repo)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(places), "places,", report.Entries, "entry added")
	for _, e := range entries {
		fmt.Println(e.UUID())
	}
	// Output:
	// 2 places, 1 entry added
	// u1
	// u2
}
