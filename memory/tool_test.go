package memory_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a tool on a new store, and what a test does with it.
type bench struct {
	*testing.T
	store memory.Store
	tool  *memory.Tool
}

func newBench(t *testing.T, options *memory.Options) *bench {
	t.Helper()
	store, err := memmap.New("scope")
	require.NoError(t, err)
	tool, err := memory.New(store, options)
	require.NoError(t, err)
	return &bench{t, store, tool}
}

func (b *bench) put(path, text string) {
	b.Helper()
	require.NoError(b, b.store.Write(b.Context(), path, []byte(text), "", memory.Limits{}))
}

func (b *bench) raw(path string) string {
	b.Helper()
	f, err := b.store.Read(b.Context(), path, 0)
	require.NoError(b, err)
	return string(f.Data)
}

func (b *bench) paths() []string {
	list, err := b.store.List(b.Context(), memory.Root)
	require.NoError(b, err)
	paths := []string{}
	for _, f := range list {
		paths = append(paths, f.Path)
	}
	return paths
}

// run runs a command: its name and then pairs of field and value.
func (b *bench) run(command string, fields ...any) memory.Result {
	b.Helper()
	input := map[string]any{"command": command}
	for i := 0; i < len(fields); i += 2 {
		input[fields[i].(string)] = fields[i+1]
	}
	raw, err := json.Marshal(input)
	require.NoError(b, err)
	return b.tool.Run(b.Context(), raw)
}

func (b *bench) ok(want, command string, fields ...any) {
	b.Helper()
	r := b.run(command, fields...)
	require.Equal(b, want, r.Text())
	require.False(b, r.IsError)
	require.NoError(b, r.Err)
}

func (b *bench) fails(want, command string, fields ...any) {
	b.Helper()
	r := b.run(command, fields...)
	require.Equal(b, want, r.Text())
	require.True(b, r.IsError)
	require.NoError(b, r.Err, "what the model did wrong is no failure of the host")
}

func TestViewOfADirectory(t *testing.T) {
	b := newBench(t, nil)
	const head = "Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:\n"
	b.ok(fmt.Sprintf(head, "/memories")+"0B\t/memories", "view", "path", "/memories")
	b.put("/memories/notes.md", strings.Repeat("x", 1536))
	b.put("/memories/a/one", strings.Repeat("x", 4096))
	b.put("/memories/a/b/two", strings.Repeat("x", 1258291))
	b.put("/memories/a/b/c/three", "123")
	b.put("/memories/a-z", "1234567")
	b.put("/memories/.hidden", "12")
	b.put("/memories/a/.hidden/x", "12")
	b.put("/memories/node_modules/x", "12")
	b.put("/memories/empty", "")
	b.ok(fmt.Sprintf(head, "/memories")+"1.2M\t/memories\n1.2M\t/memories/a\n1.2M\t/memories/a/b\n4.0K\t/memories/a/one\n"+
		"7B\t/memories/a-z\n0B\t/memories/empty\n1.5K\t/memories/notes.md", "view", "path", "/memories")
	b.ok(fmt.Sprintf(head, "/memories/a/b/c")+"3B\t/memories/a/b/c\n3B\t/memories/a/b/c/three", "view", "path", "/memories/a/b/c")
	b.fails("The path /memories/none does not exist. Please provide a valid path.", "view", "path", "/memories/none")
}

func TestViewOfAFile(t *testing.T) {
	b := newBench(t, nil)
	const head = "Here's the content of /memories/f with line numbers:\n"
	b.put("/memories/f", "one\ntwo\r\n\n  four")
	b.ok(head+"     1\tone\n     2\ttwo\r\n     3\t\n     4\t  four", "view", "path", "/memories/f")
	b.put("/memories/empty", "")
	b.ok("Here's the content of /memories/empty with line numbers:\n", "view", "path", "/memories/empty")
	b.put("/memories/binary", "a\xffb")
	b.ok("Here's the content of /memories/binary with line numbers:\n     1\ta\uFFFDb", "view", "path", "/memories/binary")
}

