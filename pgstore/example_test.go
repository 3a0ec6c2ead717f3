package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/pgstore"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/agents")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, &pgstore.Options{Schema: "agents"})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
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

// Behind PgBouncer in transaction mode nothing may be prepared on a connection.
func ExampleNew_pooler() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig("postgres://app@pgbouncer:6432/agents")
	if err != nil {
		log.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sessionstore.ListProjects(ctx, store))
}

// A store on a transaction writes together with other statements.
func ExampleNew_transaction() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://app@db/agents")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	key := sessionstore.Key{ProjectKey: "acme", SessionID: "s"}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		store, err := pgstore.New(tx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE jobs SET done = true WHERE session = $1", key.SessionID); err != nil {
			return err
		}
		return store.Append(ctx, key, []sessionstore.Entry{sessionstore.Entry(`{"type":"summary","summary":"done"}`)})
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Purge deletes old sessions; call it from time to time, from any host.
func ExampleStore_Purge() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/agents")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	report, err := store.Purge(ctx, time.Now().AddDate(0, -3, 0))
	fmt.Println(report.Sessions, "sessions deleted")
	if err != nil {
		log.Fatal(err) // the next call goes on
	}
}

// Schema is for those who run their migrations with another tool.
func ExampleStore_Schema() {
	store, err := pgstore.New(new(pgxpool.Pool), &pgstore.Options{Schema: "agents"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(store.Schema())
}
