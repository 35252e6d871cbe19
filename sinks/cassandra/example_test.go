package cassandra_test

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/cassandra"
)

// This example needs a Cassandra, so it is compiled and not run. It creates or migrates the
// keyspace, and reads a page of a trigger's events.
func ExampleNew() {
	history, err := cassandra.New(cassandra.Options{
		Hosts: []string{"127.0.0.1:9042"}, Keyspace: "waterclock", Migrate: true,
		Replication: cassandra.Replication{Factor: 1}, Retention: 90 * 24 * time.Hour, Topic: "waterclock.events",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer history.Close()
	page, err := history.Events(context.Background(), sinks.EventQuery{Tenant: "default", Trigger: "tea", Limit: 10})
	fmt.Println(len(page.Events), err)
}
