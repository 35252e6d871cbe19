package sinktest

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

func testLife(t *testing.T, w *world) {
	at := w.futureMinute().Add(1500 * time.Millisecond)
	life := w.life("hold-8c4", at)
	w.apply(life...)
	w.requireEvents("hold-8c4", life)
	w.requireBytes("hold-8c4", life)

	s, ok := w.state("hold-8c4")
	want := sinks.TriggerState{
		Tenant: w.tenant, Trigger: "hold-8c4", State: "FIRED", PreviousState: "IN_FLIGHT",
		Type: "delivery.delivered", Revision: 1, Seq: 3, EventUS: life[2].EventUS, ScheduledAt: trigger.At(at),
		Occurrence: trigger.At(at).String(), Channel: "push", UserID: "u_81", Attempt: 1,
		Tags: map[string]string{"type": "reminder"},
	}
	if !ok || !reflect.DeepEqual(s, want) {
		t.Fatalf("state\n got %+v %v\nwant %+v", s, ok, want)
	}

	entry := sinks.MinuteEntry{
		Due: trigger.At(at), Tenant: w.tenant, Trigger: "hold-8c4", Occurrence: trigger.At(at).String(),
		State: "FIRED", Channel: "push", UserID: "u_81", FiredUS: life[1].EventUS, EventUS: life[1].EventUS,
	}
	if got := w.minute(at, 100); len(got) != 1 || got[0] != entry {
		t.Fatalf("minute\n got %+v\nwant %+v", got, entry)
	}
}

// Every field of docs/formats/events.md is read back as it was written.
func testEveryField(t *testing.T, w *world) {
	full := w.event("full", trigger.Replaced, trigger.Pending, func(r *sinks.EventRecord) {
		step, late, part := 2, int64(-4), int32(11)
		fill(reflect.ValueOf(&r.Event).Elem())
		r.ScheduledAt, r.PreviousScheduled = "2026-11-20T14:00:00.001Z", "2026-11-20T15:00:00.999Z"
		r.FirstFired, r.NextAt = "2026-11-20T14:00:00.002Z", "2026-11-21T14:00:00.003Z"
		r.EffectiveAt = "2026-11-20T14:00:00.001Z"
		r.Rule = json.RawMessage(`{"recurrence":"every:1d","jitter":"5s"}`)
		r.First, r.Last = "2026-03-08T07:30:00.000Z", "2026-03-09T07:30:00.000Z"
		r.Step, r.LatenessMS, r.DuePartition = &step, &late, &part
		r.Tags = map[string]string{"a": "1", "ü": "", "": "empty"}
		r.Payload = json.RawMessage(`{"n":[1,2.5,null,"x"]}`)
		r.Tenant, r.Trigger, r.Type, r.State = w.tenant, "full", "trigger.replaced", "PENDING"
		r.Attempt, r.Count, r.Version, r.Revision, r.Seq = 4, 5, 6, 1<<40, 1<<41
		w.at(r, w.start)
	})
	w.apply(full)
	w.requireEvents("full", []sinks.EventRecord{full})

	// Omitted fields stay omitted: step 0 is not the same as no step.
	zero := 0
	bare := w.event("bare", trigger.Registered, trigger.Pending, func(r *sinks.EventRecord) { r.Step = &zero })
	w.apply(bare)
	w.requireEvents("bare", []sinks.EventRecord{bare})
}

// fill sets every text field to its own name, so that no two can be swapped unnoticed.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String {
			f.SetString(strings.ToLower(v.Type().Field(i).Name) + " ⏰")
		}
	}
}

func testPayloads(t *testing.T, w *world) {
	for _, c := range []struct{ name, json, base64 string }{
		{"object", `{"title":"Take pills","n":12345678901234567890}`, ""},
		{"text", `"just text"`, ""},
		{"number", `7`, ""},
		{"a name twice", `{"a":1,"a":2}`, ""},
		{"none", "", ""},
		{"bytes", "", "AAH/"},
		{"large", `"` + strings.Repeat("x", 512<<10) + `"`, ""},
	} {
		e := w.event(c.name, trigger.Registered, trigger.Pending, func(r *sinks.EventRecord) {
			r.PayloadBase64 = c.base64
			if c.json != "" {
				r.Payload = json.RawMessage(c.json)
			}
		})
		w.apply(e)
		got := w.events(c.name, false, 10)
		if len(got) != 1 || string(got[0].Payload) != c.json || got[0].PayloadBase64 != c.base64 {
			t.Errorf("%s: %d events, payload of %d bytes, want %d", c.name, len(got), len(got[0].Payload), len(c.json))
		}
	}
}

func testNothing(t *testing.T, w *world) {
	w.apply()
	if got := w.events("nobody", false, 10); len(got) != 0 {
		t.Errorf("events of an unknown trigger: %+v", got)
	}
	if s, ok := w.state("nobody"); ok || !reflect.DeepEqual(s, sinks.TriggerState{}) {
		t.Errorf("state of an unknown trigger: %+v %v", s, ok)
	}
	if got := w.minute(w.futureMinute(), 10); len(got) != 0 {
		t.Errorf("entries of an empty minute: %+v", got)
	}
}

