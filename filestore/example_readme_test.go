package filestore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

func quickStart(dir string) error {
	ctx := context.Background()
	store, err := filestore.Open(dir, &filestore.Options{
		OnSkip: func(s filestore.Skip) { log.Printf("%s:%d: %v", s.Path, s.Line, s.Err) },
	})
	if err != nil {
		return err
	}
	defer store.Close()

	key := sessionstore.Key{ProjectKey: "tenant-7", SessionID: "d6539f4a-c309-4c8e-9a65-6e4746f7faab"}
	err = store.Append(ctx, key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"u1","message":{"role":"user","content":"Hello"}}`),
		sessionstore.Entry(`{"type":"assistant","uuid":"u2","parentUuid":"u1"}`),
	})
	if err != nil {
		return err
	}

	entries, err := store.Load(ctx, key) // on any host that sees the directory
	if err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Println(e.Type(), e.UUID())
	}
	return nil
}

func Example_quickStart() {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := quickStart(dir); err != nil {
		panic(err)
	}
	// Output:
	// user u1
	// assistant u2
}
