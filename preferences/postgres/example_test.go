package postgres_test

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/postgres"
)

// This example needs a PostgreSQL, so it is compiled and not run. The first call connects, and
// creates or migrates the tables.
func ExampleNew() {
	store, err := postgres.New(postgres.Options{URL: "postgres://waterclock@127.0.0.1/waterclock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx, ada := context.Background(), preferences.User{Tenant: "acme", ID: "ada"}
	if err := store.Put(ctx, ada, &preferences.Preferences{Zone: "Europe/Berlin"}); err != nil {
		fmt.Println(err)
		return
	}
	found, err := store.Get(ctx, []preferences.User{ada})
	fmt.Println(found, err)
}

// New checks the URL and does not connect, so an instance can start before its database.
func ExampleNew_invalid() {
	_, err := postgres.New(postgres.Options{URL: "mysql://127.0.0.1/waterclock"})
	fmt.Println(err)
	// Output: postgres.url: not a PostgreSQL URL; write postgres://user:password@host/database
}
