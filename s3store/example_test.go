package s3store_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

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

// A server of one's own, which need not know the checksums that the SDK sends
// by default.
func ExampleNew_compatible() {
	client := s3.New(s3.Options{
		BaseEndpoint:               aws.String("https://minio.example.com"),
		Region:                     "us-east-1",
		UsePathStyle:               true,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	store, err := s3store.New(client, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(sessionstore.ListProjects(context.Background(), store))
}

// New checks the options and sends nothing.
func ExampleNew() {
	client := s3.New(s3.Options{Region: "eu-central-1"})
	_, err := s3store.New(client, "sessions", &s3store.Options{Prefix: "agents//"})
	fmt.Println(err)
	// Output: s3store: prefix "agents//": it has the segment ""
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
