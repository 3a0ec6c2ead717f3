package s3store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/s3store"
)

func Example() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := s3store.New(s3.NewFromConfig(cfg), "my-bucket", &s3store.Options{Prefix: "agents/"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	key := sessionstore.Key{ProjectKey: "acme/-home-user-project", SessionID: "0b8e7a52-6f0d-4c7e-9a51-3f1f6c1d2e90"}
	err = store.Append(ctx, key, []sessionstore.Entry{
		sessionstore.Entry(`{"type":"user","uuid":"1","message":{"role":"user","content":"Hello"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	entries, err := store.Load(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(entries), "entries")
}

// A server of one's own, such as MinIO.
func ExampleNew_compatible() {
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("http://localhost:9000"),
		Region:       "us-east-1", // any name, but there must be one
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider("access-key", "secret-key", ""),
	})
	store, err := s3store.New(client, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(sessionstore.ListProjects(context.Background(), store))
}

// A server of before 2025, which does not know the checksums that the SDK sends
// by default.
func ExampleNew_checksums() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	store, err := s3store.New(client, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}

// A rule makes the server delete what is old.
func ExampleStore_LifecycleRule_put() {
	ctx := context.Background()
	client := s3.New(s3.Options{Region: "eu-central-1"})
	store, err := s3store.New(client, "my-bucket", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	_, err = client.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket:                 aws.String("my-bucket"),
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{store.LifecycleRule(180)}},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Every Go snippet of docs/s3.md stands in this file.
func TestTheSnippetsOfTheGuideAreCompiledCode(t *testing.T) {
	guide, err := os.ReadFile("../docs/s3.md")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	plain := func(text string) string { return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(text, "") }
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	require.NotEmpty(t, snippets)
	for _, s := range snippets {
		require.Contains(t, plain(string(code)), plain(s[1]))
	}
}

// New checks the options and sends nothing.
func ExampleNew() {
	client := s3.New(s3.Options{Region: "eu-central-1"})
	_, err := s3store.New(client, "sessions", &s3store.Options{Prefix: "/agents"})
	fmt.Println(err)
	// Output: s3store: prefix "/agents/": it must not begin with a slash
}

func ExampleStore_LifecycleRule() {
	store, err := s3store.New(s3.New(s3.Options{Region: "eu-central-1"}), "sessions", &s3store.Options{
		Prefix: "agents", Tags: map[string]string{"data": "transcripts"}, SSE: types.ServerSideEncryptionAes256,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	rule := store.LifecycleRule(90)
	fmt.Println(*rule.Filter.And.Prefix, *rule.Filter.And.Tags[0].Key, *rule.Expiration.Days)
	// Output: agents/ data 90
}

// Sessions that nobody has written to for 30 days are deleted as a whole.
func ExampleStore_Purge() {
	store, err := s3store.New(s3.New(s3.Options{Region: "eu-central-1"}), "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	report, err := store.Purge(context.Background(), time.Now().AddDate(0, 0, -30))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Sessions, "sessions deleted")
}
