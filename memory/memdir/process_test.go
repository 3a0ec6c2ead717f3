package memdir

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

// writerDir, in the environment, makes the test binary a process that writes
// one file over and over until it is killed.
const writerDir = "MEMDIR_TEST_WRITER"

// texts are what that process writes in turn.
var texts = [2]string{strings.Repeat("old line\n", 4000), strings.Repeat("a new line\n", 5000)}

func runWriter() bool {
	dir := os.Getenv(writerDir)
	if dir == "" {
		return false
	}
	s, err := Open(dir, "scope", nil)
	if err != nil {
		panic(err)
	}
	announced := false
	s.step = func(name string) {
		if !announced && name == os.Getenv(writerDir+"_AT") {
			announced = true
			fmt.Println(name)
			select {} // until it is killed
		}
	}
	ctx := context.Background()
	for i := 0; ; i++ {
		f, err := s.Read(ctx, "/memories/d/f", 0)
		if err != nil {
			panic(err)
		}
		if err := s.Write(ctx, "/memories/d/f", []byte(texts[(i+1)%2]), f.Version, memory.Limits{}); err != nil {
			panic(err)
		}
		if os.Getenv(writerDir+"_AT") == "" && i == 0 {
			fmt.Println("writing")
		}
	}
}

// kill starts a writer and kills it at a step, or after some bytes were written
// by it if at is empty.
func kill(t *testing.T, dir, at string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir, writerDir+"_AT="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NoError(t, err)
}

func TestAKilledWriterLeavesTheOldOrTheNewFile(t *testing.T) {
	want := map[string]int{"half": 0, "written": 0, "ready": 0, "renamed": 1}
	steps := []string{"half", "written", "ready", "renamed", "", "", "", ""}
	for _, at := range steps {
		dir := t.TempDir()
		s := open(t, dir, "scope")
		require.NoError(t, s.Write(t.Context(), "/memories/d/f", []byte(texts[0]), "", memory.Limits{}))
		kill(t, dir, at)
		f, err := s.Read(t.Context(), "/memories/d/f", 0)
		require.NoError(t, err)
		if at != "" {
			require.Equal(t, texts[want[at]], string(f.Data), "killed at %s", at)
		}
		require.Contains(t, texts[:], string(f.Data))

		// What it has left behind does not show, and the next writer removes it.
		list, err := s.List(t.Context(), memory.Root)
		require.NoError(t, err)
		require.Len(t, list, 1)
		other := open(t, dir, "scope")
		require.NoError(t, other.Write(t.Context(), "/memories/g", nil, "", memory.Limits{}))
		names, err := filepath.Glob(filepath.Join(dir, "scope", ".*"))
		require.NoError(t, err)
		require.Empty(t, names)
	}
}