func TestViewRange(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")
	const head = "Here's the content of /memories/f with line numbers:\n"
	lines := func(from, to int) string {
		var rows []string
		for n := from; n <= to; n++ {
			rows = append(rows, fmt.Sprintf("%6d\t%d", n, n))
		}
		return head + strings.Join(rows, "\n")
	}
	for _, c := range []struct{ start, end, from, to int }{{3, 5, 3, 5}, {8, -1, 8, 10}, {8, 99, 8, 10}, {1, 1, 1, 1}, {10, 10, 10, 10}} {
		b.ok(lines(c.from, c.to), "view", "path", "/memories/f", "view_range", []int{c.start, c.end})
	}
	b.ok(lines(1, 10), "view", "path", "/memories/f", "view_range", nil)
	for _, c := range []any{[]int{5, 3}, []int{0, 2}, []int{-1, -1}, []int{11, 12}, []int{3, -2}, []int{2}, []any{"a", 1}, []any{1.5, 2}, []int{1, 2, 3}, "1", 3, map[string]int{}} {
		r := b.run("view", "path", "/memories/f", "view_range", c)
		require.True(t, r.IsError, "%v", c)
		require.Contains(t, r.Text(), "view_range", "%v", c)
	}
}

func TestLongViewsAreCutWithANote(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/f", strings.Repeat("ä line of text\n", 2000))
	r := b.run("view", "path", "/memories/f")
	require.False(t, r.IsError)
	require.LessOrEqual(t, utf8.RuneCountInString(r.Text()), 16_000)
	require.Greater(t, utf8.RuneCountInString(r.Text()), 15_500)
	var last, next, end int
	cut := strings.LastIndex(r.Text(), "\n\n[Cut here")
	_, err := fmt.Sscanf(r.Text()[strings.LastIndex(r.Text()[:cut], "\n")+1:], "%d", &last)
	require.NoError(t, err)
	_, err = fmt.Sscanf(r.Text()[strings.Index(r.Text(), "view_range"):], "view_range [%d, %d]", &next, &end)
	require.NoError(t, err)
	require.Equal(t, []int{last + 1, 2000}, []int{next, end})

	b.put("/memories/long", strings.Repeat("é", 20_000)+"\nsecond")
	r = b.run("view", "path", "/memories/long")
	require.LessOrEqual(t, utf8.RuneCountInString(r.Text()), 16_000)
	require.Contains(t, r.Text(), "Line 1 is longer than that. Use view_range [2, 2] to go on.]")

	for i := range 1000 {
		b.put(fmt.Sprintf("/memories/many/%030d", i), "")
	}
	r = b.run("view", "path", "/memories/many")
	require.LessOrEqual(t, utf8.RuneCountInString(r.Text()), 16_000)
	require.Regexp(t, `of 1001 files and directories fit`, r.Text())

	b = newBench(t, &memory.Options{MaxViewChars: -1})
	b.put("/memories/f", strings.Repeat("line\n", 100_000))
	require.NotContains(t, b.run("view", "path", "/memories/f").Text(), "[Cut here")
}

func TestTooManyLines(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/f", strings.Repeat("\n", 1_000_000))
	b.fails("File /memories/f exceeds maximum line limit of 999,999 lines.", "view", "path", "/memories/f")
	b.put("/memories/g", strings.Repeat("\n", 999_999))
	require.False(t, b.run("view", "path", "/memories/g", "view_range", []int{999_999, -1}).IsError)
}

func TestImages(t *testing.T) {
	b := newBench(t, nil)
	png := []byte("\x89PNG\r\n\x1a\n rest")
	b.put("/memories/a.PNG", string(png))
	r := b.run("view", "path", "/memories/a.PNG")
	got, err := json.Marshal(r.Content)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+base64.StdEncoding.EncodeToString(png)+`"}}]`, string(got))
	b.put("/memories/b.jpg", "\xff\xd8\xff\xe0 rest")
	require.Equal(t, "image/jpeg", b.run("view", "path", "/memories/b.jpg").Content[0].MediaType)
	b.ok("File created successfully at: /memories/c.png", "create", "path", "/memories/c.png", "file_text", "no image")
	b.ok("Here's the content of /memories/c.png with line numbers:\n     1\tno image", "view", "path", "/memories/c.png")
}

