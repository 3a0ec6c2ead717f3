package host_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every Go snippet of the guide names a file that is compiled, and stands there
// line by line.
func TestSnippetsOfTheGuideAreCompiledCode(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "docs", "hosting.md"))
	require.NoError(t, err)
	snippets := regexp.MustCompile("(?s)(?:<!-- (\\S+) -->\n)?```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	require.NotEmpty(t, snippets)
	for _, m := range snippets {
		file, snippet := m[1], m[2]
		require.NotEmpty(t, file, "this snippet does not name its file:\n%s", snippet)
		code, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		require.NoError(t, err)
		require.Contains(t, unindent(string(code)), unindent(snippet), "%s does not hold this snippet", file)
	}
}

func unindent(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
