package sinktest

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// blanked returns what remains of events that were erased.
func blanked(all []sinks.EventRecord) []sinks.EventRecord {
	var out []sinks.EventRecord
	for _, e := range all {
		sinks.Blank(&e.Event)
		out = append(out, e)
	}
	return out
}

// trigger.erased blanks the content of every earlier row, however the events are divided into
// batches, and also when they are replayed.
func testErase(t *testing.T, w *world) {
	for _, c := range []struct {
		name   string
		replay func(all []sinks.EventRecord)
	}{
		{"in one batch", func(all []sinks.EventRecord) { w.apply(all...) }},
		{"one by one", func(all []sinks.EventRecord) {
			for _, e := range all {
				w.apply(e)
			}
		}},
		{"and replayed", func(all []sinks.EventRecord) {
			w.apply(all...)
			w.apply(all[:2]...)
		}},
	} {
		at := w.futureMinute()
		all := w.life(c.name, at)
		for i := range all {
			all[i].Detail, all[i].CorrelationID = "to +41 79 000 00 00", "order-5"
		}
		all = append(all, w.event(c.name, trigger.ErasedFact, trigger.Erased))
		c.replay(all)
		w.requireEvents(c.name, append(blanked(all[:3]), all[3]))
		s, ok := w.state(c.name)
		if !ok || s.State != "ERASED" || s.UserID != "" || s.Tags != nil || s.CorrelationID != "" ||
			s.ErasedUS != all[3].EventUS {
			t.Errorf("%s: state %+v", c.name, s)
		}
		if got := w.minute(at, 10); len(got) != 1 || got[0].UserID != "" {
			t.Errorf("%s: minute %+v", c.name, got)
		}
	}
}

// testEraseMissed checks that an erase blanks the entry of a run that was missed. Its event has no
// scheduled_at, and leads there by first.
func testEraseMissed(t *testing.T, w *world) {
	at := w.futureMinute()
	w.apply(w.event("k", trigger.Misfired, trigger.Pending, user("ann"), func(r *sinks.EventRecord) {
		r.First, r.Last, r.Count = trigger.At(at).String(), trigger.At(at.Add(time.Hour)).String(), 2
	}))
	if got := w.minute(at, 10); len(got) != 1 || got[0].UserID != "ann" {
		t.Fatalf("before the erase: %+v", got)
	}
	w.apply(w.event("k", trigger.ErasedFact, trigger.Erased))
	if got := w.minute(at, 10); len(got) != 1 || got[0].State != "MISSED" || got[0].UserID != "" {
		t.Errorf("after the erase: %+v", got)
	}
}

func testEraseThenNewLife(t *testing.T, w *world) {
	old := append(w.life("k", w.futureMinute()), w.event("k", trigger.ErasedFact, trigger.Erased))
	next := w.life("k", w.futureMinute())
	w.apply(append(old, next...)...)
	w.requireEvents("k", append(append(blanked(old[:3]), old[3]), next...))
	if s, _ := w.state("k"); s.State != "FIRED" || s.UserID != "u_81" || s.Tags["type"] != "reminder" {
		t.Errorf("the new life's state %+v", s)
	}
}

// Rows expire at a fixed instant. A row applied shortly before it expires shortly after, and a
// row applied later is never visible.
func testExpiry(t *testing.T, w *world) {
	const retention = time.Hour
	w.reopen(retention)
	now := time.Now().UTC()
	gone, ending, fresh := w.event("gone", trigger.Registered, trigger.Cancelled),
		w.event("ending", trigger.Registered, trigger.Cancelled),
		w.event("fresh", trigger.Registered, trigger.Cancelled)
	w.at(&gone, now.Add(-retention-time.Minute))
	w.at(&ending, now.Add(-retention+4*time.Second))
	w.at(&fresh, now)
	due(now.Add(-retention - 2*time.Minute))(&gone)
	due(now.Add(-retention - 2*time.Minute))(&ending)
	w.apply(gone, ending, fresh)
	if got := w.events("gone", false, 10); len(got) != 0 {
		t.Errorf("an event older than the retention has a row: %+v", got)
	}
	if _, ok := w.state("gone"); ok {
		t.Error("its state is there")
	}
	if got := w.events("ending", false, 10); len(got) != 1 {
		t.Fatal("an event younger than the retention has no row")
	}
	end := time.Now().Add(30 * time.Second)
	for w.visible("ending") {
		if time.Now().After(end) {
			t.Fatal("the row is still there half a minute after its end")
		}
		time.Sleep(200 * time.Millisecond)
	}
	w.requireEvents("fresh", []sinks.EventRecord{fresh})
}

func (w *world) visible(key string) bool {
	_, ok := w.state(key)
	return ok || len(w.events(key, false, 10)) > 0
}

// The state of a living trigger is kept while it waits for a far instant.
func testLivingState(t *testing.T, w *world) {
	w.reopen(time.Hour)
	e := w.event("yearly", trigger.Registered, trigger.Pending, due(time.Now().AddDate(3, 0, 0)))
	w.at(&e, time.Now().Add(-2*time.Hour))
	w.apply(e)
	if s, ok := w.state("yearly"); !ok || s.State != "PENDING" {
		t.Errorf("state %+v %v", s, ok)
	}
}