func TestCreate(t *testing.T) {
	b := newBench(t, nil)
	text := "a\r\nb\r\n \ufeff$& %s\x00"
	b.ok("File created successfully at: /memories/d/f", "create", "path", "/memories/d/f", "file_text", text)
	require.Equal(t, text, b.raw("/memories/d/f"))
	b.fails("Error: File /memories/d/f already exists", "create", "path", "/memories/d/f", "file_text", "x")
	b.fails("Error: File /memories/d already exists", "create", "path", "/memories/d", "file_text", "x")
	b.fails("Error: File /memories already exists", "create", "path", "/memories", "file_text", "x")
	b.fails("Error: /memories/d/f/x cannot be made, because a directory above it is a file. Choose another path.", "create", "path", "/memories/d/f/x", "file_text", "x")
	require.Equal(t, []string{"/memories/d/f"}, b.paths())

	b = newBench(t, &memory.Options{Overwrite: true})
	b.ok("File created successfully at: /memories/d/f", "create", "path", "/memories/d/f", "file_text", "1")
	b.ok("File created successfully at: /memories/d/f", "create", "path", "/memories/d/f", "file_text", "2")
	require.Equal(t, "2", b.raw("/memories/d/f"))
	b.fails("Error: File /memories/d already exists", "create", "path", "/memories/d", "file_text", "x")
}

func TestStrReplace(t *testing.T) {
	for _, c := range []struct{ name, text, before, after, want string }{
		{"several lines", "## Notes\n- (none yet)\n", "## Notes\n- (none yet)", "## Notes\n- one", "## Notes\n- one\n"},
		{"literal dollars", "price: X\n", "X", "cost $& $1 \\1 %s $$ ${1} $'", "price: cost $& $1 \\1 %s $$ ${1} $'\n"},
		{"CRLF", "a\r\nb\r\n", "a\r\nb", "c", "c\r\n"},
		{"lone CR and BOM", "\ufeffa\rb  ", "b", "c", "\ufeffa\rc  "},
		{"nothing left", "all", "all", "", ""},
		{"bytes that are no text", "\xff\xfea\x00", "a", "b", "\xff\xfeb\x00"},
	} {
		b := newBench(t, nil)
		b.put("/memories/f", c.text)
		r := b.run("str_replace", "path", "/memories/f", "old_str", c.before, "new_str", c.after)
		require.False(t, r.IsError, "%s: %s", c.name, r.Text())
		require.True(t, strings.HasPrefix(r.Text(), "The memory file has been edited."), c.name)
		require.Equal(t, c.want, b.raw("/memories/f"), c.name)
	}
}

func TestStrReplaceShowsTheLinesAround(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/f", "1\n2\n3\n4\n5\n6\n7\n8\n")
	b.ok("The memory file has been edited.\n     2\t2\n     3\t3\n     4\tx\n     5\ty\n     6\t5\n     7\t6", "str_replace", "path", "/memories/f", "old_str", "4", "new_str", "x\ny")
	b.ok("The memory file has been edited.\n     1\tx\n     2\ty", "str_replace", "path", "/memories/f", "old_str", "1\n2\n3\nx\ny\n5\n6\n7\n8\n", "new_str", "x\ny")
	b.ok("The memory file has been edited.", "str_replace", "path", "/memories/f", "old_str", "x\ny", "new_str", nil)
	require.Empty(t, b.raw("/memories/f"))
	b.put("/memories/g", "keep this")
	b.ok("The memory file has been edited.\n     1\tkeep", "str_replace", "path", "/memories/g", "old_str", " this")
}

