package cassandra

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/test/services"
)

func TestConformance(t *testing.T) {
	o := newKeyspace(t)
	sinktest.Run(t, func(t testing.TB, c sinktest.Config) sinks.History {
		o := o
		o.Retention = c.Retention
		return openTest(t, o)
	})
}

// newKeyspace migrates a keyspace of the test's own and drops it afterwards.
func newKeyspace(t testing.TB) Options {
	t.Helper()
	o := Options{Hosts: services.Cassandra(t).Hosts, Keyspace: fmt.Sprintf("test_%08x", rand.Uint32())}
	if _, err := Migrate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropKeyspace(t, o) })
	return o
}

func dropKeyspace(t testing.TB, o Options) {
	session, err := oneNode(o.withDefaults(), "")
	if err != nil {
		t.Error(err)
		return
	}
	defer session.Close()
	if err := ddl(context.Background(), session, `DROP KEYSPACE IF EXISTS `+o.Keyspace); err != nil {
		t.Error(err)
	}
}

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
