package standin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/internal/recorded"
	"github.com/sessionstore/sessionstore/internal/standin"
)

type process struct {
	t      *testing.T
	env    map[string]string
	config string
}

func newProcess(t *testing.T) process {
	config := t.TempDir()
	return process{t, map[string]string{"CLAUDE_CONFIG_DIR": config, "CLAUDE_CODE_PROJECT_DIR_NAME": "proj", "STANDIN_INTERVAL": "0s"}, config}
}

// run gives it the prompts and returns what it printed.
func (p process) run(args []string, stdin ...string) (lines []map[string]any, code int, stderr string) {
	p.t.Helper()
	var out, errs bytes.Buffer
	a := standin.Agent{
		Args: args, Getenv: func(n string) string { return p.env[n] }, Dir: p.t.TempDir(),
		Stdin: strings.NewReader(strings.Join(stdin, "\n")), Stdout: &out, Stderr: &errs,
	}
	code = a.Run()
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		require.NoError(p.t, json.Unmarshal([]byte(line), &m), "%s", line)
		var frame struct{ Entries []json.RawMessage } // as they stand there
		require.NoError(p.t, json.Unmarshal([]byte(line), &frame))
		m["entries"] = frame.Entries
		lines = append(lines, m)
	}
	return lines, code, errs.String()
}

func prompt(text string) string {
	return `{"type":"user","session_id":"","message":{"role":"user","content":"` + text + `"},"parent_tool_use_id":null}`
}

const allow = `{"type":"control_response","response":{"subtype":"success","request_id":"question-1","response":{"behavior":"allow"}}}`

// What the frames say is what lies on the disk.
func TestFramesAndFilesAgree(t *testing.T) {
	p := newProcess(t)
	const id = "00000000-0000-4000-8000-000000000001"
	lines, code, stderr := p.run([]string{"--session-mirror", "--session-id", id}, prompt("tool and subagent"), allow, prompt("again"))
	require.Equal(t, 0, code, stderr)
	require.Equal(t, "init", lines[0]["subtype"])
	store := inmemory.New()
	results := 0
	for _, l := range lines {
		switch l["type"] {
		case "result":
			results++
		case "transcript_mirror":
			path, err := filepath.Rel(filepath.Join(p.config, "projects"), l["filePath"].(string))
			require.NoError(t, err)
			parts := strings.SplitN(strings.TrimSuffix(filepath.ToSlash(path), ".jsonl"), "/", 3)
			key := sessionstore.Key{ProjectKey: parts[0], SessionID: parts[1]}
			if len(parts) == 3 {
				key.Subpath = parts[2]
			}
			for _, e := range l["entries"].([]json.RawMessage) {
				require.NoError(t, store.Append(t.Context(), key, []sessionstore.Entry{sessionstore.Entry(e)}))
			}
		}
	}
	require.Equal(t, 2, results)
	require.Equal(t, "transcript_mirror", lines[len(lines)-1]["type"], "frames follow the last result")
	dir, err := filestore.Open(filepath.Join(p.config, "projects"), &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	defer dir.Close()
	report, err := sessionstore.Verify(t.Context(), dir, store, sessionstore.Key{ProjectKey: "proj", SessionID: id}, nil)
	require.NoError(t, err)
	require.True(t, report.Equal(), "%v", report.Differences)
	require.Equal(t, 2, report.Transcripts)

	lines, code, _ = p.run([]string{"--resume=" + id}, prompt("third"))
	require.Equal(t, 0, code)
	require.Contains(t, lines[len(lines)-1]["result"], "Prompts before it: 2.")
	lines, _, _ = p.run([]string{"--resume", id, "--fork-session"}, prompt("other"))
	require.NotEqual(t, id, lines[0]["session_id"])
	require.Contains(t, lines[len(lines)-1]["result"], "Prompts before it: 3.")
}

func TestUnknownSessionAndExit(t *testing.T) {
	p := newProcess(t)
	_, code, stderr := p.run([]string{"--resume=00000000-0000-4000-8000-000000000009"})
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "No conversation found")
	_, code, _ = p.run(nil, prompt("exit"))
	require.Equal(t, 7, code)
}

func TestTheRecordingIsPlayedFromWhereItWasLeft(t *testing.T) {
	p := newProcess(t)
	p.env["CLAUDE_CODE_PROJECT_DIR_NAME"] = recorded.ProjectKey
	for _, batches := range []string{"3", "8", ""} {
		p.env["STANDIN_BATCHES"] = batches
		_, code, _ := p.run([]string{"--session-mirror"}, prompt("play"))
		require.Equal(t, 0, code)
	}
	dir, err := filestore.Open(filepath.Join(p.config, "projects"), &filestore.Options{ReadOnly: true})
	require.NoError(t, err)
	defer dir.Close()
	want := inmemory.New()
	require.NoError(t, recorded.AppendTo(t.Context(), want))
	report, err := sessionstore.Verify(t.Context(), dir, want, recorded.Main(), nil)
	require.NoError(t, err)
	require.True(t, report.Equal(), "%v", report.Differences)
	_, err = os.Stat(filepath.Join(p.config, "projects", recorded.ProjectKey, recorded.SessionID+".jsonl"))
	require.NoError(t, err)
}
