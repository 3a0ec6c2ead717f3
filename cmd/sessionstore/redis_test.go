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
		"redis:":                                                 "not a URL of the form redis://host:port",
		"redis://h/notanumber":                                   "invalid database number",
		"redis://me:secret@h?ttl=soon":                           "ttl=soon: write a time such as 12h or 30d",
		"redis-cluster://me:secret@h?foo=1":                      "redis-cluster://xxxxx@h?foo=xxxxx: redis: unexpected option: foo",
		"redis-sentinel://h":                                     "add master_name=NAME",
		"redis-sentinel://h?master_name=m&prefix={":              "brace",
		"redis-sentinel://h?master_name=m&route_by_latency=true": "must not read from replicas",
	} {
		require.Contains(t, fails(t, exitUsage, "ls", "--all", "-s", url), text, url)
	}
	require.Contains(t, fails(t, exitFailure, "ls", "--all", "-s", "redis://127.0.0.1:1"), "redisstore: list projects")
	require.Contains(t, fails(t, exitFailure, "repair", "-s", "mem:"), "unsupported operation")
}

func TestNoSecretOfAURLIsPrinted(t *testing.T) {
	home(t)
	for _, url := range []string{ // that can't be opened
		"redis:u:SECRET@h", "redis:SECRET@h", "redis:/u:SECRET@h", "redis:///u:SECRET@h", "redis//u:SECRET@h", "redis ://u:SECRET@h",
		"redis://u:SECRET@h/x", "redis://u:SECRET@h:x", "redis://u:a/SECRET@h", "redis://u:%SECRET@h", "redis://u:12/SECRET@h",
		"redis://h:1?password=SECRET", "redis://h:1?pasword=SECRET", "redis://h:1?sentinel_password=SECRET", "redis://h:1?ttl=x&password=SECRET",
		"redis-cluster://h:1?addr=:SECRET@h:2", "redis-cluster://h:1?password=SECRET&addr=x",
		"redis-cluster:u:SECRET@h", "reddis://u:SECRET@h", "reddis:u:SECRET@h", "user:SECRET@h",
		"redis-sentinel://u:SECRET@h", "redis-sentinel://h:1?master_name=m&password=a&SECRET", "redis-sentinel://h:1?master_name=m&password=a&SECRET=b",
		"redis-sentinel://u:SECRET@h:1?master_name=m&password=SECRET", "s3://b?password=SECRET", "rediss:SECRET@h",
	} {
		for _, args := range [][]string{{"ls", "--all", "-s", url}, {"memory", "ls", "--scope", "x", "-s", url}, {"copy", url, "mem:"}} {
			r := cli(t, args...)
			require.NotZero(t, r.code, "%q", args)
			require.NotContains(t, r.stdout+r.stderr, "SECRET", "%q", args)
		}
	}
	for _, url := range []string{ // that can be, or are the like of it
		"redis://u:SECRET@h:1", "redis://SECRET@h:1", "redis://:SECRET@h:1", "redis://u:12?SECRET@h", "redis://u:12#SECRET@h",
		"redis-cluster://u:SECRET@h:1", "redis-sentinel://h:1?master_name=m&password=SECRET", "redis-sentinel://h?username=SECRET",
		"redis-sentinel://h:1?master_name=m&sentinel_password=SECRET", "redis-sentinel://u:SECRET@h:1?master_name=m",
		"postgres:u:SECRET@h/d", "postgres://h:1/d?password=SECRET", "postgres://u:SECRET@h/d",
	} {
		require.NotContains(t, redact(url), "SECRET", url)
	}
	require.Equal(t, "redis-sentinel://xxxxx@h:1/3?master_name=m&addr=h:2&sentinel_password=xxxxx",
		redact("redis-sentinel://u:p@h:1/3?master_name=m&addr=h:2&sentinel_password=p"))
	require.Equal(t, "s3://b/a@b?region=r", redact("s3://b/a@b?region=r"))
}

func TestCredentialsBehindSentinel(t *testing.T) {
	o, err := failoverOptions("redis://me:pw@h:1/3?master_name=m&sentinel_username=s&sentinel_password=%26&addr=h:2")
	require.NoError(t, err)
	require.Equal(t, []string{"me", "pw", "s", "&"}, []string{o.Username, o.Password, o.SentinelUsername, o.SentinelPassword})
	require.Equal(t, []string{"h:1", "h:2"}, o.SentinelAddrs)
	require.Equal(t, 3, o.DB)
	o, err = failoverOptions("redis://:pw@h?master_name=m")
	require.NoError(t, err)
	require.Equal(t, []string{"", "pw", "", ""}, []string{o.Username, o.Password, o.SentinelUsername, o.SentinelPassword})
	o, err = failoverOptions("redis://h?master_name=m&password=pw")
	require.NoError(t, err)
	require.Equal(t, "pw", o.Password)
}
