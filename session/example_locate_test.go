package session_test

import (
	"context"
	"fmt"
	"log"
	"os"

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

// moved is a store with a session that lies under two project keys.
func moved(ctx context.Context, repo, worktree sessionstore.Key) sessionstore.SessionStore {
	store := inmemory.New()
	for _, part := range []struct {
		key   sessionstore.Key
		entry string
	}{
		{repo, `{"type":"user","uuid":"u1","timestamp":"2026-01-01T10:00:00Z","cwd":"/src/repo","message":{"role":"user","content":"fix it"}}`},
		{worktree, `{"type":"user","uuid":"u2","timestamp":"2026-01-01T10:05:00Z","cwd":"/src/repo","message":{"role":"user","content":"go on"}}`},
	} {
		if err := store.Append(ctx, part.key, []sessionstore.Entry{sessionstore.Entry(part.entry)}); err != nil {
			log.Fatal(err)
		}
	}
	return store
}

func ExampleLocate() {
	ctx := context.Background()
	const id = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
	store := moved(ctx, sessionstore.Key{ProjectKey: "-src-repo", SessionID: id}, sessionstore.Key{ProjectKey: "-src-w1", SessionID: id})
	places, err := session.Locate(ctx, store, id, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range places {
		fmt.Println(p.Key.ProjectKey)
	}
	// Unordered output:
	// -src-repo
	// -src-w1
}

// A joined session can be read without changing anything.
func ExampleJoined() {
	ctx := context.Background()
	const id = "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"
	repo := sessionstore.Key{ProjectKey: "-src-repo", SessionID: id}
	worktree := sessionstore.Key{ProjectKey: "-src-w1", SessionID: id}
	store := moved(ctx, repo, worktree)
	whole := session.Joined(store, repo, []sessionstore.Key{repo, worktree})
	entries, err := whole.Load(ctx, repo)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.UUID())
	}
	// Output:
	// u1
	// u2
}

func ExampleListDir() {
	ctx := context.Background()
	const dir = "/src/repo"
	key := sessionstore.Key{ProjectKey: "-src-repo", SessionID: "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"}
	other := sessionstore.Key{ProjectKey: "-elsewhere", SessionID: key.SessionID}
	list, err := session.ListDir(ctx, moved(ctx, key, other), dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range list {
		fmt.Println(s.ProjectKey, s.Summary)
	}
	// Output: -src-repo fix it
}

func ExampleProjectKeys() {
	keys, err := session.ProjectKeys(context.Background(), "/src/repo", false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(keys)
	// Output: [-src-repo]
}

func ExampleWorktrees() {
	dir, err := os.MkdirTemp("", "no-repository-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dirs, err := session.Worktrees(context.Background(), dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("worktrees:", len(dirs))
	// Output: worktrees: 0
}
