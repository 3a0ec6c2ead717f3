package memory_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

// FuzzCheckPath holds the rule against what it is for: an accepted path stays
// below the root whatever cleans, decodes or splits it.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{
		"/memories", "/memories/a/b.md", "/memories_backup/f", "/memories/", "/memories//x", "/memories/../x", "/memories/%2e%2e/x", "/memories/%252e%252e/x",
		"/memories/a%2fb", "/memories/%%32e%2e/x", "/memories\\..\\x", "/memories/..%5cx", "/memories/a\x00", "/memories/..;/x", "/memories/．．/x", "/memories/%", "/memories/a%20b", "/memories/%zz%2",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if memory.CheckPath(p) != nil {
			return
		}
		segments := strings.Split(p, "/")
		for text, before := p, ""; text != before; {
			require.True(t, text == memory.Root || strings.HasPrefix(text, memory.Root+"/"), "%q", text)
			require.Equal(t, text, path.Clean(text))
			require.Len(t, strings.Split(text, "/"), len(segments))
			require.True(t, utf8.ValidString(text))
			require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }), "%q", text)
			before, text = text, unescapeSome(text)
		}
	})
}

// unescapeSome decodes what net/url can: of a text with a wrong escape, the rest.
func unescapeSome(s string) string {
	head, rest, found := strings.Cut(s, "%")
	if !found {
		return s
	}
	if len(rest) >= 2 {
		if c, err := url.PathUnescape("%" + rest[:2]); err == nil {
			return head + c + unescapeSome(rest[2:])
		}
	}
	return head + "%" + unescapeSome(rest)
}

// FuzzEdits compares str_replace and insert with a model that knows bytes only.
func FuzzEdits(f *testing.F) {
	f.Add("a\nb\nc", "b", "X", 1, true)
	f.Add("x\ny\nx\ny\n", "x\ny", "$&", 3, true)
	f.Add("a\r\nb\r\n", "a\nb", "", 2, false)
	f.Add("", "", "", 0, false)
	f.Add("aaa", "aa", "%s", -1, true)
	f.Fuzz(func(t *testing.T, text, before, after string, line int, replace bool) {
		if !utf8.ValidString(before) || !utf8.ValidString(after) {
			return
		}
		store, err := memmap.New("scope")
		require.NoError(t, err)
		require.NoError(t, store.Write(t.Context(), "/memories/f", []byte(text), "", memory.Limits{}))
		tool, err := memory.New(store, nil)
		require.NoError(t, err)
		input := map[string]any{"command": "insert", "path": "/memories/f", "insert_line": line, "insert_text": after}
		want, ok := modelInsert(text, line, after)
		if replace {
			input = map[string]any{"command": "str_replace", "path": "/memories/f", "old_str": before, "new_str": after}
			want, ok = strings.Replace(text, before, after, 1), before != "" && strings.Count(text, before) == 1
		}
		raw, err := json.Marshal(input)
		require.NoError(t, err)
		r := tool.Run(t.Context(), raw)
		require.NoError(t, r.Err)
		require.Equal(t, !ok, r.IsError, r.Text())
		if !ok {
			want = text
		}
		got, err := store.Read(t.Context(), "/memories/f", 0)
		require.NoError(t, err)
		require.Equal(t, want, string(got.Data))
		if !ok && replace && before != "" && strings.Contains(text, before) {
			require.Contains(t, r.Text(), "in lines: "+modelLines(text, before)+". Please")
		}
	})
}

// modelInsert works on a list of lines.
func modelInsert(text string, line int, insert string) (string, bool) {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if line < 0 || line > len(lines) {
		return "", false
	}
	if line > 0 && !strings.HasSuffix(lines[line-1], "\n") {
		return text + "\n" + insert, true
	}
	if !strings.HasSuffix(insert, "\n") {
		insert += "\n"
	}
	return strings.Join(lines[:line], "") + insert + strings.Join(lines[line:], ""), true
}

// modelLines counts the line feeds before each occurrence.
func modelLines(text, what string) string {
	var lines []string
	parts := strings.Split(text, what)
	for i := 1; i < len(parts); i++ {
		number := fmt.Sprint(strings.Count(strings.Join(parts[:i], what), "\n") + 1)
		if len(lines) == 0 || lines[len(lines)-1] != number {
			lines = append(lines, number)
		}
	}
	if len(lines) > 200 {
		lines = append(lines[:200], "…")
	}
	return strings.Join(lines, ", ")
}
