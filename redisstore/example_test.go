package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/redisstore"
)

func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}

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

// Sessions that nobody has written to for 30 days go by themselves.
func ExampleNew_ttl() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisstore.New(client, &redisstore.Options{Prefix: "agents:", TTL: 30 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sessionstore.ListProjects(context.Background(), store))
}

func ExampleNew_cluster() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"}})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sessionstore.ListProjects(context.Background(), store))
}

// An append returns when a replica has the batch too.
func ExampleNew_sentinel() {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "mymaster",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	})
	defer client.Close()
	store, err := redisstore.New(client, &redisstore.Options{WaitReplicas: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sessionstore.ListProjects(context.Background(), store))
}

// After an index was lost, Repair finds the sessions again.
func ExampleStore_Repair() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisstore.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	report, err := store.Repair(context.Background(), "") // all projects
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d sessions, %d were not in the index\n", report.Sessions, report.Added)
	for _, key := range report.Damaged {
		fmt.Println("damaged:", key)
	}
}
