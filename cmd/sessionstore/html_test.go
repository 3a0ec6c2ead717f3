package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
)

func TestHTMLOfTheRecordedSession(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	out := ok(t, "show", "-s", dir, recordedID, "--html", "-")
	require.True(t, strings.HasPrefix(out, "<!DOCTYPE html>\n"))
	require.True(t, strings.HasSuffix(out, "</html>\n"))
	require.Contains(t, out, "<title>Nested agents [[script:subnest]]</title>")
	require.Contains(t, out, "Content-Security-Policy")
	require.Contains(t, out, "prefers-color-scheme: dark")
	require.Equal(t, 7, strings.Count(out, `<details class="agent">`), "each subagent once")
	inner := strings.Index(out, "general-purpose: Inner agent")
	outer := strings.Index(out, "general-purpose: Outer agent")
	require.Less(t, outer, inner)
	require.Less(t, inner, strings.Index(out, "Inner reported."), "a subagent lies inside the one that started it")
	require.NotContains(t, out, "Other subagents")
	require.Contains(t, out, "<b>result of Agent: Part one</b>")
	requireSelfContained(t, out)
	require.Equal(t, strings.Count(out, "<details"), strings.Count(out, "</details>"))
	require.Equal(t, strings.Count(out, "<article"), strings.Count(out, "</article>"))

	path := filepath.Join(t.TempDir(), "page.html")
	r := cli(t, "show", "-s", dir, recordedID, "--html", path)
	require.Equal(t, exitOK, r.code)
	require.Equal(t, "wrote "+path+"\n", r.stderr)
	require.Empty(t, r.stdout)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, out, string(written))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "transcripts are private")
	fails(t, exitFailure, "show", "-s", dir, recordedID, "--html", filepath.Join(t.TempDir(), "none", "page.html"))
}

// requireSelfContained: nothing in the page runs or is fetched.
func requireSelfContained(t *testing.T, page string) {
	t.Helper()
	require.NotRegexp(t, `(?i)<(script|link|iframe|object|embed|form|base|a|svg|video|audio)\b`, page)
	require.NotRegexp(t, `(?i)<[^>]*\son[a-z]+\s*=`, page)
	require.NotRegexp(t, `(?i)url\(|@import`, page)
	for _, m := range regexp.MustCompile(`(?i)\s(?:src|href|srcset|action|data)="([^"]*)`).FindAllStringSubmatch(page, -1) {
		require.True(t, strings.HasPrefix(m[1], "data:image/"), m[1])
	}
	require.NotContains(t, page, "ZgotmplZ")
}

