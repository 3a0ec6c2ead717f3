package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/session"
)

var key = sessionstore.Key{ProjectKey: "tenant-7", SessionID: "d6539f4a-c309-4c8e-9a65-6e4746f7faab"}

// stored returns a store that holds a short session with a subagent.
func stored(ctx context.Context) sessionstore.SessionStore {
	store := inmemory.New()
	agent := key
	agent.Subpath = "subagents/agent-1f2e"
	for key, entries := range map[sessionstore.Key][]string{
		key: {
			`{"type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"Fix the build"}}`,
			`{"type":"assistant","uuid":"a2","parentUuid":"u1","message":{"role":"assistant","content":"Done."}}`,
			`{"type":"user","uuid":"u3","parentUuid":"a2","message":{"role":"user","content":"Thanks"}}`,
		},
		agent: {
			`{"type":"agent_metadata","agentType":"general-purpose","toolUseId":"toolu_1"}`,
			`{"type":"user","uuid":"b1","parentUuid":null,"isSidechain":true,"message":{"role":"user","content":"Look at the log"}}`,
		},
	} {
		var batch []sessionstore.Entry
		for _, e := range entries {
			batch = append(batch, sessionstore.Entry(e))
		}
		if err := store.Append(ctx, key, batch); err != nil {
			log.Fatal(err)
		}
	}
	return store
}

func ExampleList() {
	ctx := context.Background()
	sessions, err := session.List(ctx, stored(ctx), key.ProjectKey, &session.ListOptions{Limit: 20})
	if errors.Is(err, errors.ErrUnsupported) {
		log.Fatal("this store can't list")
	}
	if err != nil {
		log.Print(err) // some sessions could not be read; the list holds the others
	}
	for _, s := range sessions {
		fmt.Println(s.SessionID, s.Summary)
	}
	// Output: d6539f4a-c309-4c8e-9a65-6e4746f7faab Fix the build
}

func ExampleInfo() {
	ctx := context.Background()
	s, ok, err := session.Info(ctx, stored(ctx), key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ok, s.FirstPrompt)
	// Output: true Fix the build
}

func ExampleLatest() {
	ctx := context.Background()
	latest, ok, err := session.Latest(ctx, stored(ctx), key.ProjectKey)
	if err != nil {
		log.Fatal(err)
	}
	if !ok {
		fmt.Println("nothing to continue")
		return
	}
	fmt.Println(latest.SessionID)
	// Output: d6539f4a-c309-4c8e-9a65-6e4746f7faab
}

func ExampleMessages() {
	ctx := context.Background()
	c, err := session.Messages(ctx, stored(ctx), key, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range c.Messages {
		fmt.Println(m.Type, string(m.Message))
	}
	// Output:
	// user {"role":"user","content":"Fix the build"}
	// assistant {"role":"assistant","content":"Done."}
	// user {"role":"user","content":"Thanks"}
}

func ExampleStreamMessages() {
	ctx := context.Background()
	c, messages, err := session.StreamMessages(ctx, stored(ctx), key, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Total, "messages")
	for m, err := range messages {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Type, string(m.Message))
	}
	// Output:
	// 3 messages
	// user {"role":"user","content":"Fix the build"}
	// assistant {"role":"assistant","content":"Done."}
	// user {"role":"user","content":"Thanks"}
}

// A transcript may lack entries. What can't be reached is reported, and can be
// put in by position.
func ExampleMessages_gaps() {
	ctx := context.Background()
	store := stored(ctx)
	err := store.Append(ctx, key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"u9","parentUuid":"a8","message":{"role":"user","content":"And now?"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, bridge := range []bool{false, true} {
		c, err := session.Messages(ctx, store, key, &session.MessagesOptions{BridgeGaps: bridge})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(c.Messages), "messages")
		for _, g := range c.Gaps {
			fmt.Printf("%s lacks its parent %s, %d messages can't be reached\n", g.UUID, g.ParentUUID, g.Unreachable)
		}
	}
	// Output:
	// 1 messages
	// u9 lacks its parent a8, 3 messages can't be reached
	// 4 messages
	// u9 lacks its parent a8, 0 messages can't be reached
}

func ExampleSubagents() {
	ctx := context.Background()
	ids, err := session.Subagents(ctx, stored(ctx), key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	// Output: [1f2e]
}

func ExampleSubagentMessages() {
	ctx := context.Background()
	c, err := session.SubagentMessages(ctx, stored(ctx), key, "1f2e", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range c.Messages {
		fmt.Println(*m.ParentToolUseID, string(m.Message))
	}
	// Output: toolu_1 {"role":"user","content":"Look at the log"}
}

func ExampleStreamSubagentMessages() {
	ctx := context.Background()
	_, messages, err := session.StreamSubagentMessages(ctx, stored(ctx), key, "1f2e", nil)
	if err != nil {
		log.Fatal(err)
	}
	for m, err := range messages {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Type, string(m.Message))
	}
	// Output:
	// user {"role":"user","content":"Look at the log"}
}

func ExampleSpellings() {
	ctx := context.Background()
	keys, err := session.Spellings(ctx, stored(ctx), "d--src-app") // also D--src-app, on Windows
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(keys)
	// Output:
	// [d--src-app]
}

func ExampleRename() {
	ctx := context.Background()
	store := stored(ctx)
	if err := session.Rename(ctx, store, key, "The build"); err != nil {
		log.Fatal(err)
	}
	s, _, err := session.Info(ctx, store, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Summary)
	// Output: The build
}

func ExampleTag() {
	ctx := context.Background()
	store := stored(ctx)
	tag := "done"
	for _, t := range []*string{&tag, nil} { // nil takes the tag away
		if err := session.Tag(ctx, store, key, t); err != nil {
			log.Fatal(err)
		}
		s, _, err := session.Info(ctx, store, key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q\n", s.Tag)
	}
	// Output:
	// "done"
	// ""
}

func ExampleFork() {
	ctx := context.Background()
	store := stored(ctx)
	id, err := session.Fork(ctx, store, key, &session.ForkOptions{UpTo: "a2"})
	if err != nil {
		log.Fatal(err)
	}
	fork := sessionstore.Key{ProjectKey: key.ProjectKey, SessionID: id}
	s, _, err := session.Info(ctx, store, fork)
	if err != nil {
		log.Fatal(err)
	}
	c, err := session.Messages(ctx, store, fork, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Summary, len(c.Messages))
	// Output: Fix the build (fork) 2
}

func ExampleDelete() {
	ctx := context.Background()
	store := stored(ctx)
	if err := session.Delete(ctx, store, key); err != nil {
		log.Fatal(err)
	}
	_, ok, err := session.Info(ctx, store, key)
	fmt.Println(ok, err)
	// Output: false <nil>
}
