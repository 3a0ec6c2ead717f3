//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onTerminal runs the program as if standard output were a terminal of 24 lines.
func onTerminal(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	a.out = terminal{is: true, width: 80, height: 24}
	root := newRoot(a)
	root.SetArgs(append(args, "--no-color"))
	code := a.finish(t.Context(), root.ExecuteContext(t.Context()))
	return result{code, stdout.String(), stderr.String()}
}

// longSession stores a session with more text than a pipe holds.
func longSession(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "s")
	texts := make([]string, 2000)
	for i := range texts {
		texts[i] = fmt.Sprintf("message %d %s", i, strings.Repeat("x", 60))
	}
	add(t, dir, key("p", uuid(5000)), chain(texts...)...)
	add(t, dir, key("p", uuid(1)), chain("short")...)
	return dir
}

func TestPager(t *testing.T) {
	home(t)
	t.Setenv("TERM", "xterm")
	dir := longSession(t)
	plain := ok(t, "show", "-s", dir, uuid(5000))
	for pager, want := range map[string]string{
		"tr a-z A-Z":          strings.ToUpper(plain), // a command with arguments
		"tr a-z A-Z | cat":    strings.ToUpper(plain), // only a shell understands it
		"cat":                 plain,
		"":                    plain,
		"no-such-pager -x":    plain,
		"cat; exit 3":         plain, // what the pager thinks of it is its own matter
		"/bin/sh -c 'cat'":    plain,
		"LESS=$LESS printenv": "",
	} {
		t.Setenv("PAGER", pager)
		r := onTerminal(t, "show", "-s", dir, uuid(5000))
		require.Equal(t, exitOK, r.code, pager)
		require.Empty(t, r.stderr, pager)
		if want != "" {
			require.True(t, want == r.stdout, pager) // the texts are too long to print
		} else {
			require.Contains(t, r.stdout, "LESS=FRX")
		}
	}
}

func TestPagerIsNotUsed(t *testing.T) {
	home(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("PAGER", "tr a-z A-Z")
	dir := longSession(t)
	plain := ok(t, "show", "-s", dir, uuid(5000))
	require.True(t, plain == onTerminal(t, "show", "-s", dir, uuid(5000), "--no-pager").stdout)
	require.Contains(t, onTerminal(t, "show", "-s", dir, uuid(1)).stdout, "short", "it fits on the screen")
	t.Setenv("TERM", "dumb")
	require.True(t, plain == onTerminal(t, "show", "-s", dir, uuid(5000)).stdout)
}

func TestPagerQuitEarly(t *testing.T) {
	home(t)
	t.Setenv("TERM", "xterm")
	dir := longSession(t)
	add(t, dir, key("p", uuid(2)), gapLines()...)
	for _, pager := range []string{"head -1", "true", "exit 1;"} {
		t.Setenv("PAGER", pager)
		for _, args := range [][]string{{uuid(5000)}, {uuid(5000), "--all"}} {
			r := onTerminal(t, append([]string{"show", "-s", dir}, args...)...)
			require.Equal(t, exitOK, r.code, pager)
			require.Empty(t, r.stderr, pager)
		}
	}
}

func TestPagerDoesNotHideErrors(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("PAGER", "sleep 0.1; cat")
	var stdout bytes.Buffer
	a := newApp(nil, &stdout, &stdout)
	a.out = terminal{is: true, width: 80, height: 2}
	bad := errors.New("the store is gone")
	err := a.paged(t.Context(), false, func(context.Context) error {
		a.printf("one\ntwo\nthree\n")
		if err := a.stdout.Flush(); err != nil {
			return err
		}
		return bad
	})
	require.ErrorIs(t, err, bad)
	require.Equal(t, "one\ntwo\nthree\n", stdout.String())
}