func TestHTMLCannotBeBrokenByATranscript(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	attack := `</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\" onclick=\"x ' --><!-- {{.Title}} javascript:alert(1) \u001b[2J \u202egnp \u0000 \ud83d`
	add(t, dir, key("p", uuid(1)),
		`{"type":"user","uuid":"x\" onclick=\"x","cwd":"`+attack+`","gitBranch":"`+attack+`","timestamp":"`+attack+`","message":{"content":"`+attack+`\n\n# `+attack+`\n- `+attack+`\n`+"```"+attack+`\n`+attack+`\n`+"```"+`\n`+"`"+attack+"`"+` **`+attack+`**"}}`,
		`{"type":"assistant","uuid":"b","parentUuid":"x\" onclick=\"x","message":{"content":[{"type":"thinking","thinking":"`+attack+`"},
			{"type":"tool_use","id":"`+attack+`","name":"`+attack+`","input":{"command":"`+attack+`","`+attack+`":1}},{"type":"`+attack+`"},
			{"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"AAAA"}},
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+attack+`"}},
			{"type":"image","source":{"type":"url","url":"https://example.com/x.png"}}]}}`,
		`{"type":"user","uuid":"c","parentUuid":"b","message":{"content":[{"type":"tool_result","tool_use_id":"`+attack+`","is_error":true,"content":"`+attack+`"}]}}`,
		`{"type":"system","uuid":"d","parentUuid":"c","content":"`+attack+`"}`,
		`{"type":"user","uuid":"e","parentUuid":"d","message":{"content":"end"}}`,
		`{"type":"custom-title","customTitle":"`+attack+`"}`, `{"type":"tag","tag":"`+attack+`"}`)
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: uuid(1), Subpath: "subagents/agent-<script>"},
		`{"type":"agent_metadata","agentType":"`+attack+`","description":"`+attack+`","toolUseId":"`+attack+`"}`,
		`{"type":"user","uuid":"a","message":{"content":"`+attack+`"}}`)
	for _, args := range [][]string{{"--system"}, {"--all"}} {
		out := ok(t, append([]string{"show", "-s", dir, uuid(1), "--html", "-"}, args...)...)
		requireSelfContained(t, out)
		require.Contains(t, out, "&lt;script&gt;alert(1)&lt;/script&gt;")
		require.Contains(t, out, `<details class="agent">`)
		for _, tag := range []string{"pre", "code", "details", "article", "div", "p"} {
			opened := strings.Count(out, "<"+tag+">") + strings.Count(out, "<"+tag+" ")
			require.Equal(t, opened, strings.Count(out, "</"+tag+">"), tag)
		}
		for _, r := range out {
			require.True(t, r == '\n' || r >= 0x20 && r != 0x7F && !changesDirection(r), "%U", r)
		}
	}
}

func TestHTMLShowsImages(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	data := base64.StdEncoding.EncodeToString([]byte("not really a picture"))
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	add(t, dir, key("p", uuid(1)),
		`{"type":"user","uuid":"a","message":{"content":[`+image+`]}}`,
		`{"type":"user","uuid":"b","parentUuid":"a","message":{"content":[{"type":"tool_result","content":[`+image+`]}]}}`)
	out := ok(t, "show", "-s", dir, uuid(1), "--html", "-")
	require.Equal(t, 2, strings.Count(out, `<img src="data:image/png;base64,`+data+`" alt="image">`))
	requireSelfContained(t, out)
}

func TestHTMLNamesWhatFailed(t *testing.T) {
	home(t)
	dir, main := recordedSession(t, "tools-multiturn")
	require.Contains(t, ok(t, "show", "-s", dir, main.String(), "--html", "-"), "<b>Bash failed")
	require.Equal(t, "failed", toolCall{}.titleOf(true))
	require.Equal(t, "result", toolCall{}.titleOf(false))
}

func TestHTMLMarksGapsAndCompactions(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(1)), gapLines()...)
	r := cli(t, "show", "-s", dir, uuid(1), "--html", "-")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, `<div class="mark-line bad" role="separator">gap: the message before is missing; 2 earlier messages not reached</div>`)
	require.Contains(t, r.stderr, "warning: gap in p/")

	dir, main := recordedSession(t, "compact-auto")
	out := ok(t, "show", "-s", dir, main.String(), "--html", "-", "--system")
	require.Contains(t, out, "<span>summary of the earlier conversation</span>")
	require.Contains(t, out, `<article class="note"`)
	require.Contains(t, out, "conversation compacted (auto)")
}

func TestHTMLOfOneTranscriptAndOfStoredOrder(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	out := ok(t, "show", "-s", dir, recordedID+"#subagents/agent-a54a7a95de8336d08", "--html", "-")
	require.Contains(t, out, "<dd dir=\"auto\">subagents/agent-a54a7a95de8336d08</dd>")
	require.NotContains(t, out, `<details class="agent">`)
	add(t, dir, key("p", "no-uuid"), hello)
	require.Contains(t, ok(t, "show", "-s", dir, "no-uuid", "--html", "-"), "hello")
	add(t, dir, sessionstore.Key{ProjectKey: "p", SessionID: "lonely", Subpath: "subagents/agent-x"}, hello)
	out = ok(t, "show", "-s", dir, "p/lonely", "--html", "-")
	require.Contains(t, out, "<h2>Other subagents</h2>")
	require.Contains(t, out, `<b>x</b><span class="count">1 entry</span>`)
}

func TestHTMLOfADeeplyNestedInputStaysSmall(t *testing.T) {
	deep := strings.Repeat(`{"a":[1,`, 4500) + "2" + strings.Repeat("]}", 4500)
	require.Equal(t, deep, toolInputText(gjson.Parse(deep)))
	wide := strings.Repeat("[", 40) + strings.Repeat("1,", 100_000) + "1" + strings.Repeat("]", 40)
	require.Equal(t, wide, toolInputText(gjson.Parse(wide)))
	require.Equal(t, "{\n  \"a\": [\n    \"x,[\\\",{\"\n  ]\n}", toolInputText(gjson.Parse(`{"a":["x,[\",{"]}`)))
	text := `{"a":"` + strings.Repeat(`[\"`, 3000) + `"}`
	require.Equal(t, "{\n  "+strings.Replace(text[1:len(text)-1], ":", ": ", 1)+"\n}", toolInputText(gjson.Parse(text)), "brackets in a text do not count")
}
