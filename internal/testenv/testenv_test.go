package testenv

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestMissingServerFailsInCIAndSkipsElsewhere(t *testing.T) {
	for _, c := range []struct {
		ci, require string
		fail        bool
	}{
		{"", "", false},
		{"false", "", false},
		{"False", "", false},
		{"0", "", false},
		{"true", "", true},
		{"1", "", true},
		{"woodpecker", "", true},
		{"", "1", true},
		{"false", "1", true},
		{"", "0", false},
		{"true", "0", true},
	} {
		getenv := env(map[string]string{"CI": c.ci, "SESSIONSTORE_REQUIRE_BACKENDS": c.require})
		if got := required(getenv); got != c.fail {
			t.Errorf("CI=%q SESSIONSTORE_REQUIRE_BACKENDS=%q: required() = %v, want %v", c.ci, c.require, got, c.fail)
		}
	}
}

func TestMissingServerMessageNamesTheCommand(t *testing.T) {
	if got := missing("Redis server"); !strings.Contains(got, "./scripts/services start") {
		t.Errorf("missing() = %q, want it to name the command to run", got)
	}
}

func TestSettingsComeFromOneSource(t *testing.T) {
	file := map[string]string{
		"SESSIONSTORE_TEST_S3_ENDPOINT": "http://file", "SESSIONSTORE_TEST_S3_REGION": "file-region",
		"SESSIONSTORE_TEST_REDIS": "file:1",
	}
	for _, c := range []struct {
		name  string
		env   map[string]string
		file  map[string]string
		names []string
		want  map[string]string
		err   string
	}{
		{
			name: "from the file when the environment is silent", file: file,
			names: []string{"S3_ENDPOINT", "S3_REGION"},
			want:  map[string]string{"S3_ENDPOINT": "http://file", "S3_REGION": "file-region"},
		},
		{
			name: "from the environment first", file: file,
			env:   map[string]string{"SESSIONSTORE_TEST_REDIS": "env:1"},
			names: []string{"REDIS"}, want: map[string]string{"REDIS": "env:1"},
		},
		{
			name: "never half from each", file: file,
			env:   map[string]string{"SESSIONSTORE_TEST_S3_ENDPOINT": "http://env"},
			names: []string{"S3_ENDPOINT", "S3_REGION"},
			err:   "the environment has SESSIONSTORE_TEST_S3_ENDPOINT but no SESSIONSTORE_TEST_S3_REGION",
		},
		{
			name: "half in the file is an error", file: file,
			names: []string{"S3_ENDPOINT", "S3_SECRET_KEY"},
			err:   ".testenv has SESSIONSTORE_TEST_S3_ENDPOINT but no SESSIONSTORE_TEST_S3_SECRET_KEY",
		},
		{
			name: "empty counts as unset", env: map[string]string{"SESSIONSTORE_TEST_POSTGRES": ""}, file: file,
			names: []string{"POSTGRES"},
		},
		{name: "no file", names: []string{"REDIS"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := settings(env(c.env), c.file, c.names)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("settings() error = %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
				t.Fatalf("settings() = %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestStateFileValuesGoToTheEndOfTheLine(t *testing.T) {
	got, err := parseState("# comment\n\nA=1\nDIR=/tmp/with blank/x\nURL=postgres://u@h:1/d?a=b&c='d'\nEMPTY=\nCR=x\r\n")
	want := map[string]string{"A": "1", "DIR": "/tmp/with blank/x", "URL": "postgres://u@h:1/d?a=b&c='d'", "EMPTY": "", "CR": "x"}
	if err != nil || !maps.Equal(got, want) {
		t.Fatalf("parseState() = %v, %v, want %v", got, err, want)
	}
}

func TestStateFileRejectsOtherLines(t *testing.T) {
	for _, text := range []string{"no equals sign\n", "A=1\n=2\n"} {
		if got, err := parseState(text); err == nil {
			t.Errorf("parseState(%q) = %v, want an error", text, got)
		}
	}
}

func TestStateFileIsFoundFromAPackageFolder(t *testing.T) {
	root := t.TempDir()
	nested := filepath.Join(root, "tools", "pkg")
	if err := os.MkdirAll(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(root, stateFile))
	if got, ok := findUp(nested); ok {
		t.Fatalf("findUp() = %s, want nothing while no go.mod is beside the file", got)
	}
	touch(t, filepath.Join(root, "go.mod"))
	touch(t, filepath.Join(root, "tools", "go.mod"))
	if got, ok := findUp(nested); !ok || got != filepath.Join(root, stateFile) {
		t.Fatalf("findUp() = %q, %v, want the file at %s", got, ok, root)
	}
}

func TestDialAddressOfAURL(t *testing.T) {
	for rawURL, want := range map[string]string{
		"http://127.0.0.1:9000":                     "127.0.0.1:9000",
		"https://s3.example.com":                    "s3.example.com:443",
		"http://[::1]":                              "[::1]:80",
		"postgres://u:p@db/name?sslmode=disable":    "db:5432",
		"postgres://u@127.0.0.1:15432/name":         "127.0.0.1:15432",
		"host=localhost port=5432 user=postgres":    "",
		"postgres:///name?host=/var/run/postgresql": "",
	} {
		if got, ok := hostPort(rawURL); got != want || ok != (want != "") {
			t.Errorf("hostPort(%q) = %q, %v, want %q", rawURL, got, ok, want)
		}
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}