func TestStrReplaceRefuses(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/f", "a a\nb\n")
	b.put("/memories/g", "x\ny\nx\ny\n")
	b.put("/memories/crlf", "a\r\nb\r\n")
	b.fails("No replacement was performed. Multiple occurrences of old_str `a` in lines: 1. Please ensure it is unique", "str_replace", "path", "/memories/f", "old_str", "a", "new_str", "c")
	b.fails("No replacement was performed. Multiple occurrences of old_str `x\ny` in lines: 1, 3. Please ensure it is unique", "str_replace", "path", "/memories/g", "old_str", "x\ny", "new_str", "c")
	b.fails("No replacement was performed, old_str `a\nb` did not appear verbatim in /memories/crlf.", "str_replace", "path", "/memories/crlf", "old_str", "a\nb", "new_str", "c")
	b.fails("Error: The path /memories/none does not exist. Please provide a valid path.", "str_replace", "path", "/memories/none", "old_str", "a", "new_str", "c")
	b.put("/memories/d/x", "a")
	for _, dir := range []string{"/memories/d", "/memories"} {
		b.fails("Error: The path "+dir+" does not exist. Please provide a valid path.", "str_replace", "path", dir, "old_str", "a", "new_str", "c")
	}
	b.fails("Error: The field `old_str` must not be empty.", "str_replace", "path", "/memories/f", "old_str", "", "new_str", "c")
	require.Equal(t, "a a\nb\n", b.raw("/memories/f"))
}

func TestInsert(t *testing.T) {
	for _, c := range []struct {
		text   string
		line   int
		insert string
		want   string
	}{
		{"a\nb\nc", 3, "X", "a\nb\nc\nX"}, {"a\nb\nc", 3, "X\n", "a\nb\nc\nX\n"}, {"a\nb\nc", 0, "X", "X\na\nb\nc"}, {"a\nb\nc", 1, "X\n", "a\nX\nb\nc"},
		{"a\nb\n", 2, "X", "a\nb\nX\n"}, {"", 0, "X", "X\n"}, {"", 0, "X\n", "X\n"}, {"a\r\nb\r\n", 1, "X\r\n", "a\r\nX\r\nb\r\n"},
		{"a\n", 1, "", "a\n\n"}, {"\n", 1, "$&%s", "\n$&%s\n"}, {"a\n", 0, "x\ny\n\n", "x\ny\n\na\n"},
	} {
		b := newBench(t, nil)
		b.put("/memories/f", c.text)
		b.ok("The file /memories/f has been edited.", "insert", "path", "/memories/f", "insert_line", c.line, "insert_text", c.insert)
		require.Equal(t, c.want, b.raw("/memories/f"), "%q inserted into %q at %d", c.insert, c.text, c.line)
	}
	b := newBench(t, nil)
	b.put("/memories/f", "a\nb\nc")
	for _, line := range []int{-1, 4, 100} {
		b.fails(fmt.Sprintf("Error: Invalid `insert_line` parameter: %d. It should be within the range of lines of the file: [0, 3]", line),
			"insert", "path", "/memories/f", "insert_line", line, "insert_text", "X")
	}
	b.fails("Error: The path /memories/none does not exist", "insert", "path", "/memories/none", "insert_line", 0, "insert_text", "X")
	b.fails("Error: The path /memories does not exist", "insert", "path", "/memories", "insert_line", 0, "insert_text", "X")
	require.Equal(t, "a\nb\nc", b.raw("/memories/f"))
}

func TestDelete(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/d/1", "")
	b.put("/memories/d/e/2", "")
	b.put("/memories/f", "")
	b.ok("Successfully deleted /memories/f", "delete", "path", "/memories/f")
	b.ok("Successfully deleted /memories/d", "delete", "path", "/memories/d")
	b.fails("Error: The path /memories/d does not exist", "delete", "path", "/memories/d")
	b.fails("Error: The root directory /memories cannot be deleted", "delete", "path", "/memories")
	require.Empty(t, b.paths())
}

