package mempg_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/mempg"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://me@localhost/agents")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := mempg.New(pool, "user-4711", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	tool, err := memory.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tool.Run(ctx, []byte(`{"command":"view","path":"/memories"}`)).Text())
}

// The scope says whose memory it is. It has to be given.
func ExampleNew() {
	_, err := mempg.New(nil, "", nil)
	fmt.Println(err)
	// Output: mempg: new "": invalid key: the scope is empty; name the tenant, user or project that the memory belongs to
}
