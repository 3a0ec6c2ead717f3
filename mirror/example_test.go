package mirror_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

// A host reads the agent's messages through the mirror.
func Example() {
	store := inmemory.New()
	m, err := mirror.New(store, "/home/me/.claude/projects", &mirror.Options{
		OnError:   func(e *mirror.Error) { log.Print(e) },
		OnForeign: func(e *mirror.ForeignError) { log.Print(e) },
	})
	if err != nil {
		log.Fatal(err)
	}
	// In a host this is the agent's standard output.
	agentStdout := strings.NewReader(`{"type":"system","subtype":"init"}
{"type":"transcript_mirror","filePath":"/home/me/.claude/projects/-home-me-app/5f0c8a4e-7d2b-4c1a-9e3f-0a1b2c3d4e5f.jsonl","entries":[{"type":"user","uuid":"u1"},{"type":"assistant","uuid":"u2"}]}
{"type":"result","subtype":"success"}
`)
	messages := bufio.NewReader(m.Reader(agentStdout))
	for {
		line, err := messages.ReadString('\n')
		if err != nil {
			break // the agent has ended
		}
		fmt.Print(line)
	}
	ctx := context.Background()
	if err := m.Close(ctx); err != nil {
		log.Print(err) // names what is not in the store
	}
	key := sessionstore.Key{ProjectKey: "-home-me-app", SessionID: "5f0c8a4e-7d2b-4c1a-9e3f-0a1b2c3d4e5f"}
	entries, err := store.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(entries), "entries stored")
	// Output:
	// {"type":"system","subtype":"init"}
	// {"type":"result","subtype":"success"}
	// 2 entries stored
}

func ExampleNew() {
	m, err := mirror.New(inmemory.New(), "/home/me/.claude/projects", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = m.Frame("/home/me/.claude/projects/-home-me-app/s1.jsonl", []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"u1"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	err = m.Frame("/home/other/.claude/projects/-home-me-app/s1.jsonl", nil)
	fmt.Println(err)
	fmt.Println(m.Stats().PendingEntries, "pending")
	fmt.Println(m.Close(context.Background()))
	// Output:
	// mirror: frame for "/home/other/.claude/projects/-home-me-app/s1.jsonl": path lies outside the projects directory
	// 1 pending
	// mirror: not stored: 1 frame from elsewhere
}

// Batches that a mirror had to give up are delivered later.
func ExampleReplay() {
	spill, err := os.MkdirTemp("", "spill")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(spill)
	ctx := context.Background()

	store := newFake()
	store.before = func(context.Context, sessionstore.Key, int) error { return errDown }
	m, err := mirror.New(store, "/config/projects", &mirror.Options{Spill: spill, Attempts: 1})
	if err != nil {
		log.Fatal(err)
	}
	_ = m.Frame("/config/projects/p/s.jsonl", []sessionstore.Entry{sessionstore.Entry(`{"type":"user","uuid":"u1"}`)})
	fmt.Println(m.Close(ctx))

	store.before = nil // the store is back
	report, err := mirror.Replay(ctx, spill, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Entries, "entry delivered")
	// Output:
	// mirror: not stored: p/s: 1 entry (1 kept in files): store is down
	// 1 entry delivered
}

// Without frames, the agent's files are read as they grow.
func ExampleWatch() {
	projects, err := os.MkdirTemp("", "projects")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(projects)
	if err := os.Mkdir(filepath.Join(projects, "-home-me-app"), 0o700); err != nil {
		log.Fatal(err)
	}
	text := `{"type":"user","uuid":"u1"}` + "\n" + `{"type":"api-request"}` + "\n"
	if err := os.WriteFile(filepath.Join(projects, "-home-me-app", "s1.jsonl"), []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	report, err := mirror.Watch(context.Background(), projects, inmemory.New(), &mirror.WatchOptions{Once: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d entry stored, %d line is never mirrored\n", report.Entries, report.NotMirrored)
	// Output:
	// 1 entry stored, 1 line is never mirrored
}
