package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/sessionstore/sessionstore"
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

// What a host that was killed has left behind comes into the store when it
// starts again.
func ExampleRecover() {
	ctx := context.Background()
	store := inmemory.New() // any store
	temp, _ := os.MkdirTemp("", "this-host-")
	defer os.RemoveAll(temp)
	leaveBehind(ctx, temp)

	report, err := host.Recover(ctx, store, temp, nil)
	if err != nil {
		log.Fatal(err)
	}
	projects, _ := store.ListProjects(ctx)
	fmt.Println(report.Entries, "entry of", projects)
	// Output:
	// 1 entry of [tenant:42]
}

// One directory, such as a *resume.KeptError names.
func ExampleRecoverDir() {
	ctx := context.Background()
	store := inmemory.New()
	temp, _ := os.MkdirTemp("", "this-host-")
	defer os.RemoveAll(temp)
	dir := leaveBehind(ctx, temp)

	report, err := host.RecoverDir(ctx, store, dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Entries, "entry")
	// Output:
	// 1 entry
}

// leaveBehind makes a private directory whose session is in no other store.
func leaveBehind(ctx context.Context, temp string) (dir string) {
	lost := inmemory.New()
	key := sessionstore.Key{ProjectKey: "tenant:42", SessionID: "814ed2c4-4fca-40ef-b6a6-f2500e0fa13e"}
	if err := lost.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"a"}`)}); err != nil {
		log.Fatal(err)
	}
	s, err := resume.Materialize(ctx, lost, resume.Options{ProjectKey: key.ProjectKey, SessionID: key.SessionID, TempDir: temp})
	if err != nil {
		log.Fatal(err)
	}
	s.Release()
	return s.ConfigDir
}
