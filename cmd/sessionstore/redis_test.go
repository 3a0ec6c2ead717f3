package main

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
)

func TestRedisFromImportToPurge(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	cluster := testenv.RedisCluster(t)
	for _, url := range []string{
		"redis://" + testenv.Redis(t) + "/0?",
		"redis-cluster://" + cluster[0] + "?addr=" + strings.Join(cluster[1:], "&addr=") + "&",
	} {
		// What a test leaves behind goes away by itself.
		url += "ttl=10m&prefix=cli-" + rand.Text() + ":"
		require.Contains(t, ok(t, "import", dir, "--to", url), "8 transcripts")
		require.Contains(t, ok(t, "import", dir, "--to", url), "8 unchanged")
		ok(t, "verify", "file:"+dir, url)
		require.Contains(t, ok(t, "ls", "--all", "-s", url), recordedID)
		require.Equal(t, ok(t, "show", "-s", dir, recordedID), ok(t, "show", "-s", url, recordedID))
		require.Equal(t, "1 session, 0 added to an index\n", ok(t, "repair", "-s", url))
		require.Equal(t, `{"sessions":1,"added":0,"damaged":0}`+"\n", ok(t, "repair", "-s", url, "--json", recordedKey))
		require.Equal(t, "deleted 1 session\n", ok(t, "rm", "-s", url, recordedID, "--yes"))
		require.Empty(t, ok(t, "projects", "-s", url, "--json", "-q"))
	}
}

func TestBadRedisStores(t *testing.T) {
	home(t)
	for url, text := range map[string]string{
		"redis:":                            "not a URL of the form redis://host:port",
		"redis://h/notanumber":              "invalid database number",
		"redis://me:secret@h?ttl=soon":      "ttl=soon: write a time such as 12h or 30d",
		"redis-cluster://me:secret@h?foo=1": "redis-cluster://me:xxxxx@h?foo=1",
		"redis-sentinel://h?prefix={":       "brace",
	} {
		require.Contains(t, fails(t, exitUsage, "ls", "--all", "-s", url), text, url)
	}
	require.Contains(t, fails(t, exitFailure, "ls", "--all", "-s", "redis://127.0.0.1:1"), "redisstore: list projects")
	require.Contains(t, fails(t, exitFailure, "repair", "-s", recordedDir(t)), "unsupported operation")
}
