package sinktest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// In Cassandra each month is a partition of its own, which must not show in the results.
func testEras(t *testing.T, w *world) {
	w.reopen(400 * 24 * time.Hour)
	var want []sinks.EventRecord
	first := time.Date(w.start.Year(), w.start.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -4, 0)
	for month := range 4 {
		if month == 2 {
			continue // leave a month without events
		}
		edge := first.AddDate(0, month, 0)
		for _, d := range []time.Duration{-time.Microsecond, 0, time.Microsecond, 24 * time.Hour} {
			e := w.event("k", trigger.OccurrenceFired, trigger.Pending)
			w.at(&e, edge.Add(d))
			want = append(want, e)
		}
	}
	w.apply(want...)
	w.requireEvents("k", want)
	for _, limit := range []int{1, 3, 4, 5, 11, 12, 13} {
		requireSame(t, fmt.Sprintf("forward in pages of %d", limit), w.events("k", false, limit), want)
		requireSame(t, fmt.Sprintf("newest first in pages of %d", limit), w.events("k", true, limit), reversed(want))
	}
}

func testPaging(t *testing.T, w *world) {
	var want []sinks.EventRecord
	for range 25 {
		want = append(want, w.event("k", trigger.OccurrenceFired, trigger.Pending))
	}
	other := w.event("k2", trigger.Registered, trigger.Pending) // must never be in k's list
	w.apply(append(slices.Clone(want), other)...)
	for _, limit := range []int{1, 7, 24, 25, 26} {
		requireSame(t, fmt.Sprintf("forward in pages of %d", limit), w.events("k", false, limit), want)
		requireSame(t, fmt.Sprintf("newest first in pages of %d", limit), w.events("k", true, limit), reversed(want))
	}

	// A cursor stays valid while events are added, so a client can follow a list.
	page, err := w.h.Events(context.Background(), sinks.EventQuery{
		Tenant: w.tenant, Trigger: "k",
		After: sinks.CursorOf(&want[24]),
	})
	if err != nil || len(page.Events) != 0 || !page.Next.IsZero() {
		t.Fatalf("after the last: %+v %v", page, err)
	}
	late := w.event("k", trigger.CancelledFact, trigger.Cancelled)
	w.apply(late)
	page, err = w.h.Events(context.Background(), sinks.EventQuery{
		Tenant: w.tenant, Trigger: "k",
		After: sinks.CursorOf(&want[24]),
	})
	if err != nil || len(page.Events) != 1 || page.Events[0].EventUS != late.EventUS {
		t.Fatalf("after the last, once there is one more: %+v %v", page, err)
	}
}

func testTenThousand(t *testing.T, w *world) {
	const n = 10_000
	w.start = w.start.Add(-n * time.Second)
	var want []sinks.EventRecord
	for range n {
		want = append(want, w.event("busy", trigger.OccurrenceFired, trigger.Pending, due(w.start)))
	}
	for part := range slices.Chunk(want, 2000) {
		w.apply(part...)
	}
	requireSame(t, "forward", w.events("busy", false, 1000), want)
	requireSame(t, "newest first", w.events("busy", true, 999), reversed(want))
	if s, _ := w.state("busy"); s.Seq != n {
		t.Errorf("state at seq %d", s.Seq)
	}
}

func reversed(all []sinks.EventRecord) []sinks.EventRecord {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

func requireSame(t *testing.T, what string, got, want []sinks.EventRecord) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i].EventUS != want[i].EventUS || got[i].Seq != want[i].Seq {
			t.Fatalf("%s: event %d is %d/%d, want %d/%d", what, i, got[i].EventUS, got[i].Seq, want[i].EventUS,
				want[i].Seq)
		}
	}
}

