package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
)

// memoryStores are URLs of empty memories of each kind.
func memoryStores(t *testing.T) map[string]string {
	name := "memory-test-" + strings.ToLower(rand.Text()[:12])
	server := testenv.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	client := s3.New(s3.Options{
		BaseEndpoint: &server.Endpoint, Region: server.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	require.NoError(t, err)
	t.Cleanup(func() {
		out, err := client.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: &name})
		require.NoError(t, err)
		for _, o := range out.Contents {
			_, err := client.DeleteObject(context.Background(), &s3.DeleteObjectInput{Bucket: &name, Key: o.Key})
			require.NoError(t, err)
		}
		_, err = client.DeleteBucket(context.Background(), &s3.DeleteBucketInput{Bucket: aws.String(name)})
		require.NoError(t, err)
	})
	return map[string]string{
		"file":     "file:" + filepath.Join(t.TempDir(), "memories"),
		"postgres": postgresURL(t),
		"redis":    "redis://" + testenv.Redis(t) + "?prefix=" + name + ":", // which leaves a hash of 100 bytes behind
		"s3":       fmt.Sprintf("s3://%s/some/prefix?endpoint=%s&region=%s&path_style=true", name, server.Endpoint, server.Region),
	}
}

func TestMemoryCommands(t *testing.T) {
	home(t)
	for kind, url := range memoryStores(t) {
		t.Run(kind, func(t *testing.T) {
			memory := func(args ...string) []string {
				return append([]string{"memory", args[0], "--store", url, "--scope", "user-1"}, args[1:]...)
			}
			if kind == "postgres" {
				require.Contains(t, fails(t, exitFailure, memory("ls")...), `run "sessionstore memory migrate"`)
				require.Contains(t, ok(t, "memory", "migrate", "--store", url, "--print"), "CREATE TABLE")
				ok(t, "memory", "migrate", "--store", url)
			}
			r := cliWith(t.Context(), "a\r\nb\x00", memory("put", "notes.md")...)
			require.Equal(t, exitOK, r.code, r.stderr)
			require.Equal(t, "wrote /memories/notes.md (5 bytes)\n", r.stdout)
			require.Equal(t, "a\r\nb\x00", ok(t, memory("cat", "/memories/notes.md")...))

			file := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(file, []byte("new"), 0o600))
			ok(t, memory("put", "notes.md", file)...)
			require.Contains(t, fails(t, exitFailure, memory("put", "notes.md", file, "--new")...), "exists")
			ok(t, memory("put", "d/one", file)...)
			require.Equal(t, "newnew", ok(t, memory("cat", "notes.md", "d/one")...))

			require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +3  /memories/d/one\n.* 3  /memories/notes.md\n$`, ok(t, memory("ls")...))
			require.Regexp(t, `^\{"path":"/memories/d/one","size":3,"used":".*"\}\n$`, ok(t, memory("ls", "d", "--json")...))
			require.Empty(t, ok(t, "memory", "ls", "--store", url, "--scope", "user-2", "--json"))

			fails(t, exitNotFound, memory("cat", "none")...)
			fails(t, exitNotFound, memory("ls", "none")...)
			fails(t, exitNotFound, memory("rm", "none", "--yes")...)
			fails(t, exitUsage, memory("cat", "../x")...)
			require.Contains(t, fails(t, exitUsage, memory("rm", "d")...), "1 file at /memories/d of scope user-1")
			require.Equal(t, "deleted 1 file\n", ok(t, memory("rm", "d", "--yes")...))
			require.Equal(t, "deleted 0 files\n", ok(t, memory("expire", "--unused-for", "1h", "--yes")...))
			require.Equal(t, "deleted 1 file\n", ok(t, memory("rm", "/memories", "--yes")...))
			require.Empty(t, ok(t, memory("ls")...))
		})
	}
}

func TestMemoryExpires(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "memories")
	for _, name := range []string{"old", "new"} {
		r := cliWith(t.Context(), "text", "memory", "put", "-s", "file:"+dir, "--scope", "user-1", name)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	when := time.Now().Add(-100 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "user-1", "old"), when, when))
	require.Contains(t, fails(t, exitUsage, "memory", "expire", "-s", "file:"+dir, "--scope", "user-1", "--unused-for", "90d"), "--yes")
	require.Equal(t, "/memories/old\ndeleted 1 file\n", ok(t, "memory", "expire", "-s", "file:"+dir, "--scope", "user-1", "--unused-for", "90d", "--yes"))
}

func TestMemoryDemandsAScopeAndAStore(t *testing.T) {
	home(t)
	dir := t.TempDir()
	require.Contains(t, fails(t, exitUsage, "memory", "ls", "-s", "file:"+dir), "--scope")
	require.Contains(t, fails(t, exitUsage, "memory", "ls", "-s", "file:"+dir, "--scope", ""), "--scope is empty")
	require.Contains(t, fails(t, exitUsage, "memory", "ls", "--scope", "x"), "--store")
	require.Contains(t, fails(t, exitUsage, "memory", "ls", "-s", "mem:", "--scope", "x"), "no memory is kept")
	require.Contains(t, fails(t, exitNotFound, "memory", "cat", "-s", "file:"+dir, "--scope", "x", "a"), "no such file")
	require.Contains(t, fails(t, exitUsage, "memory", "migrate", "-s", "file:"+dir), "no tables")
	require.Contains(t, fails(t, exitUsage, "memory", "expire", "-s", "file:"+dir, "--scope", "x", "--unused-for", "5m"), "at least 1h")
	require.Contains(t, fails(t, exitUsage, "memory", "frobnicate"), "unknown command")
}

func TestMemoryPutEndsAtTheLimit(t *testing.T) {
	home(t)
	dir := filepath.Join(t.TempDir(), "memories")
	r := cliWith(t.Context(), strings.Repeat("x", 4<<20+1), "memory", "put", "-s", "file:"+dir, "--scope", "x", "a")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "standard input has more than 4,194,304 bytes")
	require.NoDirExists(t, dir)
	fails(t, exitNotFound, "memory", "migrate", "-s", "file:"+dir)
	require.NoDirExists(t, dir)
}
