package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/testenv"
)

func TestS3FromImportToPurge(t *testing.T) {
	home(t)
	dir := recordedDir(t)
	server := testenv.S3(t)
	bucket := "cli-" + strings.ToLower(rand.Text())
	client := s3.New(s3.Options{
		BaseEndpoint: &server.Endpoint, Region: server.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	url := fmt.Sprintf("s3://%s/some/prefix?endpoint=%s&region=%s&path_style=true", bucket, server.Endpoint, server.Region)

	require.Contains(t, ok(t, "import", dir, "--to", url), "8 transcripts")
	require.Contains(t, ok(t, "import", dir, "--to", url), "8 unchanged")
	ok(t, "verify", "file:"+dir, url)
	require.Contains(t, ok(t, "ls", "--all", "-s", url), recordedID)
	require.Equal(t, ok(t, "show", "-s", dir, recordedID), ok(t, "show", "-s", url, recordedID))
	require.Equal(t, "1 session, 0 added to an index\n", ok(t, "repair", "-s", url))
	require.Equal(t, `{"sessions":1,"added":0,"damaged":0}`+"\n", ok(t, "repair", "-s", url, "--json", recordedKey))
	require.Equal(t, "deleted 1 session\n", ok(t, "rm", "-s", url, recordedID, "--yes"))
	require.Empty(t, ok(t, "projects", "-s", url, "--json", "-q"))
	// Nothing is left, the index neither.
	_, err = client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &bucket})
	require.NoError(t, err)
}

func TestBadS3Stores(t *testing.T) {
	home(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	for url, text := range map[string]string{
		"s3:":                           "not a URL of the form s3://bucket/prefix",
		"s3:///prefix":                  "not a URL of the form s3://bucket/prefix",
		"s3://b?path_style=maybe":       "path_style=maybe: write true or false",
		"s3://b?endpoint=localhost":     "endpoint=localhost: write a URL",
		"s3://b?prefix=x":               `unknown option "prefix"; known are endpoint, region and path_style`,
		"s3://b/a//b?region=eu-north-1": "it has the segment",
	} {
		require.Contains(t, fails(t, exitUsage, "ls", "--all", "-s", url), text, url)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	down := "s3://b?region=eu-north-1&path_style=true&endpoint=http://127.0.0.1:1"
	require.Contains(t, fails(t, exitFailure, "ls", "--all", "-s", down), "s3store: list projects")
}
