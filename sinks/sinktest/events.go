package sinktest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// event makes the next event of a trigger, a second after the previous one.
func (w *world) event(key string, t trigger.FactType, state trigger.Status,
	edit ...func(*sinks.EventRecord),
) sinks.EventRecord {
	w.us++
	at := w.start.Add(time.Duration(w.us) * time.Second)
	w.seq[key]++
	r := sinks.EventRecord{Partition: partition, Offset: w.offset}
	w.offset++
	r.Type, r.Version, r.Trigger, r.Tenant = string(t), 1, key, w.tenant
	r.State, r.Seq, r.Revision, r.Channel = state.String(), w.seq[key], 1, "push"
	w.at(&r, at)
	for _, f := range edit {
		f(&r)
	}
	return r
}

// at sets when an event happened.
func (w *world) at(r *sinks.EventRecord, at time.Time) {
	r.EventUS = at.UnixMicro()
	r.EventID = fmt.Sprintf("%d-%d", partition, r.EventUS)
	r.OccurredAt = trigger.At(at).String()
}

func due(at time.Time) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.ScheduledAt = trigger.At(at).String() }
}

func before(at time.Time) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.PreviousScheduled = trigger.At(at).String() }
}

func user(id string) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.UserID = id }
}

func occurrence(o string) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.Occurrence = o }
}

// life returns the events of a trigger that was registered, fired and delivered.
func (w *world) life(key string, at time.Time) []sinks.EventRecord {
	o := occurrence(trigger.At(at).String())
	return []sinks.EventRecord{
		w.event(key, trigger.Registered, trigger.Pending, due(at), o, user("u_81"), func(r *sinks.EventRecord) {
			r.Payload, r.Tags = json.RawMessage(`{"title":"Take pills"}`), map[string]string{"type": "reminder"}
		}),
		w.event(key, trigger.OccurrenceFired, trigger.InFlight, due(at), o, user("u_81"), func(r *sinks.EventRecord) {
			step, late := 0, int64(3)
			r.Step, r.Attempt, r.LatenessMS, r.PreviousState, r.DueTopic = &step, 1, &late, "PENDING",
				"waterclock.due.push"
		}),
		w.event(key, trigger.DeliveryDelivered, trigger.Fired, o, user("u_81"),
			func(r *sinks.EventRecord) { r.PreviousState = "IN_FLIGHT" }),
	}
}

// futureMinute returns a whole minute of its own, some days ahead.
func (w *world) futureMinute() time.Time {
	w.ahead += 1 + w.rand.IntN(2000)
	return time.Now().UTC().Truncate(time.Minute).Add(time.Duration(2000+w.ahead) * time.Minute)
}

func (w *world) apply(batch ...sinks.EventRecord) {
	w.t.Helper()
	if err := w.h.Apply(context.Background(), batch); err != nil {
		w.t.Fatalf("apply %d events: %v", len(batch), err)
	}
}

// events reads all of a trigger's events, in pages of the given size.
func (w *world) events(key string, newest bool, limit int) (all []sinks.EventRecord) {
	w.t.Helper()
	q := sinks.EventQuery{Tenant: w.tenant, Trigger: key, Limit: limit, Newest: newest}
	for {
		page, err := w.h.Events(context.Background(), q)
		if err != nil {
			w.t.Fatalf("events of %q: %v", key, err)
		}
		if len(page.Events) > limit {
			w.t.Fatalf("a page of %d events, limit %d", len(page.Events), limit)
		}
		all = append(all, page.Events...)
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
}

func (w *world) state(key string) (sinks.TriggerState, bool) {
	w.t.Helper()
	s, ok, err := w.h.Trigger(context.Background(), w.tenant, key)
	if err != nil {
		w.t.Fatalf("state of %q: %v", key, err)
	}
	return s, ok
}

// minute reads this test's entries of one minute, in pages of the given size.
func (w *world) minute(at time.Time, limit int) (all []sinks.MinuteEntry) {
	w.t.Helper()
	q := sinks.MinuteQuery{Minute: sinks.MinuteOf(trigger.At(at)), Limit: limit}
	for {
		page, err := w.h.ByMinute(context.Background(), q)
		if err != nil {
			w.t.Fatalf("minute %s: %v", at, err)
		}
		for _, e := range page.Entries {
			if e.Tenant == w.tenant {
				all = append(all, e)
			}
		}
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
}

// requireEvents compares a trigger's rows with the expected events.
func (w *world) requireEvents(key string, want []sinks.EventRecord) {
	w.t.Helper()
	got := w.events(key, false, 500)
	if len(got) != len(want) {
		w.t.Fatalf("%q has %d events, want %d", key, len(got), len(want))
	}
	for i := range got {
		if g, e := canonical(got[i]), canonical(want[i]); !reflect.DeepEqual(g, e) {
			w.t.Fatalf("%q event %d:\n got %+v\nwant %+v", key, i, g, e)
		}
	}
}

// requireBytes reads a trigger's events in pages of one byte: each has one event, and a cursor if it is not
// the last.
func (w *world) requireBytes(key string, want []sinks.EventRecord) {
	w.t.Helper()
	q := sinks.EventQuery{Tenant: w.tenant, Trigger: key, Limit: 500, Bytes: 1}
	for i := range want {
		page, err := w.h.Events(context.Background(), q)
		if err != nil {
			w.t.Fatalf("events of %q: %v", key, err)
		}
		if len(page.Events) != 1 || page.Events[0].EventUS != want[i].EventUS ||
			page.Next.IsZero() != (i == len(want)-1) {
			w.t.Fatalf("page %d of one byte: %+v", i, page)
		}
		q.After = page.Next
	}
}

// canonical removes whitespace from the payload, because sinks need not keep it.
func canonical(r sinks.EventRecord) sinks.EventRecord {
	if len(r.Payload) > 0 {
		var v any
		if json.Unmarshal(r.Payload, &v) == nil {
			r.Payload, _ = json.Marshal(v)
		}
	}
	if len(r.Tags) == 0 {
		r.Tags = nil
	}
	return r
}
