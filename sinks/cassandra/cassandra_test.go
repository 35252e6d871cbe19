package cassandra

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

func TestConformance(t *testing.T) {
	o := newKeyspace(t)
	sinktest.Run(t, func(t testing.TB, c sinktest.Config) sinks.History {
		o := o
		o.Retention = c.Retention
		return openTest(t, o)
	})
}

// TestWarnsOfOneCopyInMemory: the log says that a crash of Cassandra loses rows, if this node is set so.
func TestWarnsOfOneCopyInMemory(t *testing.T) {
	o := newKeyspace(t)
	session, err := oneNode(o.withDefaults(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var sync string
	if err := session.Query(`SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'`).
		WithContext(t.Context()).Scan(&sync); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	connected, err := openTest(t, o).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	connected.Close()
	if got := strings.Contains(log.String(), "commitlog_sync: batch"); got != (sync == "periodic") {
		t.Errorf("commitlog_sync %s: %s", sync, log.String())
	}
}

// newKeyspace creates and migrates a keyspace for the test, and drops it afterwards.
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

// An aborted turn leaves only a marker on a partition without newer events. Progress must move
// past it, even if another process read the events before. A late projector must not set it back.
func TestProgressPassesMarkers(t *testing.T) {
	o := newKeyspace(t)
	before, s := openTest(t, o), openTest(t, o)
	apply := func(s *Store, batch ...sinks.EventRecord) {
		t.Helper()
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	event := sinks.EventRecord{Partition: 3, Offset: 10, Event: topics.Event{
		Type: "trigger.registered", Trigger: "k", Tenant: "default", Seq: 1, State: "PENDING",
		EventUS: time.Now().UnixMicro(),
	}}
	marker := func(offset int64) sinks.EventRecord {
		return sinks.EventRecord{Partition: 3, Offset: offset, Poison: true}
	}
	apply(before, event, marker(11))
	apply(s, marker(12))
	apply(before, marker(11))
	apply(before, event)
	all, err := s.Progress(t.Context())
	if want := (sinks.Progress{Next: 13, EventUS: event.EventUS}); err != nil || all[3] != want {
		t.Errorf("%+v, %v; want %+v", all[3], err, want)
	}
}