// A rejected command for an unknown trigger is an event without seq and state. It has a row, and
// its trigger has no state. Even the key may be empty.
func testUnknownTrigger(t *testing.T, w *world) {
	for _, key := range []string{"typo", ""} {
		var all []sinks.EventRecord
		for range 3 {
			all = append(all, w.event(key, trigger.Rejected, 0, func(r *sinks.EventRecord) {
				r.Seq, r.Revision, r.Reason = 0, 0, "invalid_key"
			}))
		}
		w.apply(all...)
		w.requireEvents(key, all)
		if s, ok := w.state(key); ok {
			t.Errorf("%q has a state: %+v", key, s)
		}
	}
}

func testStateNewest(t *testing.T, w *world) {
	at := w.futureMinute()
	w.apply(
		w.event("k", trigger.Registered, trigger.Pending, due(at), user("ann"), func(r *sinks.EventRecord) {
			r.Timezone, r.LocalTime, r.CorrelationID = "Europe/Zurich", "09:00", "c1"
		}),
		w.event("k", trigger.DeliveryRetried, trigger.InFlight, due(at.Add(time.Hour)),
			func(r *sinks.EventRecord) { r.Attempt, r.Reason = 2, "timeout" }),
	)
	w.apply(w.event("k", trigger.CancelledFact, trigger.Cancelled, func(r *sinks.EventRecord) { r.Revision = 2 }))
	s, ok := w.state("k")
	switch {
	case !ok || s.State != "CANCELLED" || s.Seq != 3 || s.Revision != 2 || s.Reason != "":
		t.Errorf("the newest event's own fields: %+v", s)
	case s.UserID != "ann" || s.Timezone != "Europe/Zurich" || s.CorrelationID != "c1" || s.Attempt != 2:
		t.Errorf("fields of earlier events are gone: %+v", s)
	case s.ScheduledAt != trigger.At(at):
		t.Errorf("scheduled at %s: the time of a retry is not the plan's", s.ScheduledAt)
	}
}

func testUnicodeKeys(t *testing.T, w *world) {
	keys := []string{
		"ü", "日本語/トリガー", "⏰⏰", "a/b", "a", "a\x00b", "a\x00", "e\u0301", "é", strings.Repeat("ß", 127),
		"' OR 1=1 --", " ",
	}
	want := map[string][]sinks.EventRecord{}
	at := w.futureMinute()
	for _, k := range keys {
		want[k] = w.life(k, at)
		w.apply(want[k]...)
	}
	for _, k := range keys {
		w.requireEvents(k, want[k])
		if s, ok := w.state(k); !ok || s.Trigger != k {
			t.Errorf("state of %q: %+v %v", k, s, ok)
		}
	}
	if got := w.minute(at, 3); len(got) != len(keys) {
		t.Errorf("%d entries in the minute, want %d: %+v", len(got), len(keys), got)
	}
}

func testProgress(t *testing.T, w *world) {
	first, second := w.life("a", w.futureMinute()), w.life("b", w.futureMinute())
	own := int32(1000 + w.rand.IntN(1_000_000))
	for _, all := range [][]sinks.EventRecord{first, second} {
		for i := range all {
			all[i].Partition = own
		}
	}
	w.apply(first...)
	w.apply(append(second, sinks.EventRecord{Partition: own, Offset: second[2].Offset + 1, Poison: true})...)
	want := sinks.Progress{Next: second[2].Offset + 2, EventUS: second[2].EventUS}
	check := func(when string) {
		t.Helper()
		all, err := w.h.Progress(context.Background())
		if err != nil || all[own] != want {
			t.Fatalf("progress %s: %+v, %v; want %+v", when, all[own], err, want)
		}
	}
	check("after two batches")
	w.apply(first...)
	check("after a replay of the first")

	// Only the marker of an aborted turn, on a partition with no newer event.
	marker := sinks.EventRecord{Partition: own, Offset: want.Next, Poison: true}
	want.Next++
	w.apply(marker)
	check("after a marker")
	marker.Offset -= 2
	w.apply(marker)
	check("after an old marker")
	w.apply(append(first, second...)...)
	check("after a replay")

	marker.Partition, marker.Offset = own+1, 3
	w.apply(marker)
	all, err := w.h.Progress(context.Background())
	if want := (sinks.Progress{Next: 4}); err != nil || all[own+1] != want {
		t.Errorf("a partition with markers alone: %+v, %v; want %+v", all[own+1], err, want)
	}
	newer := w.event("c", trigger.Registered, trigger.Pending)
	newer.Partition = own
	newer.Offset = want.Next
	want = sinks.Progress{Next: newer.Offset + 1, EventUS: newer.EventUS}
	w.apply(newer)
	check("after a newer event")
}

func testCancelled(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := w.event("k", trigger.Registered, trigger.Pending)
	if err := w.h.Apply(ctx, []sinks.EventRecord{e}); err == nil {
		t.Error("apply with a cancelled context says that the rows are durable")
	}
	w.apply(e)
	w.requireEvents("k", []sinks.EventRecord{e})
}
