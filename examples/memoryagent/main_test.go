package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

// The whole exchange is played: the scripted model refuses every request that
// is not word for word what it expects.
func TestTwoSessionsShareAMemory(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run(t.Context(), &out, dir, "user-1", false, nil); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"memory: create /memories/progress.md", "memory: insert /memories/progress.md", "Errors with line numbers come next."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
	for file, want := range map[string]string{"checklist.md": "- [x] parse the configuration file\n- [ ] report", "progress.md": "# Progress\n\n## Session 2\n", "start.sh": "#!/bin/sh\n"} {
		got, err := os.ReadFile(filepath.Join(dir, "user-1", file))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s = %q, %v, want it to contain %q", file, got, err, want)
		}
	}
}

func TestTheScriptIsPlayedToItsEnd(t *testing.T) {
	model := newScript(script)
	a := newAgent(t, model)
	for _, prompt := range model.prompts() {
		if _, err := a.run(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
	}
	if !model.done() {
		t.Fatal("steps are left")
	}
}

// A script that expects something else must end the session.
func TestTheModelIsStrict(t *testing.T) {
	model := newScript(bytes.Replace(script, []byte("0B"), []byte("1B"), 1))
	_, err := newAgent(t, model).run(t.Context(), model.prompts()[0])
	if err == nil || !strings.Contains(err.Error(), "step 2") {
		t.Fatalf("err = %v, want one about step 2", err)
	}
}

func TestImagesAndUnknownTools(t *testing.T) {
	a := newAgent(t, newScript(script))
	png := "\x89PNG\r\n\x1a\n rest"
	store, err := memmap.New("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Write(context.Background(), "/memories/a.png", []byte(png), "", memory.Limits{}); err != nil {
		t.Fatal(err)
	}
	if a.tool, err = memory.New(store, nil); err != nil {
		t.Fatal(err)
	}
	var answer anthropic.Message
	err = answer.UnmarshalJSON([]byte(`{"type":"message","role":"assistant","content":[
		{"type":"tool_use","id":"1","name":"memory","input":{"command":"view","path":"/memories/a.png"}},
		{"type":"tool_use","id":"2","name":"shell","input":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	results := a.results(t.Context(), &answer)
	if len(results) != 2 || results[0].OfToolResult.Content[0].OfImage == nil || !results[1].OfToolResult.IsError.Value {
		t.Fatalf("results = %+v", results)
	}
}

func newAgent(t *testing.T, model *scripted) *agent {
	t.Helper()
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	store, err := memmap.New("user-1")
	if err != nil {
		t.Fatal(err)
	}
	tool, err := memory.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	return &agent{client: client, model: "scripted", system: system, tool: tool}
}
