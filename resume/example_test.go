package resume_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

func ExampleMaterialize() {
	ctx := context.Background()
	store := inmemory.New() // any store
	key := sessionstore.Key{ProjectKey: "tenant-7", SessionID: "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"}
	err := store.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"u1"}`)})
	if err != nil {
		log.Fatal(err)
	}

	s, err := resume.Materialize(ctx, store, resume.Options{SessionID: key.SessionID, ProjectKey: key.ProjectKey})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	text, err := os.ReadFile(filepath.Join(s.ProjectsDir(), "tenant-7", key.SessionID+".jsonl"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Found, s.Args())
	fmt.Print(string(text))
	// Output:
	// true [--resume=814ed2c4-4fca-40ef-b6a6-f2500e0fa13e]
	// {"type":"user","uuid":"u1"}
}

func ExampleOpenLeftover() {
	ctx := context.Background()
	store := inmemory.New()
	s, err := resume.Materialize(ctx, store, resume.Options{ProjectKey: "tenant:42", Fresh: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Release() // as if the host had been killed

	l, err := resume.OpenLeftover(s.ConfigDir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Key.ProjectKey)
	// mirror.Watch(ctx, l.ProjectsDir(), l.Store(store), …) brings in what is there.
	if err := l.Remove(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// tenant:42
}
