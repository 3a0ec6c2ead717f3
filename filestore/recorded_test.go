package filestore_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

const recordings = "../testdata/transcripts"

func recordedDisks(t *testing.T) []string {
	disks, err := filepath.Glob(recordings + "/*/disk")
	require.NoError(t, err)
	require.NotEmpty(t, disks)
	return disks
}

// keyOf is the key of a transcript file in the agent's layout.
func keyOf(name string) sessionstore.Key {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".jsonl"), ".meta.json")
	part := strings.SplitN(filepath.ToSlash(name), "/", 3)
	return sessionstore.Key{ProjectKey: part[0], SessionID: part[1], Subpath: strings.Join(part[2:], "")}
}

func TestAgentsOwnFilesAreReadByteForByte(t *testing.T) {
	for _, disk := range recordedDisks(t) {
		t.Run(filepath.Base(filepath.Dir(disk)), func(t *testing.T) {
			var seen skips
			opts := seen.options()
			opts.ReadOnly = true
			s := open(t, disk, opts)
			listed := map[sessionstore.Key]bool{}
			projects, err := s.ListProjects(t.Context())
			require.NoError(t, err)
			for _, p := range projects {
				sessions, err := s.ListSessions(t.Context(), p)
				require.NoError(t, err)
				for _, info := range sessions {
					listed[sessionstore.Key{ProjectKey: p, SessionID: info.SessionID}] = true
					subpaths, err := s.ListSubkeys(t.Context(), p, info.SessionID)
					require.NoError(t, err)
					for _, path := range subpaths {
						listed[sessionstore.Key{ProjectKey: p, SessionID: info.SessionID, Subpath: path}] = true
					}
				}
			}
			for _, name := range files(t, disk) {
				key := keyOf(name)
				require.True(t, listed[key], "%v", key)
				if strings.HasSuffix(name, ".jsonl") {
					requireSameLines(t, s, key, read(t, disk, name))
				}
			}
			require.Empty(t, seen)
		})
	}
}

func splitLines(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func requireSameLines(t *testing.T, s *filestore.Store, key sessionstore.Key, text string) {
	lines := splitLines(text)
	got := load(t, s, key)
	if key.Subpath != "" && strings.HasPrefix(got[0], `{"type":"agent_metadata"`) {
		got = got[1:]
	}
	require.Equal(t, lines, got)
	streamed := 0
	for e, err := range s.Stream(t.Context(), key) {
		require.NoError(t, err)
		if streamed < len(lines) && string(e) == lines[streamed] {
			streamed++
		}
	}
	require.Equal(t, len(lines), streamed)
}

type recordedAppend struct {
	Key struct {
		ProjectKey string `json:"projectKey"`
		SessionID  string `json:"sessionId"`
		Subpath    string `json:"subpath"`
	} `json:"key"`
	Entries []sessionstore.Entry `json:"entries"`
}

// What a host mirrors into a store is what the agent finds there when it
// resumes: the same files, the same lines, the same sidecars.
func TestRecordedAppendsGiveTheAgentsOwnFiles(t *testing.T) {
	for _, disk := range recordedDisks(t) {
		name := filepath.Base(filepath.Dir(disk))
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			f, err := os.Open(filepath.Join(filepath.Dir(disk), "appends.jsonl"))
			require.NoError(t, err)
			defer f.Close()
			for dec := json.NewDecoder(f); dec.More(); {
				var a recordedAppend
				require.NoError(t, dec.Decode(&a))
				key := sessionstore.Key{ProjectKey: a.Key.ProjectKey, SessionID: a.Key.SessionID, Subpath: a.Key.Subpath}
				appendAll(t, s, key, a.Entries...)
			}
			require.Equal(t, files(t, disk), files(t, dir))
			// The turns after a resume were written in another directory.
			_, err = os.Stat(filepath.Join(filepath.Dir(disk), "appends-2-resume.jsonl"))
			resumed := err == nil
			for _, name := range files(t, disk) {
				requireSameFile(t, read(t, disk, name), read(t, dir, name), name, resumed)
			}
		})
	}
}

func requireSameFile(t *testing.T, want, got, name string, resumed bool) {
	if strings.HasSuffix(name, ".meta.json") {
		require.True(t, sessionstore.Entry(want).Equal(sessionstore.Entry(got)), "%s:\n%s\n%s", name, want, got)
		require.Equal(t, len(want), len(got), "the same members without a line feed")
		return
	}
	// Some lines are only for the agent itself and are never mirrored.
	wantLines := slices.DeleteFunc(splitLines(want), func(line string) bool {
		return strings.HasPrefix(sessionstore.Entry(line).Type(), "api-request")
	})
	gotLines := splitLines(got)
	if resumed && len(gotLines) > len(wantLines) {
		gotLines = gotLines[:len(wantLines)]
	}
	require.Equal(t, len(wantLines), len(gotLines), name)
	for i := range wantLines {
		a, b := sessionstore.Entry(wantLines[i]), sessionstore.Entry(gotLines[i])
		require.True(t, a.Equal(b), "%s line %d:\n%.300s\n%.300s", name, i+1, a, b)
	}
}
