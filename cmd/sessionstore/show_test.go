package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestShowRecordedSession(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	out := ok(t, "show", "-s", dir, recordedID[:8])
	require.True(t, strings.HasPrefix(out, `user  2026-11-30 16:44:04
  One agent [[script:sub]]

assistant  16:44:04
  I will start an agent.
  → Agent  Count things
  ←   <tools-used-before-summary>Loze</tools-used-before-summary>
`), out)
	require.Contains(t, out, "    … 4 more lines\n  The agent has finished.\n\nuser  16:44:05\n")
	require.Contains(t, out, "22 messages; --all shows all messages")
	require.Contains(t, out, "7 more transcripts in this session (--subagents, or --subpath):\n  subagents/agent-a54a7a95de8336d08\n")
	require.NotContains(t, out, "\x1b")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, textWidth(strings.TrimSuffix(line, "\n")), 80, line)
	}

	require.Contains(t, ok(t, "show", "-s", dir, recordedID, "--all"),
		"60 entries, 22 shown; not shown: 19 attachment, 8 queue-operation")

	full := ok(t, "show", "-s", dir, recordedID, "--full")
	require.NotContains(t, full, "more lines")
	require.Greater(t, len(full), len(out))

	all := ok(t, "show", "-s", dir, recordedID, "--subagents")
	require.Equal(t, 7, strings.Count(all, "── subagents/agent-"))
	require.Contains(t, all, "── subagents/agent-a54a7a95de8336d08, general-purpose: Part two ─")
	require.Contains(t, all, "  → Bash  echo inside-subagent leaf\n  ← inside-subagent leaf\n  Subagent result: 42 leaf\n")
	fails(t, exitUsage, "show", "-s", dir, recordedID+"#agent-a5", "--subagents")
}

func TestShowJSONIsByteExact(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	odd := []string{
		`{"type":"user","n":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"a":1,"a":2}`,
		`{"type":"x","s":"\u0000 \ud83d <>& \\u0000","k\u0000":1}`,
		`{ "type" : "x" , "line":"` + "\u2028" + `é\u00e9" }`,
	}
	add(t, dir, key("p", "odd-session"), odd...)
	require.Equal(t, strings.Join(odd, "\n")+"\n", ok(t, "show", "-s", dir, "odd-session", "--json"))
	require.Equal(t, strings.Join(odd, "\n")+"\n", ok(t, "export", "-s", dir, "odd-session", "-"))

	file, err := os.ReadFile(filepath.Join(dir, recordedKey, recordedID+".jsonl"))
	require.NoError(t, err)
	require.Equal(t, string(file), ok(t, "show", "-s", dir, recordedID, "--json"))
	all := ok(t, "show", "-s", dir, recordedID, "--json", "--subagents")
	require.True(t, strings.HasPrefix(all, string(file)))
	require.Equal(t, 60+102+7, strings.Count(all, "\n"))
}

// kindsShown is what TestShowKindsOfEntries expects.
const kindsShown = `user  2026-01-02 03:04:05
  plain

assistant  2026-01-03 03:04:05
  (thinking)
    let me think
  [thinking, encrypted]
  answer
  → Odd  {"x":1}
  [image, image/png, 4 B]
  [future]
  ← (no output)
  ← a
    [image]
    [z]

── conversation compacted (auto), 123,456 tokens before ──────────────────────

summary of the earlier conversation
  so far

── system: a notice ──────────────────────────────────────────────────────────

11 entries, 6 shown; not shown: 2 (no type), 1 system/turn_duration, 1 user
(empty), 1 user (meta); --json shows all entries
`

func TestShowKindsOfEntries(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "kinds"),
		`{"type":"user","timestamp":"2026-01-02T03:04:05Z","message":{"content":"plain"}}`,
		`{"type":"user","isMeta":true,"message":{"content":"meta"}}`,
		`{"type":"assistant","timestamp":"2026-01-03T03:04:05Z","message":{"content":[
			{"type":"thinking","thinking":"let me think"},{"type":"redacted_thinking","data":"x"},
			{"type":"text","text":"answer"},{"type":"tool_use","name":"Odd","input":{"x":1}},
			{"type":"image","source":{"media_type":"image/png","data":"AAAA"}},{"type":"future"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"","is_error":false},
			{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"z"}]}]}}`,
		`{"type":"system","subtype":"compact_boundary","content":"x","compactMetadata":{"trigger":"auto","preTokens":123456}}`,
		`{"type":"user","isCompactSummary":true,"message":{"content":"so far"}}`,
		`{"type":"system","subtype":"info","content":"a notice"}`,
		`{"type":"system","subtype":"turn_duration"}`,
		`{"type":"user"}`, `{"no":"type"}`, `{"type":7}`,
	)
	require.Equal(t, kindsShown, ok(t, "show", "-s", dir, "kinds"))
}

