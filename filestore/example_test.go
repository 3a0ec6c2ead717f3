package filestore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

func Example() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := filestore.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	key := sessionstore.Key{ProjectKey: "-home-me-project", SessionID: "5f0c8a4e-7d2b-4c1a-9e3f-0a1b2c3d4e5f"}
	err = store.Append(ctx, key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"u1","message":{"role":"user","content":"Hello"}}`),
		sessionstore.Entry(`{"type":"custom-title","customTitle":"Greeting"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	entries, err := store.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Type())
	}
	text, err := os.ReadFile(dir + "/-home-me-project/5f0c8a4e-7d2b-4c1a-9e3f-0a1b2c3d4e5f.jsonl")
	fmt.Printf("%s", text)
	fmt.Println(err)
	// Output:
	// user
	// custom-title
	// {"type":"user","uuid":"u1","message":{"role":"user","content":"Hello"}}
	// {"type":"custom-title","customTitle":"Greeting"}
	// <nil>
}

// The agent's own files can be read while it runs, without changing anything.
func ExampleOpen_readOnly() {
	home, err := os.UserHomeDir()
	if err != nil {
		log.Fatal(err)
	}
	store, err := filestore.Open(home+"/.claude/projects", &filestore.Options{
		ReadOnly: true,
		OnSkip: func(s filestore.Skip) {
			log.Printf("%s:%d: %v", s.Path, s.Line, s.Err)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	projects, err := store.ListProjects(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, project := range projects {
		fmt.Println(project)
	}
}

// A page of a list needs the summaries of a few sessions. In a directory that
// an agent writes to, only their transcripts are read.
func ExampleStore_SessionSummary() {
	dir, err := os.MkdirTemp("", "filestore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := filestore.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	key := sessionstore.Key{ProjectKey: "-home-dev-app", SessionID: "11111111-2222-4333-8444-555555555555"}
	err = store.Append(context.Background(), key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"custom-title","customTitle":"Fix the build"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	summary, found, err := store.SessionSummary(context.Background(), key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found, string(summary.Data))
	// Output: true {"isSidechain":false,"customTitle":"Fix the build"}
}
