// Command memoryagent is an agent with a memory, complete and small: the loop
// around the official Go SDK, the memory tool over a directory, and the
// multi-session pattern of docs/memory.md, in which each session begins by
// reading three files and ends by writing them.
//
//	go run .                    two sessions against a scripted model
//	go run . -live "prompt"     one session against the real one ($ANTHROPIC_API_KEY)
//
// The memory stays in the directory of -dir. Look at it with
//
//	sessionstore memory ls -s file:DIR --scope demo
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memdir"
)

// system tells the model the pattern.
const system = `You work on one project over many sessions, and remember nothing between them but what is in your memory directory.
Begin every session by viewing /memories and reading progress.md, checklist.md and start.sh.
Work on one open item of checklist.md at a time. Check an item only when it is done and tested.
End every session by writing down in progress.md what was done, what was learned and what comes next.`

func main() {
	dir := flag.String("dir", "", "directory of the memory (default: a temporary one)")
	scope := flag.String("scope", "demo", "whose memory it is")
	live := flag.Bool("live", false, "ask the real model")
	flag.Parse()
	if *dir == "" {
		temp, err := os.MkdirTemp("", "memoryagent")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(temp)
		*dir = temp
	}
	if err := run(context.Background(), os.Stdout, *dir, *scope, *live, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, dir, scope string, live bool, prompts []string) error {
	store, err := memdir.Open(dir, scope, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	tool, err := memory.New(store, &memory.Options{
		OnChange: func(_ context.Context, c memory.Change) { fmt.Fprintf(out, "  memory: %s %s\n", c.Command, c.Path) },
		OnError:  func(_ context.Context, err error) { fmt.Fprintf(out, "  memory: %v\n", err) },
	})
	if err != nil {
		return err
	}
	a := &agent{model: anthropic.ModelClaudeSonnet5, system: system, tool: tool}
	if live {
		a.client = anthropic.NewClient() // with the key of ANTHROPIC_API_KEY
	} else {
		model := newScript(script)
		server := httptest.NewServer(model)
		defer server.Close()
		a.client = anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
		prompts = model.prompts()
	}
	for i, prompt := range prompts {
		fmt.Fprintf(out, "session %d: %s\n", i+1, prompt)
		answer, err := a.run(ctx, prompt)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s\n", answer)
	}
	return nil
}