func TestRename(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/a", "new")
	b.put("/memories/b", "keep")
	b.put("/memories/d/x", "")
	b.fails("Error: The destination /memories/b already exists", "rename", "old_path", "/memories/a", "new_path", "/memories/b")
	b.fails("Error: The destination /memories/d already exists", "rename", "old_path", "/memories/a", "new_path", "/memories/d")
	b.fails("Error: The destination /memories/b already exists", "rename", "old_path", "/memories/d", "new_path", "/memories/b")
	b.fails("Error: The destination /memories/d already exists", "rename", "old_path", "/memories/d", "new_path", "/memories/d")
	b.fails("Error: The destination /memories already exists", "rename", "old_path", "/memories/d", "new_path", "/memories")
	b.fails("Error: The path /memories/none does not exist", "rename", "old_path", "/memories/none", "new_path", "/memories/b")
	b.fails("Error: The path /memories/none does not exist", "rename", "old_path", "/memories/none", "new_path", "/memories/none")
	b.fails("Error: The root directory /memories cannot be renamed", "rename", "old_path", "/memories", "new_path", "/memories/x")
	b.fails("Error: /memories/d cannot be renamed to /memories/d/e, which lies inside it", "rename", "old_path", "/memories/d", "new_path", "/memories/d/e")
	b.fails("Error: The `new_path` is not allowed: invalid path: /etc/x: it must be /memories or begin with /memories/", "rename", "old_path", "/memories/a", "new_path", "/etc/x")
	require.Equal(t, []string{"/memories/a", "/memories/b", "/memories/d/x"}, b.paths())
	b.ok("Successfully renamed /memories/d to /memories/to/d", "rename", "old_path", "/memories/d", "new_path", "/memories/to/d")
	b.ok("Successfully renamed /memories/a to /memories/c", "rename", "old_path", "/memories/a", "new_path", "/memories/c")
	require.Equal(t, []string{"/memories/b", "/memories/c", "/memories/to/d/x"}, b.paths())
	require.Equal(t, "new", b.raw("/memories/c"))
}

func TestARenamedDirectoryKeepsToTheLimitOfPaths(t *testing.T) {
	b := newBench(t, nil)
	b.put("/memories/d/"+strings.Repeat("a", 240), "")
	long := "/memories/" + strings.Repeat("b", 200) + "/" + strings.Repeat("c", 200)
	r := b.run("rename", "old_path", "/memories/d", "new_path", long)
	require.True(t, r.IsError)
	require.Contains(t, r.Text(), "new_path")
	require.Len(t, b.paths(), 1)
}

