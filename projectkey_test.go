package sessionstore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProjectKeyIsThatOfTheAgent(t *testing.T) {
	data, err := os.ReadFile("testdata/transcripts/project-keys.json")
	require.NoError(t, err)
	// Lone surrogates have to be kept, which encoding/json does not do.
	text := strings.ReplaceAll(string(data), `lone\ud800x`, "lone\xed\xa0\x80x")
	var cases []struct{ Dir, ProjectKey string }
	require.NoError(t, json.Unmarshal([]byte(text), &cases))
	require.Greater(t, len(cases), 15)
	for _, c := range cases {
		if strings.Contains(c.Dir, "lone") {
			c.Dir = "/tmp/lone\xed\xa0\x80x"
		}
		got, err := ProjectKey(c.Dir)
		require.NoError(t, err)
		require.Equal(t, c.ProjectKey, got, "ProjectKey(%q)", c.Dir)
	}
}

func TestProjectKeyOfOrdinaryPaths(t *testing.T) {
	for dir, want := range map[string]string{
		"/Users/x/src/github.com/o/r":  "-Users-x-src-github-com-o-r",
		"/Users/x/Test_Underscore":     "-Users-x-Test-Underscore",
		"/Users/x/Test Space":          "-Users-x-Test-Space",
		"/Users/x/.pi":                 "-Users-x--pi",
		"/a/spec-rl":                   "-a-spec-rl",
		"/a/spec/rl":                   "-a-spec-rl", // the agent's own collision
		`c:\x`:                         "c--x",
		`C:\x`:                         "C--x",
		"/p/\xff":                      "-p--",
		"/p/e\u0301":                   "-p-e-",
		"/p/\u00e9":                    "-p--",
		"/p/\U0001F600":                "-p---",
		"/" + strings.Repeat("a", 198): "-" + strings.Repeat("a", 198),
		"/" + strings.Repeat("a", 199): "-" + strings.Repeat("a", 199),
	} {
		require.Equal(t, want, encodeProjectPath(dir), "%q", dir)
	}
}

func TestLongPathsAreToldApartByTheirHash(t *testing.T) {
	common := "/" + strings.Repeat("a", 220)
	one, two := encodeProjectPath(common+"/one"), encodeProjectPath(common+"/two")
	require.NotEqual(t, one, two)
	require.Equal(t, one[:201], two[:201])
	require.Equal(t, "-"+strings.Repeat("a", 199)+"-", one[:201])
	require.NoError(t, Key{ProjectKey: one, SessionID: "s"}.Validate())
	// The smallest 32-bit number has no positive counterpart in 32 bits.
	require.Equal(t, "zik0zk", pathHash(unitsWithHash(t, -1<<31)))
}

// unitsWithHash builds a text of a given hash from its base-31 digits.
func unitsWithHash(t *testing.T, h int32) []uint16 {
	var digits []uint16
	for n := uint32(h); n > 0; n /= 31 {
		digits = append([]uint16{uint16(n % 31)}, digits...)
	}
	return digits
}

func TestProjectKeyResolvesLinksAndRelativePaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	t.Chdir(dir)
	for _, path := range []string{"real", "./real/", "link", filepath.Join(dir, "link")} {
		got, err := ProjectKey(path)
		require.NoError(t, err)
		require.Equal(t, encodeProjectPath(filepath.Join(dir, "real")), got, path)
	}
	got, err := ProjectKey("gone")
	require.NoError(t, err)
	require.Equal(t, encodeProjectPath(filepath.Join(dir, "gone")), got, "a directory that is gone")
}
