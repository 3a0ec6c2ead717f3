//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bigSize is the size of the session that memory is measured with.
const bigSize = 300 << 20

// bigID is a UUID: for other ids ls reads no title.
const bigID = "b1600000-0000-4000-8000-000000000000"

// maxHeap is what a process may use for any session, in MiB.
const maxHeap = 64

// TestProcess builds the program once and looks at it from outside.
func TestProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and writes 600 MB; run without -short")
	}
	bin := filepath.Join(t.TempDir(), "sessionstore")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	home(t) // after the build, whose cache lies in the real one
	dir := t.TempDir()
	bigSession(t, dir)

	t.Run("ExitCodes", func(t *testing.T) { testExitCodes(t, bin, dir) })
	t.Run("BrokenPipe", func(t *testing.T) { testBrokenPipe(t, bin, dir) })
	t.Run("InterruptedCopyGoesOn", func(t *testing.T) { testInterruptedCopy(t, bin, dir) })
	t.Run("MemoryOfExport", func(t *testing.T) {
		requireSmall(t, exec.Command(bin, "export", "-s", dir, bigID, "-"))
	})
	t.Run("MemoryOfShow", func(t *testing.T) {
		requireSmall(t, exec.Command(bin, "show", "-s", dir, bigID))
		requireSmall(t, exec.Command(bin, "show", "-s", dir, bigID, "--all"))
	})
	t.Run("MemoryOfResume", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		requireSmall(t, exec.Command(bin, "resume", "-s", "file:"+dir, bigID, "--", "true"))
	})
	t.Run("MemoryOfLs", func(t *testing.T) {
		requireSmall(t, exec.Command(bin, "ls", "-s", dir, "p"))
	})
	t.Run("MemoryOfInfo", func(t *testing.T) {
		requireSmall(t, exec.Command(bin, "info", "-s", dir, bigID))
	})
}

// bigSession writes a session of one transcript, as an agent would.
func bigSession(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "p"), 0o700))
	f, err := os.Create(filepath.Join(dir, "p", bigID+".jsonl"))
	require.NoError(t, err)
	w := bufio.NewWriterSize(f, 1<<20)
	text := strings.Repeat("some words that fill the line ", 66)
	for written, i := 0, 0; written < bigSize; i++ {
		n, err := fmt.Fprintf(w, `{"type":"user","uuid":"00000000-0000-4000-8000-%012d","message":{"content":"%s"}}`+"\n", i, text)
		require.NoError(t, err)
		written += n
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
}

func testExitCodes(t *testing.T, bin, dir string) {
	for want, args := range map[int][]string{
		exitOK: {"version"}, exitUsage: {"bogus"}, exitNotFound: {"show", "-s", dir, "nobody"}, exitFailure: {"verify", dir, "mem:"},
	} {
		cmd := exec.Command(bin, args...)
		_ = cmd.Run()
		require.Equal(t, want, cmd.ProcessState.ExitCode(), args)
	}
}

func testBrokenPipe(t *testing.T, bin, dir string) {
	cmd := exec.Command(bin, "show", "-s", dir, bigID, "--all")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, stdout.Close())
	_ = cmd.Wait()
	require.Empty(t, stderr.String())
	require.Equal(t, syscall.SIGPIPE, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

func testInterruptedCopy(t *testing.T, bin, dir string) {
	to := filepath.Join(t.TempDir(), "copy")
	cmd := exec.Command(bin, "copy", dir, "file:"+to)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	target := filepath.Join(to, "p", bigID+".jsonl")
	require.Eventually(t, func() bool {
		info, err := os.Stat(target)
		return err == nil && info.Size() > 8<<20
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), "run the command again to go on\nsessionstore: interrupted\n")
	info, err := os.Stat(target)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(bigSize))

	requireSmall(t, exec.Command(bin, "copy", dir, "file:"+to))
	requireSmall(t, exec.Command(bin, "verify", dir, to))
}

// requireSmall runs a command and looks at the largest heap it ever had. The
// trace of the collector tells it; the kernel's figure for a child begins with
// the memory of the parent.
func requireSmall(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	require.NoError(t, cmd.Run())
	sizes := regexp.MustCompile(`(\d+)->(\d+)->\d+ MB`).FindAllStringSubmatch(stderr.String(), -1)
	require.NotEmpty(t, sizes)
	peak := 0
	for _, m := range sizes {
		before, _ := strconv.Atoi(m[1])
		during, _ := strconv.Atoi(m[2])
		peak = max(peak, before, during)
	}
	t.Logf("%s: %d MiB", cmd.Args[1], peak)
	require.Less(t, peak, maxHeap)
}
