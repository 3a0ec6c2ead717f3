package memredis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memredis"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := memredis.New(client, "user-4711", nil)
	if err != nil {
		log.Fatal(err)
	}
	tool, err := memory.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tool.Run(context.Background(), []byte(`{"command":"view","path":"/memories"}`)).Text())
}

// The scope says whose memory it is. It has to be given.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	_, err := memredis.New(client, "", nil)
	fmt.Println(err)
	// Output: memredis: new "": invalid key: the scope is empty; name the tenant, user or project that the memory belongs to
}
