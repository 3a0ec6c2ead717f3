package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

func Example() {
	store, err := memmap.New("user-4711")
	if err != nil {
		log.Fatal(err)
	}
	tool, err := memory.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{
		`{"command":"create","path":"/memories/notes.md","file_text":"- likes tea\n"}`,
		`{"command":"str_replace","path":"/memories/notes.md","old_str":"tea","new_str":"green tea"}`,
		`{"command":"view","path":"/memories/missing.md"}`,
	} {
		result := tool.Run(context.Background(), json.RawMessage(input))
		fmt.Println(result.IsError, result.Text())
	}
	// Output:
	// false File created successfully at: /memories/notes.md
	// false The memory file has been edited.
	//      1	- likes green tea
	// true The path /memories/missing.md does not exist. Please provide a valid path.
}

func ExampleNew() {
	store, err := memmap.New("user-4711")
	if err != nil {
		log.Fatal(err)
	}
	tool, err := memory.New(store, &memory.Options{
		MaxFileBytes: 64 << 10,
		OnChange: func(_ context.Context, c memory.Change) {
			fmt.Println(c.Command, c.Path)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	tool.Run(context.Background(), json.RawMessage(`{"command":"create","path":"/memories/notes.md","file_text":""}`))
	// Output: create /memories/notes.md
}
