package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFork(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(100)), chain("one", "two", "three", "four")...)
	before := files(t, dir)

	id := strings.TrimSpace(ok(t, "fork", "-s", dir, uuid(100)))
	require.Regexp(t, `^[0-9a-f-]{36}$`, id)
	out := ok(t, "show", "-s", dir, id)
	require.Contains(t, out, "four")
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), "one (fork)")

	out = ok(t, "fork", "-s", dir, uuid(100), "--up-to", uuid(1), "--title", "-a title", "--json")
	require.Regexp(t, `^\{"sessionId":"[0-9a-f-]{36}","projectKey":"p","forkedFrom":"`+uuid(100)+`"\}\n$`, out)
	id = out[len(`{"sessionId":"`):][:36]
	out = ok(t, "show", "-s", dir, id)
	require.Contains(t, out, "two")
	require.NotContains(t, out, "three")
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), " -a title\n")

	now := files(t, dir)
	require.Len(t, now, len(before)+2)
	for name, content := range before {
		require.Equal(t, content, now[name])
	}
	require.Contains(t, fails(t, exitNotFound, "fork", "-s", dir, uuid(100), "--up-to", uuid(9)), uuid(9)+" is not in the session p/")
	fails(t, exitNotFound, "fork", "-s", dir, uuid(7))
	require.Len(t, files(t, dir), len(now))
}

func TestRenameAndTag(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", uuid(100)), chain("one")...)
	id := uuid(100)

	require.Equal(t, "renamed p/"+id+": my title\n", ok(t, "rename", "-s", dir, id, " my title "))
	require.Contains(t, ok(t, "ls", "-s", dir, "p"), "my title")
	require.Equal(t, `{"sessionId":"`+id+`","projectKey":"p","title":"-another"}`+"\n", ok(t, "rename", "-s", dir, id, "-another", "--json"))
	require.Equal(t, "tagged p/"+id+": keep\n", ok(t, "tag", "-s", dir, id, "keep"))
	require.Contains(t, ok(t, "info", "-s", dir, id), "tag               keep\n")
	require.Equal(t, `{"sessionId":"`+id+`","projectKey":"p","tag":"x"}`+"\n", ok(t, "tag", "-s", dir, id, "x", "--json"))
	require.Equal(t, "untagged p/"+id+"\n", ok(t, "tag", "-s", dir, id, "--clear"))
	require.Equal(t, `{"sessionId":"`+id+`","projectKey":"p","tag":""}`+"\n", ok(t, "tag", "-s", dir, id, "--clear", "--json"))
	require.NotContains(t, ok(t, "info", "-s", dir, id), "tag")
}

func TestChangesAreRefused(t *testing.T) {
	h := home(t)
	dir := filepath.Join(t.TempDir(), "s")
	add(t, dir, key("p", "no-uuid"), chain("one")...)
	add(t, dir, key("p", uuid(100)), chain("one")...)
	add(t, dir, key("q", uuid(100)), chain("one")...)
	own := filepath.Join(h, ".claude", "projects")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.CopyFS(own, os.DirFS(dir)))
	before, ownBefore := files(t, dir), files(t, own)
	for _, change := range [][]string{{"fork"}, {"rename", "title"}, {"tag", "tag"}, {"tag", "--clear"}} {
		with := func(store, session string) []string {
			args := append([]string{change[0], session}, change[1:]...)
			if store != "" {
				args = append(args, "-s", store)
			}
			return args
		}
		require.Contains(t, fails(t, exitUsage, with("", uuid(100))...), "name it with --store")
		require.Contains(t, fails(t, exitFailure, with(dir, "no-uuid")...), "is not a UUID")
		require.Contains(t, fails(t, exitUsage, with(dir, "0000")...), "is ambiguous")
		require.Contains(t, fails(t, exitUsage, with(dir, "p/"+uuid(100)+"#x")...), "whole session")
		fails(t, exitNotFound, with(dir, "nobody")...)
		fails(t, exitFailure, with("file:"+dir+"?readonly=true", "p/"+uuid(100))...)
	}
	require.Equal(t, before, files(t, dir))
	require.Equal(t, ownBefore, files(t, own))
}
