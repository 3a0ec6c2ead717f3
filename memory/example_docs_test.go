package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memdir"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

// The snippets of docs/memory.md.

func openMemory(dir, tenant, user string) (*memory.Tool, func() error, error) {
	store, err := memdir.Open(dir, tenant+"/"+user, nil)
	if err != nil {
		return nil, nil, err
	}
	tool, err := memory.New(store, &memory.Options{
		MaxFileBytes: 256 << 10,
		MaxFiles:     200,
		MaxBytes:     4 << 20,
		OnError: func(ctx context.Context, err error) {
			slog.ErrorContext(ctx, "memory", "tenant", tenant, "error", err)
		},
	})
	return tool, store.Close, err
}

var keyPattern = regexp.MustCompile(`\b(sk|ghp|AKIA)[-_A-Za-z0-9]{16,}\b`)

func redact(_ context.Context, path, text string) (string, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return "", memory.Refusal("private keys must not be kept in memory")
	}
	return keyPattern.ReplaceAllString(text, "[removed]"), nil
}

func expireDaily(ctx context.Context, tool *memory.Tool) error {
	for {
		gone, err := tool.Expire(ctx, 90*24*time.Hour)
		slog.InfoContext(ctx, "memory expired", "files", len(gone), "error", err)
		select {
		case <-time.After(24 * time.Hour):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin gives a project the three files, unless it has them.
func begin(ctx context.Context, store memory.Store, checklist string) error {
	for path, text := range map[string]string{
		"/memories/progress.md":  "# Progress\n\nNothing has been done yet.\n",
		"/memories/checklist.md": checklist,
		"/memories/start.sh":     "#!/bin/sh\nset -e\ngo vet ./...\ngo test ./...\n",
	} {
		err := store.Write(ctx, path, []byte(text), "", memory.Limits{})
		if err != nil && !errors.Is(err, memory.ErrExists) {
			return err
		}
	}
	return nil
}

func Example_tenants() {
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tool, closeStore, err := openMemory(dir, "acme", "user-1")
	if err != nil {
		log.Fatal(err)
	}
	defer closeStore()
	fmt.Println(tool.Run(context.Background(), json.RawMessage(`{"command":"view","path":"/memories"}`)).Text())
	_, _, err = openMemory(dir, "", strings.Repeat("x", 300))
	fmt.Println(err != nil)
	// Output:
	// Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:
	// 0B	/memories
	// true
}

func TestTheSnippetsOfTheGuideWork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store, err := memmap.New("project")
	require.NoError(t, err)
	require.NoError(t, begin(ctx, store, "- [ ] one\n"))
	require.NoError(t, begin(ctx, store, "- [ ] other\n"))
	f, err := store.Read(ctx, "/memories/checklist.md", 0)
	require.NoError(t, err)
	require.Equal(t, "- [ ] one\n", string(f.Data))

	text, err := redact(ctx, "", "key: sk-abcdefghijklmnopqrst.")
	require.NoError(t, err)
	require.Equal(t, "key: [removed].", text)
	_, err = redact(ctx, "", "-----BEGIN PRIVATE KEY-----")
	require.Error(t, err)

	tool, err := memory.New(store, nil)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, expireDaily(ctx, tool), context.Canceled)
}

// Every Go snippet of docs/memory.md stands in this file.
func TestTheGuideShowsCompiledCode(t *testing.T) {
	guide, err := os.ReadFile("../docs/memory.md")
	require.NoError(t, err)
	code, err := os.ReadFile("example_docs_test.go")
	require.NoError(t, err)
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	require.Len(t, snippets, 4)
	for _, m := range snippets {
		require.Contains(t, string(code), m[1])
	}
}
