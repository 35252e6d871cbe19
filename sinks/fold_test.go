package sinks

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func TestEraOf(t *testing.T) {
	for _, c := range []struct {
		at   string
		want int
	}{
		{"2026-11-30T23:59:59.999999Z", 202611},
		{"2026-12-01T00:00:00Z", 202612},
		{"2026-12-01T00:30:00+01:00", 202611}, // eras are UTC
		{"2027-01-01T00:00:00Z", 202701},
		{"1970-01-01T00:00:00.000001Z", 197001},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := EraOf(at.UnixMicro()); got != c.want {
			t.Errorf("%s is in era %d, want %d", c.at, got, c.want)
		}
	}
}

// Golden values: a shard is part of a row's key, so the hash must never change.
func TestShardOf(t *testing.T) {
	for key, want := range map[string]int{"": 5, "a": 44, "hold-8c4": 2, "acme/日本語": 24} {
		if got := ShardOf(key); got != want {
			t.Errorf("%q is in shard %d, want %d", key, got, want)
		}
	}
	counts := [Shards]int{}
	for i := range 64_000 {
		counts[ShardOf("trg_"+time.Duration(i).String())]++
	}
	for shard, n := range counts {
		if n < 700 || n > 1300 {
			t.Errorf("shard %d has %d of 64,000 keys, want about 1,000", shard, n)
		}
	}
}

func TestStateUntil(t *testing.T) {
	const day = 24 * time.Hour
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name      string
		state     trigger.Status
		due       time.Duration // after the event; 0 none
		retention time.Duration
		want      time.Duration
	}{
		{"finished", trigger.Fired, 0, 90 * day, 90 * day},
		{"finished, whatever the plan was", trigger.Cancelled, 1000 * day, 90 * day, 90 * day},
		{"of no known state", 0, 0, 90 * day, 90 * day},
		{"pending, without a plan", trigger.Pending, 0, 90 * day, 400 * day},
		{"pending, due tomorrow", trigger.Pending, day, 90 * day, 401 * day},
		{"pending, due in three years", trigger.Pending, 1095 * day, 90 * day, 1495 * day},
		{"paused, overdue", trigger.Paused, -day, 90 * day, 400 * day},
		{"kept for longer than living ones are", trigger.Pending, 0, 1000 * day, 1000 * day},
	} {
		e := topics.Event{EventUS: at.UnixMicro(), State: c.state.String()}
		if c.due != 0 {
			e.ScheduledAt = trigger.At(at.Add(c.due)).String()
		}
		if got := StateUntil(&e, c.retention).Sub(at); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The state of a replaced trigger comes from the replacement, whatever happens to earlier
// emissions.
func TestStateIsNotOfWhatWentOutBefore(t *testing.T) {
	var row StateRow
	for i, e := range []topics.Event{
		{
			Type: "trigger.replaced", State: "PENDING", Channel: "sms", UserID: "bob", Timezone: "Asia/Tokyo",
			CorrelationID: "2",
		},
		{
			Type: "delivery.retried", State: "PENDING", Channel: "push", UserID: "ann", Timezone: "Europe/Berlin",
			CorrelationID: "1", Attempt: 2,
		},
		{
			Type: "occurrence.fired", State: "PENDING", Channel: "push", UserID: "ann", Timezone: "Europe/Berlin",
			CorrelationID: "1", Attempt: 2,
		},
		{
			Type: "delivery.delivered", State: "PENDING", Channel: "push", UserID: "ann", Timezone: "Europe/Berlin",
			CorrelationID: "1", Attempt: 2,
		},
	} {
		e.EventUS, e.Seq = 1_790_000_000_000_000+int64(i), int64(i+1)
		said := StateOf(&e, time.Hour)
		row.Merge(&said)
	}
	s, _ := row.At(time.UnixMicro(1_790_000_000_000_000), "default", "k")
	if s.Channel != "sms" || s.UserID != "bob" || s.Timezone != "Asia/Tokyo" || s.CorrelationID != "2" || s.Seq != 4 {
		t.Errorf("%+v", s)
	}
}

// A refused command for a key that the engine has forgotten must not remove what the history
// knows of it.
func TestRejectedOfNothingSaysNothingOfState(t *testing.T) {
	e := topics.Event{Type: "command.rejected", State: "UNKNOWN", EventUS: 1_790_000_000_000_000, Reason: "not_found"}
	if row := StateOf(&e, time.Hour); row.State.US != 0 || len(row.Eras) != 1 {
		t.Errorf("%+v", row)
	}
}
