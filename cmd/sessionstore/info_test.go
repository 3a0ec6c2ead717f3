package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestInfo(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	out := ok(t, "info", "-s", dir, recordedID[:8])
	require.Regexp(t, `(?m)^session +`+recordedID+`$`, out)
	require.Regexp(t, `(?m)^project +`+recordedKey+`$`, out)
	require.Regexp(t, `(?m)^first prompt +One agent \[\[script:sub\]\]$`, out)
	require.Regexp(t, `(?m)^last prompt +Nested agents \[\[script:subnest\]\]$`, out)
	require.Regexp(t, `(?m)^created +2026-11-30 16:44, \S+ ago$`, out)
	require.Regexp(t, `(?m)^directory +/home/dev/subagents/proj$`, out)
	require.Regexp(t, `(?m)^branch +main$`, out)
	require.Regexp(t, `(?m)^main transcript +60 entries, [0-9.]+ kB$`, out)
	require.Regexp(t, `(?m)^subagents +7$`, out)

	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(ok(t, "info", "-s", dir, recordedID, "--json")), &got))
	require.Subset(t, got, map[string]any{
		"sessionId": recordedID, "projectKey": recordedKey, "summary": "Nested agents [[script:subnest]]",
		"firstPrompt": "One agent [[script:sub]]", "lastPrompt": "Nested agents [[script:subnest]]", "gitBranch": "main", "cwd": "/home/dev/subagents/proj",
		"createdAt": 1796057044479.0, "entries": 60.0, "subagents": 7.0, "subpaths": 7.0,
	})
	require.Contains(t, got, "mtime")
	require.Contains(t, got, "time")
	require.Contains(t, got, "bytes")
}

func TestInfoOfSessionsThatListsLeaveOut(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "no-uuid"), chain("hello \u202e\x1b[2J")...)
	add(t, dir, key("p", uuid(1)), `{"type":"user","isSidechain":true,"message":{"content":"of a sidechain"}}`)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: "lonely", Subpath: "journal"}, hello)

	out := ok(t, "info", "-s", dir, "no-uuid")
	require.Contains(t, out, "first prompt      hello \uFFFD␛[2J\n")
	require.NotContains(t, out, "\x1b")
	out = ok(t, "info", "-s", dir, uuid(1))
	require.Contains(t, out, "first prompt      of a sidechain\n")
	require.Contains(t, out, "sidechain         yes; agents do not list it\n")
	require.Contains(t, ok(t, "info", "-s", dir, uuid(1), "--json"), `"isSidechain":true,"firstPrompt":"of a sidechain","entries":1,`)
	out = ok(t, "info", "-s", dir, "p/lonely")
	require.Contains(t, out, "main transcript   none\nothers beside it  1\n")
	require.NotContains(t, out, "last written")

	fails(t, exitNotFound, "info", "-s", dir, "nobody")
	require.Contains(t, fails(t, exitUsage, "info", "-s", dir, "p/lonely#journal"), "this command takes a whole session")
}

func TestSubagents(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	lines := strings.Split(ok(t, "subagents", "-s", dir, recordedID), "\n")
	require.Len(t, lines, 9)
	require.Regexp(t, `^SUBAGENT +TYPE +ENTRIES +DESCRIPTION +LAST WORDS$`, lines[0])
	require.Regexp(t, `^a54a7a95de8336d08  general-purpose  \d+ +Part two +Subagent result: 42 two$`, lines[1])
	require.Regexp(t, `^ae0f2814e55169519  counter `, lines[6])

	lines = strings.Split(ok(t, "subagents", "-s", dir, recordedID, "--json"), "\n")
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[3]), &got))
	require.Subset(t, got, map[string]any{
		"agentId": "abf57bcf7615c73a7", "subpath": "subagents/agent-abf57bcf7615c73a7", "type": "general-purpose",
		"description": "Inner agent", "parentToolUseId": "toolu_010108Fakexdm66y6co4f", "parentAgentId": "a6b853db5113fc546",
		"lastWords": "Subagent result: 42 leaf",
	})
	require.Contains(t, got, "entries")
	require.Contains(t, got, "bytes")
}

func TestSubagentsOfOddSessions(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "no-uuid"), hello)
	require.Equal(t, "session p/no-uuid has no subagents\n", cli(t, "subagents", "-s", dir, "no-uuid").stderr)
	require.Empty(t, ok(t, "subagents", "-s", dir, "no-uuid", "--json"))
	for _, sub := range []string{"subagents/journal", "subagents/agent-", "x/agent-1", "subagents/w/run/agent-a\x1b", "subagents/agent-b"} {
		add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: "no-uuid", Subpath: sub},
			`{"type":"agent_metadata","agentType":"\u001b[2J","description":"\u202e"}`,
			`{"type":"assistant","message":{"content":"\u001b[2Jbye"}}`)
	}
	out := ok(t, "subagents", "-s", dir, "no-uuid")
	require.Equal(t, 3, strings.Count(out, "\n"), out)
	require.NotContains(t, out, "\x1b")
	require.Contains(t, out, `"a\x1b"`)
}
