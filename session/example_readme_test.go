package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/session"
)

func readSessions(ctx context.Context, store sessionstore.SessionStore, project string) error {
	sessions, err := session.List(ctx, store, project, &session.ListOptions{Limit: 20})
	if err != nil {
		return err
	}
	for _, s := range sessions {
		fmt.Println(s.SessionID, s.Summary)
	}

	key := sessionstore.Key{ProjectKey: project, SessionID: sessions[0].SessionID}
	conversation, err := session.Messages(ctx, store, key, nil)
	if err != nil {
		return err
	}
	for _, m := range conversation.Messages {
		fmt.Println(m.Type, string(m.Message))
	}

	_, err = session.Fork(ctx, store, key, &session.ForkOptions{Title: "Another try"})
	return err
}

func Example_listReadFork() {
	ctx := context.Background()
	if err := readSessions(ctx, stored(ctx), key.ProjectKey); err != nil {
		log.Fatal(err)
	}
	// Output:
	// d6539f4a-c309-4c8e-9a65-6e4746f7faab Fix the build
	// user {"role":"user","content":"Fix the build"}
	// assistant {"role":"assistant","content":"Done."}
	// user {"role":"user","content":"Thanks"}
}