func TestWrongInput(t *testing.T) {
	b := newBench(t, nil)
	for input, want := range map[string]string{
		``: "one JSON object", `null`: "one JSON object", `[]`: "one JSON object", `{`: "one JSON object", "\xff": "UTF-8",
		`{}`: "`command` is missing", `{"command":3}`: "`command` must be a string", `{"command":"shell"}`: "Unknown command shell",
		`{"COMMAND":"view"}`: "`command` is missing", `{"command":"view"}`: "`path` is missing", `{"command":"view","path":null}`: "`path` is missing",
		`{"command":"view","path":["/memories"]}`:                                       "`path` must be a string",
		`{"command":"create","path":"/memories/f"}`:                                     "`file_text` is missing",
		`{"command":"create","path":"/memories/f","file_text":"\ud83d"}`:                "`file_text` holds half",
		`{"command":"create","path":"/memories/f","file_text":"\ude00"}`:                "`file_text` holds half",
		`{"command":"create","path":"/memories/f","file_text":"\ud83dx\ude00"}`:         "`file_text` holds half",
		`{"command":"str_replace","path":"/memories/f"}`:                                "`old_str` is missing",
		`{"command":"str_replace","path":"/memories/f","old_str":"a","new_str":1}`:      "`new_str` must be a string",
		`{"command":"insert","path":"/memories/f","insert_text":"a"}`:                   "`insert_line` is missing",
		`{"command":"insert","path":"/memories/f","insert_line":"1","insert_text":"a"}`: "`insert_line` must be an integer",
		`{"command":"insert","path":"/memories/f","insert_line":1.5,"insert_text":"a"}`: "`insert_line` must be an integer",
		`{"command":"insert","path":"/memories/f","insert_line":1}`:                     "`insert_text` is missing",
		`{"command":"rename","old_path":"/memories/f"}`:                                 "`new_path` is missing",
		`{"command":"rename","new_path":"/memories/f"}`:                                 "`old_path` is missing",
		`{"command":"delete"}`: "`path` is missing",
		`{"command":"insert","path":"/memories/f","insert_line":1e99,"insert_text":"a"}`:   "`insert_line` must be an integer",
		`{"command":"` + strings.Repeat("long ", 1000) + `","path":"/memories"}`:           "Unknown command",
		`{"command":"view","path":"/memories/` + strings.Repeat("long ", 1000) + `"}`:      "bytes after escaping",
		`{"command":"view","path":"/memories/f\u0000"}`:                                    "path` is not allowed",
		`{"command":"create","path":"/memories/../x","file_text":"a"}`:                     "path` is not allowed",
		`{"command":"rename","old_path":"/memories/%2e%2e/x","new_path":"/memories/f"}`:    "`old_path` is not allowed",
		`{"command":"str_replace","path":"/memories_backup/f","old_str":"a"}`:              "`path` is not allowed",
		`{"command":"insert","path":"/memories\\..\\x","insert_line":1,"insert_text":"a"}`: "`path` is not allowed",
		`{"command":"delete","path":"/memories/"}`:                                         "`path` is not allowed",
		`{"command":"rename","old_path":"/memories/","new_path":"/memories/y"}`:            "`old_path` is not allowed",
		`{"command":"insert","path":"/memories/f","insert_line":true,"insert_text":"a"}`:   "`insert_line` must be an integer",
	} {
		r := b.tool.Run(t.Context(), json.RawMessage(input))
		require.True(t, r.IsError, input)
		require.NoError(t, r.Err, input)
		require.Contains(t, r.Text(), want, input)
		require.Less(t, len(r.Text()), 2000, input)
	}
	require.Empty(t, b.paths())
	require.False(t, b.tool.Run(t.Context(), json.RawMessage(`{"command":"create","path":"/memories/f","file_text":"\ud83d\ude00 \\ud83d","more":1}`)).IsError)
	require.Equal(t, "😀 \\ud83d", b.raw("/memories/f"))
}

func TestLimits(t *testing.T) {
	b := newBench(t, &memory.Options{MaxFileBytes: 10, MaxFiles: 2, MaxBytes: 15})
	b.fails("Error: The file /memories/1 would have 11 bytes. At most 10 are allowed; nothing was changed.", "create", "path", "/memories/1", "file_text", "12345678901")
	b.ok("File created successfully at: /memories/1", "create", "path", "/memories/1", "file_text", "1234567890")
	b.fails("Error: The file /memories/1 would have 11 bytes. At most 10 are allowed; nothing was changed.", "str_replace", "path", "/memories/1", "old_str", "0", "new_str", "ab")
	b.fails("Error: The memory is full, so nothing was changed. It holds at most 2 files and 15 bytes. Delete or shorten files to make room.", "create", "path", "/memories/2", "file_text", "123456")
	b.ok("File created successfully at: /memories/2", "create", "path", "/memories/2", "file_text", "12345")
	b.fails("Error: The memory is full, so nothing was changed. It holds at most 2 files and 15 bytes. Delete or shorten files to make room.", "create", "path", "/memories/3", "file_text", "")
	require.Equal(t, []string{"/memories/1", "/memories/2"}, b.paths())
	b.put("/memories/large", "12345678901")
	b.fails("Error: The file /memories/large is larger than the limit of 10 bytes.", "view", "path", "/memories/large")
	b.fails("Error: The file /memories/large is larger than the limit of 10 bytes.", "insert", "path", "/memories/large", "insert_line", 0, "insert_text", "x")
	b.ok("Successfully deleted /memories/large", "delete", "path", "/memories/large")
}

