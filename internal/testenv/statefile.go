package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stateFile is written by scripts/services beside go.mod.
const stateFile = ".testenv"

// readStateFile returns the settings in the state file of the module that the
// test runs in; none if there is no such file.
func readStateFile() (map[string]string, error) {
	dir, err := os.Getwd() // go test runs in the folder of the package
	if err != nil {
		return nil, err
	}
	path, ok := findUp(dir)
	if !ok {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // stopped just now
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	values, err := parseState(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// findUp returns the state file beside the nearest go.mod at or above dir
// that has one. A module nested in this one finds its parent's.
func findUp(dir string) (string, bool) {
	for {
		if exists(filepath.Join(dir, "go.mod")) && exists(filepath.Join(dir, stateFile)) {
			return filepath.Join(dir, stateFile), true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// parseState reads KEY=VALUE lines. A value goes to the end of its line,
// blanks and quotes included; empty lines and those that start with # are
// comments.
func parseState(text string) (map[string]string, error) {
	values := make(map[string]string)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("line %d is not KEY=VALUE: %q", i+1, line)
		}
		values[key] = value
	}
	return values, nil
}