func TestHeadingsFollowTheTime(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	said := func(at, text string) string {
		return `{"type":"assistant","timestamp":"` + at + `","message":{"content":"` + text + `"}}`
	}
	lines := []string{
		said("2026-01-02T03:04:05Z", "one"), said("2026-01-02T03:04:59Z", "same minute"),
		said("2026-01-02T03:05:00Z", "next minute"), `{"type":"assistant","message":{"content":"no time"}}`,
		said("2026-01-03T03:05:00Z", "next day"),
	}
	want := "assistant  2026-01-02 03:04:05\n  one\n  same minute\n\nassistant  03:05:00\n  next minute\n  no time\n\n" +
		"assistant  2026-01-03 03:05:00\n  next day\n"
	add(t, dir, key("p", "times"), lines...)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: "times", Subpath: "subagents/agent-a"}, lines[4])
	require.Contains(t, ok(t, "show", "-s", dir, "times"), want)
	require.Contains(t, ok(t, "show", "-s", dir, "times", "--subagents"), "─\n\nassistant  2026-01-03 03:05:00\n  next day\n\n1 entry\n")
}

func TestTranscriptCannotControlTheTerminal(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	attack := `\u001b]0;title\u0007 \u001b[2J \u009b31m \u001b[31mred\u001b[0m \r\rback \b\u007f \u202egnp.exe\u2066 \u0000 \u0085 \ud83d`
	add(t, dir, key("p", "attack"),
		`{"type":"user","timestamp":"2026-01-02T03:04:05Z","message":{"content":"`+attack+`"}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"`+attack+`"},{"type":"thinking","thinking":"`+attack+`"},
			{"type":"tool_use","name":"`+attack+`","input":{"command":"`+attack+`"}},{"type":"`+attack+`"},
			{"type":"image","source":{"media_type":"`+attack+`"}}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"`+attack+`"},{"type":"tool_result","content":[{"type":"`+attack+`"}]}]}}`,
		`{"type":"system","content":"`+attack+`"}`,
		`{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"`+attack+`"}}`,
		`{"type":"system","subtype":"`+attack+`"}`,
		`{"type":"`+attack+`"}`,
	)
	for _, args := range [][]string{{"show", "-s", dir, "attack"}, {"show", "-s", dir, "attack", "--full"}} {
		out := ok(t, args...)
		require.Contains(t, out, "␛]0;title␇ ␛[2J")
		require.Contains(t, out, " red ", "colours are taken out")
		for _, r := range out {
			safe := r == '\n' || r >= 0x20 && r != 0x7F && !(0x80 <= r && r < 0xA0) && !changesDirection(r)
			require.True(t, safe, "%U in %q", r, out)
		}
	}
}

func TestColours(t *testing.T) {
	a := newApp(nil, &bytes.Buffer{}, nil)
	require.False(t, a.style().on, "not a terminal")
	a.out.is = true
	t.Setenv("TERM", "xterm")
	require.True(t, a.style().on)
	t.Setenv("NO_COLOR", "1")
	require.False(t, a.style().on)
	t.Setenv("NO_COLOR", "")
	a.noColor = true
	require.False(t, a.style().on)

	var out bytes.Buffer
	v := newView(&out, style{on: true}, 80, false)
	v.entry(sessionstore.Entry(`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]}}`))
	require.Equal(t, "\x1b[1;34massistant\x1b[0m\n  \x1b[2m(thinking)\x1b[0m\n    \x1b[2mhm\x1b[0m\n", out.String())
}

func TestUnreadableLinesAreReportedAndNotFatal(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), hello)
	path := filepath.Join(dir, "p", uuid(1)+".jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("not json\n[1]\n{\"cut\n{}x\n" + `{"type":"user","uuid":"u2","message":{"content":"after"}}` + "\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())

	r := cli(t, "show", "-s", dir, uuid(1))
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, "after")
	require.Equal(t, 4, strings.Count(r.stderr, "\n"), r.stderr)
	require.Contains(t, r.stderr, "warning: skipped "+path+":2: ")
	require.Contains(t, r.stderr, "warning: skipped 4 lines or files in all")

	r = cli(t, "ls", "-s", dir, "p")
	require.Equal(t, exitOK, r.code)
	require.Empty(t, r.stderr, "a list tells nothing of lines, since it reads few of them")

	r = cli(t, "copy", dir, "mem:", "--json")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, `"entries":2`)
	require.Contains(t, r.stdout, `"skippedLines":4,"skipped":[{"path":"`+path+`","line":2,"error":"`)
	require.Empty(t, r.stderr)
}