// The state of an entry shows what became of its occurrence.
func testMinute(t *testing.T, w *world) {
	type written = func(at, to time.Time, key string) []sinks.EventRecord
	register := func(at time.Time, key string) sinks.EventRecord {
		return w.event(key, trigger.Registered, trigger.Pending, due(at), user("ann"))
	}
	for _, c := range []struct {
		name     string
		write    written
		at, then string // state of the entry at the first and at the second instant; "": no entry
	}{
		{"registered", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k)}
		}, "PENDING", ""},
		{"rescheduled", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.Rescheduled, trigger.Pending, due(to),
				before(at))}
		}, "MOVED", "PENDING"},
		{"rescheduled and back", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				register(at, k), w.event(k, trigger.Rescheduled, trigger.Pending, due(to), before(at)),
				w.event(k, trigger.Rescheduled, trigger.Pending, due(at), before(to)),
			}
		}, "PENDING", "MOVED"},
		{"rescheduled to the same", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.Rescheduled, trigger.Pending, due(at),
				before(at))}
		}, "PENDING", ""},
		{"rescheduled while paused", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.Rescheduled, trigger.Paused, due(to),
				before(at))}
		}, "MOVED", "PAUSED"},
		{"replaced", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.Replaced, trigger.Pending, due(to),
				before(at))}
		}, "MOVED", "PENDING"},
		{"cancelled", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.CancelledFact, trigger.Cancelled, due(at))}
		}, "CANCELLED", ""},
		{"fired, then cancelled too late", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				register(at, k), w.event(k, trigger.OccurrenceFired, trigger.Fired, due(at)),
				w.event(k, trigger.CancelTooLate, trigger.Fired, due(at)),
			}
		}, "FIRED", ""},
		{"skipped", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.Skipped, trigger.Pending, due(at))}
		}, "SKIPPED", ""},
		{"paused", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.PausedFact, trigger.Paused, due(at))}
		}, "PAUSED", ""},
		{"paused and resumed", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				register(at, k), w.event(k, trigger.PausedFact, trigger.Paused, due(at)),
				w.event(k, trigger.Resumed, trigger.Pending, due(at)),
			}
		}, "PENDING", ""},
		{"expired", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{register(at, k), w.event(k, trigger.OccurrenceExpired, trigger.Expired, due(at))}
		}, "EXPIRED", ""},
		{"snoozed after the fact", func(at, to time.Time, k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				register(at, k), w.event(k, trigger.OccurrenceFired, trigger.Fired, due(at)),
				w.event(k, trigger.Snoozed, trigger.Pending, due(to)),
			}
		}, "FIRED", "PENDING"},
	} {
		at := w.futureMinute().Add(time.Duration(w.rand.IntN(59_999)) * time.Millisecond)
		to := at.Add(3 * time.Minute)
		events := c.write(at, to, c.name)
		w.apply(events...)
		if got := w.stateAt(at, c.name); got != c.at {
			t.Errorf("%s: first instant %q, want %q", c.name, got, c.at)
		}
		if got := w.stateAt(to, c.name); got != c.then {
			t.Errorf("%s: second instant %q, want %q", c.name, got, c.then)
		}
	}
}

func (w *world) stateAt(at time.Time, key string) string {
	for _, e := range w.minute(at, 100) {
		if e.Trigger == key && e.Due == trigger.At(at) {
			return e.State
		}
	}
	return ""
}

func testMinutePaging(t *testing.T, w *world) {
	at := w.futureMinute()
	var all []sinks.EventRecord
	for i := range 150 {
		all = append(all, w.event(fmt.Sprintf("k%03d", i), trigger.Registered, trigger.Pending,
			due(at.Add(time.Duration(w.rand.IntN(5))*time.Second))))
	}
	all = append(all, w.event("before", trigger.Registered, trigger.Pending, due(at.Add(-time.Millisecond))),
		w.event("behind", trigger.Registered, trigger.Pending, due(at.Add(time.Minute))))
	w.apply(all...)
	want := w.minute(at, 1000)
	if len(want) != 150 || !slices.IsSortedFunc(want, func(a,
		b sinks.MinuteEntry,
	) int {
		return a.Cursor().Compare(b.Cursor())
	}) {
		t.Fatalf("%d entries, want 150 in order", len(want))
	}
	for _, limit := range []int{1, 40, 149, 150} {
		if got := w.minute(at, limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %d entries, or in another order", limit, len(got))
		}
	}
	w.checkShards(at, want)
}

// checkShards checks that the shards together are complete, and that each has only its own
// triggers.
func (w *world) checkShards(at time.Time, want []sinks.MinuteEntry) {
	w.t.Helper()
	sum := 0
	for shard := range sinks.Shards {
		page, err := w.h.ByMinute(context.Background(), sinks.MinuteQuery{
			Minute: sinks.MinuteOf(trigger.At(at)),
			Shards: []int{shard}, Limit: 1000,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page.Entries {
			if sinks.ShardOf(e.Trigger) != shard {
				w.t.Errorf("%q is in shard %d", e.Trigger, shard)
			}
			if e.Tenant == w.tenant {
				sum++
			}
		}
	}
	if sum != len(want) {
		w.t.Errorf("%d entries in all shards, want %d", sum, len(want))
	}
}
