package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// interrupter ends a context when something is written, as Ctrl-C does.
type interrupter struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (w *interrupter) Write(b []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(b)
}

// manyMessages has more messages than are prepared ahead.
func manyMessages(t *testing.T) (dir string) {
	dir = t.TempDir()
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = strings.Repeat("word ", 200)
	}
	add(t, dir, key("-p", uuid(1)), chain(texts...)...)
	return dir
}

func TestInterruptedPageIsNoSuccess(t *testing.T) {
	dir := manyMessages(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr := &interrupter{cancel: cancel}, &bytes.Buffer{}
	code := run(ctx, []string{"show", "-s", dir, uuid(1), "--html", "-"}, strings.NewReader(""), stdout, stderr)
	require.Equal(t, exitInterrupted, code)
	require.Equal(t, "sessionstore: interrupted\n", stderr.String())
	require.Less(t, strings.Count(stdout.String(), "<article"), 3000)
}

func TestPageReplacesAFileOnlyWhenItIsWhole(t *testing.T) {
	dir, out := manyMessages(t), t.TempDir()
	page := filepath.Join(out, "page.html")
	show := func(id string) result { return cli(t, "show", "-q", "-s", dir, id, "--html", page) }
	only := func(mode fs.FileMode) string {
		t.Helper()
		names, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Len(t, names, 1, "nothing is left beside it")
		info, err := os.Stat(page)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		return string(text)
	}
	require.Zero(t, show(uuid(1)).code)
	require.Equal(t, 3000, strings.Count(only(0o600), "<article"))

	require.NoError(t, os.WriteFile(page, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(page, 0o644))
	h, err := newApp(nil, os.Stdout, os.Stderr).open(t.Context(), dir, reading)
	require.NoError(t, err)
	defer h.close()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := newPage(ctx, h, key("-p", uuid(1)), nil, conversationOptions{})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, p.writeFile(page), context.Canceled)
	require.Equal(t, "old", only(0o644))

	require.Zero(t, show(uuid(1)).code)
	require.Equal(t, 3000, strings.Count(only(0o644), "<article"))
	link := filepath.Join(t.TempDir(), "link.html")
	require.NoError(t, os.Symlink(page, link))
	require.Zero(t, cli(t, "show", "-q", "-s", dir, uuid(1), "--html", link).code)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink)
}
