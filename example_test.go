package sessionstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func Example() {
	ctx := context.Background()
	store := inmemory.New() // or filestore.Open, or your own
	key := sessionstore.Key{ProjectKey: "tenant-7", SessionID: "d6539f4a-c309-4c8e-9a65-6e4746f7faab"}

	err := store.Append(ctx, key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"u1","message":{"role":"user","content":"Hello"}}`),
		sessionstore.Entry(`{"type":"assistant","uuid":"u2","parentUuid":"u1"}`),
	})
	if err != nil {
		log.Fatal(err)
	}

	// On another host:
	entries, err := store.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Type(), e.UUID())
	}
	// Output:
	// user u1
	// assistant u2
}

func ExampleCopy() {
	ctx := context.Background()
	from, to := inmemory.New(), inmemory.New()
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	if err := from.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"type":"summary"}`)}); err != nil {
		log.Fatal(err)
	}

	everything := sessionstore.Key{}
	for range 2 { // the second run finds nothing to add
		report, err := sessionstore.Copy(ctx, to, from, everything, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Entries, "entries copied,", report.Unchanged, "transcripts unchanged")
	}
	// Output:
	// 1 entries copied, 0 transcripts unchanged
	// 0 entries copied, 1 transcripts unchanged
}

func ExampleVerify() {
	ctx := context.Background()
	a, b := inmemory.New(), inmemory.New()
	key := sessionstore.Key{ProjectKey: "p", SessionID: "s"}
	for _, s := range []*inmemory.Store{a, b} {
		if err := s.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"n":1}`)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"n":2}`)}); err != nil {
		log.Fatal(err)
	}
	report, err := sessionstore.Verify(ctx, a, b, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range report.Differences {
		fmt.Println(d)
	}
	// Output: p/s: entry 2: only the second store has an entry here
}

func ExampleProjectKey() {
	key, err := sessionstore.ProjectKey("/srv/agents/my_project")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key)
	// Output: -srv-agents-my-project
}

func ExampleEntry_Equal() {
	a := sessionstore.Entry(`{"n":1e2,"s":"a"}`)
	b := sessionstore.Entry(`{"s":"\u0061","n":100}`)
	fmt.Println(a.Equal(b))
	// Output: true
}
