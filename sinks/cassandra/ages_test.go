package cassandra

import (
	"context"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
)

// A keyspace that grows old shows what a keyspace rebuilt that day would show. Cassandra's clock
// cannot be set, so a day is 400 ms long.
func TestLive(t *testing.T) {
	o := newKeyspace(t)
	c := sinktest.Clock{
		Now: time.Now, Wait: func(until time.Time) { time.Sleep(time.Until(until)) },
		Day: 400 * time.Millisecond, Ages: []int{0, 45, 80, 101, 114, 135},
	}
	sinktest.Live(t, func(t testing.TB, c sinktest.Config) sinks.History {
		o := o
		o.Retention = c.Retention
		return openTest(t, o)
	}, c)
}

// A process whose clock is a year ahead expires nothing, because cells expire by Cassandra's
// clock.
func TestClockAhead(t *testing.T) {
	o := newKeyspace(t)
	o.Now = func() time.Time { return time.Now().AddDate(1, 0, 0) }
	s, us := openTest(t, o), time.Now().UnixMicro()
	e := topics.Event{
		Type: "occurrence.fired", Version: 1, Trigger: "k", Tenant: "default", Seq: 1, State: "FIRED",
		EventUS: us,
	}
	if err := s.Apply(context.Background(), []sinks.EventRecord{{Event: e}}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Events(context.Background(), sinks.EventQuery{Tenant: "default", Trigger: "k"})
	if err != nil || len(page.Events) != 1 {
		t.Errorf("events %+v, %v", page.Events, err)
	}
	if state, ok, err := s.Trigger(context.Background(), "default", "k"); err != nil || !ok || state.State != "FIRED" {
		t.Errorf("state %+v, %v, %v", state, ok, err)
	}
}
