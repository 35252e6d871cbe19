package check_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

var zones = sync.OnceValue(func() *check.Zones {
	z, err := check.LoadZones(calendar.EmbeddedZip())
	if err != nil {
		panic(err)
	}
	return z
})

// story runs a world in which a trigger can go through everything.
func story(t *testing.T) (h *check.History, end int64) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC))) // the day before New York's clocks change
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.AwaitOwners()
		report(w)
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(2 * time.Minute)
		h, end = w.History(), time.Now().UnixMilli()
	})
	return h, end
}

// report sends the commands and receipts of the story.
func report(w *sim.World) {
	o := func(key, body string) { w.Send(key, body); time.Sleep(50 * time.Millisecond) }
	o("plain",
		`{"op":"register","delay":"1m","payload":{"a":1},"user_id":"u1","tags":{"type":"x"},"headers":{"h":"v"}}`)
	o("plain",
		`{"op":"register","delay":"1m","payload":{"a":1},"user_id":"u1","tags":{"type":"x"},"headers":{"h":"v"}}`)
	o("other", `{"op":"register","delay":"1m","payload":{"b":2}}`)
	o("moved", `{"op":"register","delay":"1h","idempotency_key":"k1"}`)
	o("moved", `{"op":"register","delay":"2h","idempotency_key":"k2"}`)
	o("moved", `{"op":"register","delay":"3h","idempotency_key":"k2"}`)
	o("moved", `{"op":"snooze","for":"30m"}`)
	o("moved", `{"op":"pause","note":"away"}`)
	o("moved", `{"op":"reschedule","delay":"5m"}`)
	o("gone", `{"op":"register","delay":"10m"}`)
	o("gone", `{"op":"cancel"}`)
	o("gone", `{"op":"cancel"}`)
	o("gone", `{"op":"register","delay":"9m"}`)
	o("stopped", `{"op":"register","delay":"10m"}`)
	o("stopped", `{"op":"cancel"}`)
	o("never", `{"op":"cancel"}`)
	o("never", `{"op":"register","delay":1}`)
	o("series", `{"op":"register","recurrence":"every:10m","jitter":"1m","expires_after":"1h"}`)
	o("series", `{"op":"run_now"}`)
	o("series", `{"op":"snooze","for":"3m"}`)
	o("series", `{"op":"skip"}`)
	o("twice", `{"op":"register","recurrence":"every:5m","count":2,"misfire":"fire_all"}`)
	o("dst",
		`{"op":"register","recurrence":"FREQ=DAILY;BYHOUR=2;BYMINUTE=30","start":"2026-03-07T08:00","timezone":"America/New_York"}`)
	o("cron", `{"op":"register","recurrence":"cron:*/10 * * * *","timezone":"Europe/Berlin"}`)
	o("zoned", `{"op":"register","recurrence":"cron:*/20 * * * *","timezone":"Europe/Berlin"}`)
	o("zoned", `{"op":"rezone","timezone":"America/New_York"}`)
	o("zoned", `{"op":"rezone","timezone":"America/New_York"}`)
	o("once", `{"op":"register","fire_at":"2026-03-08T02:30","timezone":"America/New_York","payload":"x"}`)
	o("bad", `{"op":"register","delay":2,"zzz":1}`)
	o("bad", `{"op":"resume"}`)
	o("bad", `{"op":"register","delay":2,"fire_at":"2026-03-08T02:30Z"}`)
	o("erased", `{"op":"register","delay":"1h","payload":"secret"}`)
	o("erased", `{"op":"erase"}`)
	o("erased", `{"op":"register","delay":"30m","if_revision":9}`)
	o("erased", `{"op":"register","delay":"30m"}`)
	o("erased", `{"op":"register","delay":"40m","if_absent":true}`)
	o("flown", `{"op":"register","delay":"20s","channel":"r-push"}`)
	o("failed", `{"op":"register","delay":"20s","channel":"r-push"}`)
	o("late", `{"op":"register","delay":"20s","channel":"r-push"}`)
	o("halted", `{"op":"register","delay":"20s","channel":"r-push"}`)
	o("acked", `{"op":"register","delay":"20s","channel":"r-push"}`)
	o("oncall", `{"op":"register","delay":"20s","escalation":[{"channel":"r-step"},{"after":"30s","channel":"r-step"}]}`)
	o("gonemad", `not a command`)
	w.Produce(&kgo.Record{
		Topic: w.Names.Commands(), Partition: topics.Partition([]byte("headers"), w.P),
		Key: []byte("headers"), Value: []byte("raw"),
		Headers: []kgo.RecordHeader{{Key: "wc-delay", Value: []byte("90s")}, {Key: "mine", Value: []byte("1")}},
	})
	for i := range 4 {
		key := fmt.Sprint("stray", i)
		w.RegisterOn(1-topics.Partition([]byte(key), w.P), key, time.Now().Add(time.Minute))
	}
	time.Sleep(30 * time.Second)
	receipts(w)
	o("halted", `{"op":"cancel"}`)
	time.Sleep(5 * time.Minute)
	o("moved", `{"op":"resume"}`)
	o("plain", `{"op":"snooze","for":"1m"}`)
	o("plain", `{"op":"cancel"}`)
	o("other", `{"op":"cancel"}`)
	o("never", `{"op":"register","fire_at":"2026-03-07T12:00:02Z","payload":7}`)
	time.Sleep(20 * time.Minute)
	o("series", `{"op":"register","recurrence":"every:10m","payload":"edited"}`)
	o("series", `{"op":"pause"}`)
	time.Sleep(35 * time.Minute)
	o("series", `{"op":"resume"}`)
	time.Sleep(30 * time.Minute)
	w.Kill("a")
	time.Sleep(20 * time.Hour)
}