func TestRedactSeesWholeFiles(t *testing.T) {
	var seen []string
	b := newBench(t, &memory.Options{Redact: func(_ context.Context, path, text string) (string, error) {
		seen = append(seen, path+": "+text)
		switch {
		case strings.Contains(text, "refuse"):
			return "", memory.Refusal("no secrets in memory")
		case strings.Contains(text, "broken"):
			return "", errors.New("dial tcp 10.0.0.1:443: refused")
		case strings.Contains(text, "panic"):
			panic("hook")
		}
		return strings.ReplaceAll(text, "sk-123", "[secret]"), nil
	}})
	b.ok("File created successfully at: /memories/f", "create", "path", "/memories/f", "file_text", "key: sk-")
	b.ok("The memory file has been edited.\n     1\tkey: [secret]", "str_replace", "path", "/memories/f", "old_str", "sk-", "new_str", "sk-123")
	require.Equal(t, "key: [secret]", b.raw("/memories/f"))
	require.Equal(t, []string{"/memories/f: key: sk-", "/memories/f: key: sk-123"}, seen)

	for text, want := range map[string]string{
		"refuse": "Error: /memories/g was not written: no secrets in memory",
		"broken": "Error: /memories/g was not written: the host does not allow this text",
		"panic":  "Error: /memories/g was not written: the host does not allow this text",
	} {
		r := b.run("create", "path", "/memories/g", "file_text", text)
		require.True(t, r.IsError)
		require.Error(t, r.Err)
		require.True(t, strings.HasPrefix(r.Text(), want), r.Text())
	}
	require.Equal(t, []string{"/memories/f"}, b.paths())
}

func TestRedactIsAskedBeforeARename(t *testing.T) {
	var told []error
	b := newBench(t, &memory.Options{
		Redact: func(_ context.Context, path, text string) (string, error) {
			if strings.Contains(path, "sk-123") {
				return "", memory.Refusal("no secrets in names")
			}
			if strings.HasPrefix(path, "/memories/public/") {
				text = strings.ReplaceAll(text, "Jane", "[name]")
			}
			return text, nil
		},
		OnError: func(_ context.Context, err error) { told = append(told, err) },
	})
	b.put("/memories/d/1", "one")
	b.put("/memories/d/2", "Jane")
	b.put("/memories/f", "text")
	refused := func(want, from, to string) {
		t.Helper()
		r := b.run("rename", "old_path", from, "new_path", to)
		require.True(t, r.IsError)
		require.Equal(t, want, r.Text())
		var refusal memory.Refusal
		require.ErrorAs(t, r.Err, &refusal)
	}
	refused("Error: /memories/sk-123 was not written: no secrets in names", "/memories/f", "/memories/sk-123")
	refused("Error: /memories/sk-123/d/1 was not written: no secrets in names", "/memories/d", "/memories/sk-123/d")
	refused("Error: /memories/public/d/2 was not written: the host would change its text there. Create it there anew.", "/memories/d", "/memories/public/d")
	require.Len(t, told, 3)
	require.Equal(t, []string{"/memories/d/1", "/memories/d/2", "/memories/f"}, b.paths())
	b.ok("Successfully renamed /memories/d/1 to /memories/public/1", "rename", "old_path", "/memories/d/1", "new_path", "/memories/public/1")
	b.fails("Error: The path /memories/none does not exist", "rename", "old_path", "/memories/none", "new_path", "/memories/sk-123")
}

