package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/resume"
)

func ExampleStart() {
	ctx := context.Background()
	store := inmemory.New() // any store
	program, _ := os.Executable()
	opts := host.Options{
		Command: []string{program}, // a stand-in; leave it out for "claude"
		Session: resume.Options{ProjectKey: "tenant-7", Env: append(os.Environ(), "HOST_TEST_AGENT=1")},
	}

	// The first host.
	agent, err := host.Start(ctx, store, opts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answerTo(agent, "Good morning"))
	if err := agent.Close(ctx); err != nil {
		log.Fatal(err)
	}

	// Another one, which has the store and the id.
	opts.Session.SessionID = agent.SessionID()
	agent, err = host.Start(ctx, store, opts)
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close(ctx)
	fmt.Println(answerTo(agent, "Where were we?"))
	// Output:
	// Answer to "Good morning". Prompts before it: 0.
	// Answer to "Where were we?". Prompts before it: 1.
}

func answerTo(agent *host.Agent, prompt string) string {
	if err := agent.Prompt(prompt); err != nil {
		log.Fatal(err)
	}
	for m, err := range agent.Messages() {
		if err != nil {
			log.Fatal(err)
		}
		var result struct{ Result string }
		if m.Type == "result" && json.Unmarshal(m.Raw, &result) == nil {
			return result.Result
		}
	}
	return ""
}
