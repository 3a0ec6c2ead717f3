package memdir_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memdir"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := memdir.Open(dir, "user-4711", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	tool, err := memory.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	tool.Run(context.Background(), []byte(`{"command":"create","path":"/memories/notes.md","file_text":"- likes tea\n"}`))
	text, err := os.ReadFile(dir + "/user-4711/notes.md")
	fmt.Print(string(text), err)
	// Output:
	// - likes tea
	// <nil>
}
