package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestShowFollowsTheConversation(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(100)), append(chain("question", "abandoned answer"),
		`{"type":"assistant","uuid":"`+uuid(7)+`","parentUuid":"`+uuid(0)+`","message":{"content":"second answer"}}`,
		`{"type":"system","subtype":"info","content":"a notice","uuid":"`+uuid(8)+`","parentUuid":"`+uuid(7)+`"}`,
		`{"type":"user","isMeta":true,"uuid":"`+uuid(9)+`","parentUuid":"`+uuid(8)+`","message":{"content":"meta"}}`)...)
	out := ok(t, "show", "-s", dir, uuid(100))
	require.Equal(t, "user\n  question\n\nassistant\n  second answer\n\n2 messages; --all shows all messages, --json all entries\n", out)
	require.Contains(t, ok(t, "show", "-s", dir, uuid(100), "--system"), "── system: a notice ──")
	all := ok(t, "show", "-s", dir, uuid(100), "--all")
	require.Contains(t, all, "abandoned answer\n  second answer")
	require.Contains(t, all, "5 entries, 4 shown; not shown: 1 user (meta); --json shows all entries\n")
	require.Equal(t, all, ok(t, "show", "-s", dir, uuid(100), "--all", "--system"))
	require.Equal(t, 5, strings.Count(ok(t, "show", "-s", dir, uuid(100), "--json"), "\n"))
}

func TestShowOfParallelTools(t *testing.T) {
	home(t)
	dir, main := recordedSession(t, "tools-multiturn")
	out := ok(t, "show", "-s", dir, main.String())
	require.Contains(t, out, "messages; --all shows all messages")
	require.Contains(t, out, "→ ")
	require.Contains(t, out, "  (thinking)\n    Let me think about it.\n  Thought done.\n")
	require.Contains(t, out, "  ← failed: Exit code 3\n")
}

func TestShowOfACompactedSession(t *testing.T) {
	home(t)
	for _, session := range []string{"compact-manual", "compact-auto"} {
		dir, main := recordedSession(t, session)
		out := ok(t, "show", "-s", dir, main.String())
		require.True(t, strings.HasPrefix(out, "summary of the earlier conversation  2026-"), out)
		require.NotContains(t, out, "── conversation compacted")
		require.Contains(t, ok(t, "show", "-s", dir, main.String(), "--system"), "── conversation compacted (")
		all := ok(t, "show", "-s", dir, main.String(), "--all")
		require.Contains(t, all, "  First [[script:tools]]\n")
		require.NotContains(t, out, "  First [[script:tools]]\n")
	}
}

// gapLines is a conversation of which one message is missing.
func gapLines() []string {
	return []string{
		`{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"before"}}`,
		`{"type":"assistant","uuid":"u2","parentUuid":"u1","message":{"content":"also before"}}`,
		`{"type":"user","uuid":"u4","parentUuid":"u3\u001b[2J","message":{"content":"after"}}`,
	}
}

func TestGapsAreShownAndReported(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), gapLines()...)
	r := cli(t, "show", "-s", dir, uuid(1))
	require.Equal(t, exitOK, r.code)
	require.True(t, strings.HasPrefix(r.stdout, "── gap: the message before is missing; 2 earlier messages not reached ─"), r.stdout)
	require.NotContains(t, r.stdout, "also before")
	require.Equal(t, "warning: gap in p/"+uuid(1)+": message u4 names a parent that is not there: u3␛[2J; 2 earlier messages not reached (see --bridge and --all)\n", r.stderr)

	r = cli(t, "show", "-s", dir, uuid(1), "--bridge")
	require.Contains(t, r.stdout, "  also before\n\n── gap: the message before is missing; bridged ─")
	require.Contains(t, r.stdout, "─\n\nuser\n  after\n")
	require.Contains(t, r.stderr, "; the conversation goes on with the entry stored before it\n")
	require.Contains(t, ok(t, "show", "-s", dir, uuid(1), "--all"), "also before")
}

func TestGapAtAnEntryThatIsNotShown(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)),
		`{"type":"attachment","uuid":"a","parentUuid":"missing"}`,
		`{"type":"user","uuid":"b","parentUuid":"a","message":{"content":"after"}}`)
	r := cli(t, "show", "-s", dir, uuid(1))
	require.True(t, strings.HasPrefix(r.stdout, "── gap: the message before is missing ─"), r.stdout)
	require.Contains(t, r.stderr, "message a names a parent that is not there: missing\n")
}

func TestBridgedGapAtAnEntryThatIsNotShown(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)),
		`{"type":"user","uuid":"0","parentUuid":null,"message":{"content":"before"}}`,
		`{"type":"attachment","uuid":"a","parentUuid":"missing"}`,
		`{"type":"user","uuid":"b","parentUuid":"a","message":{"content":"after"}}`)
	r := cli(t, "show", "-s", dir, uuid(1), "--bridge")
	require.Regexp(t, "  before\n\n── gap: the message before is missing; bridged ─+\n\nuser\n  after\n", r.stdout)
	r = cli(t, "show", "-s", dir, uuid(1), "--bridge", "--html", "-")
	require.Regexp(t, `(?s)before.*role="separator">gap: the message before is missing; bridged</div>.*after`, r.stdout)
	require.Contains(t, r.stderr, "message a names a parent that is not there: missing; the conversation goes on")
}

func TestMessagesInACircle(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)),
		`{"type":"user","uuid":"a","parentUuid":"b","message":{"content":"one"}}`,
		`{"type":"user","uuid":"b","parentUuid":"a","message":{"content":"two"}}`)
	r := cli(t, "show", "-s", dir, uuid(1))
	require.True(t, strings.HasPrefix(r.stdout, "── gap: messages go round in a circle ─"))
	require.Contains(t, r.stdout, "one\n  two\n\n2 entries")
	require.Contains(t, r.stderr, "go round in a circle, so no conversation can be made out; all entries are shown\n")
	r = cli(t, "show", "-s", dir, uuid(1), "--bridge")
	require.Contains(t, r.stdout, "── gap: messages go round in a circle")
	require.Contains(t, r.stderr, "message a names a parent that comes after it: b")
}

func TestSubpathsThatEndInTheSameIDAreToldApart(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), chain("main")...)
	for i, sub := range []string{"subagents/agent-x", "subagents/workflows/1/agent-x", "subagents/workflows/1/journal"} {
		add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: uuid(1), Subpath: sub}, chain(fmt.Sprintf("text %d.", i))...)
	}
	require.Contains(t, ok(t, "show", "-s", dir, uuid(1), "--subpath", "subagents/agent-x"), "text 0.\n\n1 message;")
	require.Contains(t, ok(t, "show", "-s", dir, uuid(1), "--subpath", "subagents/workflows/1/agent-x"), "text 1.\n\n1 message;")
	require.Contains(t, ok(t, "show", "-s", dir, uuid(1), "--subpath", "journal"), "text 2.\n\n1 entry\n")
	require.Equal(t, 4, strings.Count(ok(t, "show", "-s", dir, uuid(1), "--subagents"), "── "))
}

func TestMetaMessagesOfSubagentsAreShown(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), chain("main")...)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: uuid(1), Subpath: "subagents/agent-x"},
		`{"type":"user","isMeta":true,"isSidechain":true,"uuid":"a","message":{"content":"skill text"}}`,
		`{"type":"assistant","isSidechain":true,"uuid":"b","parentUuid":"a","message":{"content":"done"}}`)
	require.Contains(t, ok(t, "show", "-s", dir, uuid(1)+"#subagents/agent-x"), "put in by the agent\n  skill text\n\nassistant\n  done\n")
}