// receipts answers the due events of channel r-push.
func receipts(w *sim.World) {
	say := func(key, id, body string) {
		w.Receipt(key, fmt.Sprintf(`{"due_id":%q,%s}`, id, body))
		time.Sleep(time.Second)
	}
	ids := map[string]string{}
	for _, r := range w.Dump(w.Names.Due("r-push")) {
		ids[string(r.Key)] = pipelinetest.Header(r, "ce_id")
	}
	occurrence := strings.TrimSuffix(strings.TrimPrefix(ids["acked"], "acked@"), "#0")
	w.Send("acked", fmt.Sprintf(`{"op":"ack","occurrence":%q}`, occurrence))
	say("flown", ids["flown"], `"outcome":"retry","retry_after":"5s"`)
	say("failed", ids["failed"], `"outcome":"failed","code":"gone"`)
	say("late", ids["late"], `"outcome":"retry","retry_after":"10s"`)
	time.Sleep(20 * time.Second)
	say("flown", ids["flown"], `"outcome":"delivered"`)
	say("late", ids["late"], `"outcome":"accepted"`)
	say("late", ids["late"], `"outcome":"retry"`)
}

func verify(t *testing.T, h *check.History, end int64) *check.Report {
	t.Helper()
	r, err := check.Verify(h, check.Options{Zones: zones(), End: end, Unread: -1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStory checks that the checker finds nothing in a world without faults.
func TestStory(t *testing.T) {
	r := verify(t, first(story(t)), 0)
	for i := range r.Violations {
		v := &r.Violations[i]
		t.Error(v.String())
		for _, line := range v.Timeline {
			t.Log("    ", line)
		}
	}
	t.Logf("%d records, %d triggers, skipped %v, trusted %v, notes %q", r.Records, r.Triggers, r.Skipped, r.Trusted,
		r.Notes)
}

func first(h *check.History, _ int64) *check.History { return h }

// TestLatenessInFaults checks that every firing counts once, inside or outside of faults, and
// that faults change nothing else.
func TestLatenessInFaults(t *testing.T) {
	h, end := story(t)
	plain := verify(t, h, end)
	middle := int64(0) // of the history
	for _, f := range h.Files() {
		if err := f.Records(func(r *check.Record) { middle = max(middle, r.Timestamp) }); err != nil {
			t.Fatal(err)
		}
	}
	middle -= time.Hour.Milliseconds()
	for _, c := range []struct {
		name            string
		from, to        int64
		inside, outside bool
	}{
		{"none", 0, 0, false, true},
		{"all of it", 1, 1 << 62, true, false},
		{"the last hour", middle, 1 << 62, true, true},
	} {
		r, err := check.Verify(h, check.Options{
			Zones: zones(), End: end, Unread: -1,
			Faults: []check.Fault{{Name: c.name, From: c.from, To: c.to}},
		})
		if err != nil {
			t.Fatal(err)
		}
		in, out := r.InFaults.Count, r.NoFaults.Count
		if in+out != plain.Lateness.Count || r.Lateness.Count != plain.Lateness.Count || in > 0 != c.inside ||
			out > 0 != c.outside || !r.OK() {
			t.Errorf("%s: %d firings inside, %d outside, of %d", c.name, in, out, plain.Lateness.Count)
		}
		for _, l := range []check.Lateness{r.Lateness, r.InFaults, r.NoFaults} {
			n := int64(0)
			for _, x := range l.Within {
				n += x
			}
			if n != l.Count {
				t.Errorf("%s: %d firings in classes, of %d", c.name, n, l.Count)
			}
		}
	}
}