func TestOnChangeIsToldOfChangesAlone(t *testing.T) {
	var changes []memory.Change
	b := newBench(t, &memory.Options{OnChange: func(_ context.Context, c memory.Change) {
		changes = append(changes, c)
		if c.Command == "delete" {
			panic("hook")
		}
	}})
	b.run("create", "path", "/memories/f", "file_text", "a\n")
	b.run("create", "path", "/memories/f", "file_text", "again")
	b.run("view", "path", "/memories/f")
	b.run("insert", "path", "/memories/f", "insert_line", 1, "insert_text", "b")
	b.run("str_replace", "path", "/memories/f", "old_str", "b", "new_str", "")
	b.run("rename", "old_path", "/memories/f", "new_path", "/memories/g")
	b.ok("Successfully deleted /memories/g", "delete", "path", "/memories/g")
	require.Equal(t, []memory.Change{
		{Command: "create", Path: "/memories/f", Bytes: 2}, {Command: "insert", Path: "/memories/f", Bytes: 4},
		{Command: "str_replace", Path: "/memories/f", Bytes: 3}, {Command: "rename", Path: "/memories/f", NewPath: "/memories/g"},
		{Command: "delete", Path: "/memories/g"},
	}, changes)
}

// failing is a store that fails.
type failing struct {
	memory.Store
	err error
}

func (f failing) Read(context.Context, string, int64) (memory.File, error) {
	return memory.File{}, f.err
}
func (f failing) List(context.Context, string) ([]memory.FileInfo, error) { panic("list") }

func TestFailuresOfTheStoreAreToldToTheHostOnly(t *testing.T) {
	var told []error
	cause := errors.New("open /srv/secret/path: password=hunter2")
	tool, err := memory.New(failing{err: cause}, &memory.Options{OnError: func(_ context.Context, err error) {
		told = append(told, err)
		panic("hook")
	}})
	require.NoError(t, err)
	const nothing = "Error: The command was not carried out, because the memory cannot be used at the moment. Nothing was changed."
	const unsure = "Error: The memory could not be reached, so it is not sure that the command was carried out. View the path before you try again."
	for input, want := range map[string]string{
		`{"command":"view","path":"/memories/f"}`:                                    nothing,
		`{"command":"insert","path":"/memories/f","insert_line":0,"insert_text":""}`: nothing,
		`{"command":"str_replace","path":"/memories/f","old_str":"a"}`:               nothing,
		`{"command":"view","path":"/memories"}`:                                      unsure, // a panic
		`{"command":"create","path":"/memories/f","file_text":""}`:                   unsure,
	} {
		r := tool.Run(t.Context(), json.RawMessage(input))
		require.True(t, r.IsError)
		require.Error(t, r.Err)
		require.Equal(t, want, r.Text())
	}
	require.Len(t, told, 5)
	require.ErrorIs(t, errors.Join(told...), cause)
}

func TestAnEditGivesUpAfterEndlessConflicts(t *testing.T) {
	store, err := memmap.New("scope")
	require.NoError(t, err)
	require.NoError(t, store.Write(t.Context(), "/memories/f", []byte("a"), "", memory.Limits{}))
	tool, err := memory.New(conflicting{store}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := tool.Run(ctx, json.RawMessage(`{"command":"insert","path":"/memories/f","insert_line":0,"insert_text":"x"}`))
	require.True(t, r.IsError)
	require.Error(t, r.Err)
}

type conflicting struct{ memory.Store }

func (conflicting) Write(context.Context, string, []byte, string, memory.Limits) error {
	return memory.ErrConflict
}

func TestNewAndExpireRefuse(t *testing.T) {
	_, err := memory.New(nil, nil)
	require.ErrorContains(t, err, "the store is nil")
	tool, err := memory.New(failing{}, nil)
	require.NoError(t, err)
	_, err = tool.Expire(t.Context(), 24*time.Hour)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestOneToolServesManyAtOnce(t *testing.T) {
	b := newBench(t, &memory.Options{Overwrite: true})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				r := b.tool.Run(t.Context(), json.RawMessage(fmt.Sprintf(`{"command":"create","path":"/memories/f","file_text":"%d"}`, i)))
				if r.IsError {
					t.Error(r.Text())
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, b.raw("/memories/f"), 1)
}

func TestContentEncodesAsTheAPITakesIt(t *testing.T) {
	b := newBench(t, nil)
	got, err := json.Marshal(b.run("view", "path", "/memories").Content)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(got, []byte(`[{"type":"text","text":"Here`)), string(got))
}
