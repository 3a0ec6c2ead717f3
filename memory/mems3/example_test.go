package mems3_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/mems3"
)

func ExampleNew() {
	ctx := context.Background()
	client := s3.New(s3.Options{Region: "eu-central-1"})
	store, err := mems3.New(client, "bucket", "user-4711", nil)
	if err != nil {
		log.Fatal(err)
	}
	tool, err := memory.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tool.Run(ctx, []byte(`{"command":"view","path":"/memories"}`)).Text())
}

// The scope says whose memory it is. It has to be given.
func ExampleNew_scope() {
	_, err := mems3.New(s3.New(s3.Options{Region: "eu-central-1"}), "bucket", "", nil)
	fmt.Println(err)
	// Output: mems3: new "": invalid key: the scope is empty; name the tenant, user or project that the memory belongs to
}
