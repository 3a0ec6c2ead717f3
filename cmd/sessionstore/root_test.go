package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(newApp(nil, nil, nil)))
}

func TestHelp(t *testing.T) {
	home(t)
	out := ok(t)
	require.Contains(t, out, "Exit codes:")
	for _, s := range schemes {
		require.Contains(t, out, " "+s.name+":")
	}
	require.Equal(t, out, ok(t, "--help"))
	for _, cmd := range []string{"ls", "info", "show", "subagents", "fork", "rename", "tag", "import", "export", "copy", "rm", "verify", "projects", "demo", "version", "completion"} {
		require.Contains(t, out, cmd)
		help := ok(t, cmd, "--help")
		require.Contains(t, help, "Examples:", cmd)
		require.Equal(t, help, ok(t, "help", cmd))
	}
}

func TestUsageErrors(t *testing.T) {
	home(t)
	for _, args := range [][]string{
		{"bogus"}, {"lss"}, {"ls", "--bogus"}, {"ls", "a", "b"}, {"ls", "--limit", "-1"}, {"ls", "--limit", "x"},
		{"ls", "--all", "p"}, {"ls", "p", "--project", "p"}, {"ls", "--all", "-p", "p"}, {"show"}, {"show", "a", "b"}, {"copy", "a"}, {"verify"}, {"version", "x"},
		{"rm"}, {"rm", "x"}, {"rm", "x", "--all", "-s", "mem:"}, {"rm", "--all", "-s", "mem:"},
		{"rm", "--older-than", "soon", "-s", "mem:"}, {"rm", "--older-than", "1d", "--all", "--project", "p", "-s", "mem:"},
		{"rm", "a", "b", "--subpath", "x", "-s", "mem:"}, {"import"}, {"import", "--to", "mem:", "a", "b"},
		{"tag", "x", "-s", "mem:"}, {"tag", "x", "y", "--clear", "-s", "mem:"}, {"tag", "x", " ", "-s", "mem:"}, {"tag", "x", "y"},
		{"rename", "x", "-s", "mem:"}, {"rename", "x", " ", "-s", "mem:"}, {"rename", "x", "y"}, {"fork", "x"},
		{"show", "x", "--json", "--html", "-"}, {"show", "x", "--json", "--bridge"}, {"show", "x", "--all", "--bridge"},
		{"copy", "-s", "mem:", "mem:", "mem:"}, {"demo", "-s", "mem:"}, {"export", "x", "s3://bucket", "-s", "mem:"},
	} {
		code := exitUsage
		if args[0] == "export" {
			code = exitNotFound
		}
		fails(t, code, args...)
	}
	require.Contains(t, fails(t, exitUsage, "lss"), "did you mean ls?")
}

func TestVersion(t *testing.T) {
	require.Contains(t, ok(t, "version"), "sessionstore ")
	require.Contains(t, ok(t, "version", "--json"), `{"version":"`)
}

func TestProjectKeysBeginWithADash(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	require.Contains(t, ok(t, "ls", "-s", dir, recordedKey), recordedID)
	require.Contains(t, ok(t, "ls", "-s", dir, "-p", recordedKey), recordedID)
	require.Contains(t, ok(t, "-s", dir, "show", recordedKey+"/"+recordedID), "One agent")
	require.Contains(t, ok(t, "show", "-s="+dir, recordedID, "--project", recordedKey), "One agent")
	require.Contains(t, ok(t, "show", "-sfile:"+dir, recordedID, "-p", recordedKey), "One agent")
	require.Contains(t, ok(t, "ls", "-s", dir, "--", recordedKey), recordedID)
	require.Contains(t, fails(t, exitNotFound, "ls", "-s", dir, "-home-nobody"), "no sessions for -home-nobody")
}

func TestMaskDashArgs(t *testing.T) {
	in := []string{"ls", "-home-x", "-s", "-q", "-qy", "-n5", "-s=x", "-sfile:x", "--all", "-", "--", "-home-x"}
	want := []string{"ls", "\x00-home-x", "-s", "-q", "-qy", "-n5", "-s=x", "-sfile:x", "--all", "-", "--", "-home-x"}
	require.Equal(t, want, maskDashArgs(in))
	require.Equal(t, "-home-x", in[1], "the caller's slice is left alone")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputErrors(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	var stderr errBuffer
	code := run(t.Context(), []string{"show", "-s", dir, "--json", recordedID}, nil, brokenPipe{}, &stderr)
	require.Equal(t, exitBrokenPipe, code)
	require.Empty(t, stderr.String(), "a closed pipe is no news")
	code = run(t.Context(), []string{"show", "-s", dir, "--json", recordedID}, nil, fullDisk{}, &stderr)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr.String(), "no space left")
}

type errBuffer struct{ text []byte }

func (b *errBuffer) Write(p []byte) (int, error) { b.text = append(b.text, p...); return len(p), nil }
func (b *errBuffer) String() string              { return string(b.text) }

func TestInterrupted(t *testing.T) {
	home(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := cliWith(ctx, "", "copy", recordedDir(t), "mem:")
	require.Equal(t, exitInterrupted, r.code)
	require.Contains(t, r.stderr, "sessionstore: interrupted\n")
}

func TestEmptyFlagsAndArgumentsAreRefused(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	for _, args := range [][]string{
		{"rm", "-s", dir, "--project", "", "--older-than", "0s", "--yes"},
		{"rm", "-s", dir, "--subpath", "", recordedID, "--yes"},
		{"rm", "-s", dir, recordedID + "#", "--yes"},
		{"rm", "-s", dir, "", "--yes"},
		{"copy", dir, "mem:", "--session", ""},
		{"copy", dir, ""},
		{"import", "", "--to", "mem:"},
		{"ls", "--all", "-s", ""},
	} {
		fails(t, exitUsage, args...)
	}
	require.Contains(t, ok(t, "ls", "--all", "-s", dir), recordedID)
	require.Contains(t, fails(t, exitUsage, "ls", "-n", "x"), `"x" is not a number`)
	require.Contains(t, fails(t, exitUsage, "rm", "-s", dir, "--older-than", "-1d"), "age -1d: write")
}

func TestErrorsNameAKeyOnce(t *testing.T) {
	k := key("p", "s")
	cause := &sessionstore.OpError{Package: "filestore", Op: "append", Key: k, Err: errors.New("disk full")}
	for scope, want := range map[sessionstore.Key]string{
		k:                 "copy p/s: filestore: append: disk full",
		{}:                "copy: p/s: filestore: append: disk full",
		{ProjectKey: "p"}: "copy p: p/s: filestore: append: disk full",
	} {
		err := &sessionstore.OpError{Package: "sessionstore", Op: "copy", Key: scope, Err: fmt.Errorf("%v: %w", k, cause)}
		require.Equal(t, want, errorText(err))
	}
	require.Equal(t, "filestore: append p/s: disk full", errorText(cause))
	require.Equal(t, "plain", errorText(errors.New("plain")))
}
