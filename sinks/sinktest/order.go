package sinktest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// story returns the events of some triggers, with every kind of event that writes more than one
// row.
func (w *world) story(at time.Time) (all []sinks.EventRecord, keys []string) {
	for i := range 5 {
		k := fmt.Sprintf("k%d-%d", i, w.rand.Uint32())
		keys = append(keys, k)
		all = append(all, w.life(k, at)...)
		all = append(all, w.event(k, trigger.Registered, trigger.Pending, due(at.Add(time.Minute)), user("bob")),
			w.event(k, trigger.Rescheduled, trigger.Pending, due(at.Add(2*time.Minute)), before(at.Add(time.Minute))),
			w.event(k, trigger.PausedFact, trigger.Paused, due(at.Add(2*time.Minute))),
			w.event(k, trigger.CancelledFact, trigger.Cancelled, due(at.Add(2*time.Minute))))
	}
	return all, keys
}

// view is everything that can be read of some triggers.
type view struct {
	events  map[string][]sinks.EventRecord
	states  map[string]sinks.TriggerState
	minutes [3][]sinks.MinuteEntry
}

func (w *world) view(keys []string, at time.Time) view {
	w.t.Helper()
	v := view{map[string][]sinks.EventRecord{}, map[string]sinks.TriggerState{}, [3][]sinks.MinuteEntry{}}
	for _, k := range keys {
		for _, e := range w.events(k, false, 500) {
			v.events[k] = append(v.events[k], canonical(e))
		}
		v.states[k], _ = w.state(k)
	}
	for i := range v.minutes {
		v.minutes[i] = w.minute(at.Add(time.Duration(i)*time.Minute), 500)
	}
	return v
}

func (w *world) requireView(want, got view) {
	w.t.Helper()
	if !reflect.DeepEqual(got, want) {
		w.t.Fatalf("the rows differ:\n got %+v\nwant %+v", got, want)
	}
}

func testReplay(t *testing.T, w *world) {
	at := w.futureMinute()
	all, keys := w.story(at)
	w.apply(all...)
	want := w.view(keys, at)
	w.apply(all...)
	w.requireView(want, w.view(keys, at))
	w.apply(all[3:17]...) // an old batch with other bounds
	w.requireView(want, w.view(keys, at))
}

// The same events give the same rows in any order and any batches.
func testOutOfOrder(t *testing.T, w *world) {
	at := w.futureMinute()
	all, keys := w.story(at)
	w.apply(all...)
	want := w.view(keys, at)

	w.tenant += "x"
	for i := range all {
		all[i].Tenant = w.tenant
	}
	shuffled := slices.Clone(all)
	w.rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for len(shuffled) > 0 {
		n := min(1+w.rand.IntN(7), len(shuffled))
		w.apply(shuffled[:n]...)
		shuffled = shuffled[n:]
	}
	w.requireView(want.as(w.tenant), w.view(keys, at))
}

// as returns a view with another tenant.
func (v view) as(tenant string) view {
	for k, all := range v.events {
		for i := range all {
			all[i].Tenant = tenant
		}
		s := v.states[k]
		s.Tenant = tenant
		v.states[k] = s
	}
	for _, entries := range v.minutes {
		for i := range entries {
			entries[i].Tenant = tenant
		}
	}
	return v
}

func testDuplicates(t *testing.T, w *world) {
	life := w.life("k", w.futureMinute())
	w.apply(append(append(slices.Clone(life), life...), life[1])...)
	w.requireEvents("k", life)
	if s, _ := w.state("k"); s.State != "FIRED" || s.Seq != 3 {
		t.Errorf("state %+v", s)
	}
}

func testConcurrent(t *testing.T, w *world) {
	const writers, each = 8, 25
	batches := make([][]sinks.EventRecord, writers)
	want := map[string][]sinks.EventRecord{}
	for i := range writers {
		for j := range each {
			k := fmt.Sprintf("k%d-%d", i, j)
			want[k] = w.life(k, w.futureMinute())
			batches[i] = append(batches[i], want[k]...)
		}
	}
	var all sync.WaitGroup
	for _, b := range batches {
		all.Go(func() {
			for part := range slices.Chunk(b, 10) {
				if err := w.h.Apply(context.Background(), part); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for k, events := range want {
		w.requireEvents(k, events)
	}
}

// testModel applies random events, some twice, in random batches. The rows must equal those of an
// independent fold.
func testModel(t *testing.T, w *world) {
	at := w.futureMinute()
	types := []trigger.FactType{
		trigger.Registered, trigger.Replaced, trigger.Rescheduled, trigger.PausedFact, trigger.Resumed,
		trigger.CancelledFact,
		trigger.Snoozed, trigger.Skipped, trigger.OccurrenceFired, trigger.OccurrenceExpired, trigger.DeliveryAccepted,
		trigger.Duplicate,
	}
	m := model{
		w: w, state: map[string]sinks.TriggerState{}, minute: map[sinks.MinuteCursor]string{},
		events: map[string][]sinks.EventRecord{},
	}
	var all []sinks.EventRecord
	for range 400 {
		e := w.event(fmt.Sprintf("m%d", w.rand.IntN(6)), types[w.rand.IntN(len(types))],
			trigger.Status(1+w.rand.IntN(7)),
			due(at.Add(time.Duration(w.rand.IntN(3))*20*time.Second)))
		if w.rand.IntN(3) == 0 {
			before(at.Add(time.Duration(w.rand.IntN(3)) * 20 * time.Second))(&e)
		}
		if w.rand.IntN(4) == 0 {
			e.UserID = fmt.Sprintf("u%d", w.rand.IntN(3))
		}
		m.apply(e)
		all = append(all, e)
	}
	all = append(all, all[100:200]...)
	for len(all) > 0 {
		n := min(1+w.rand.IntN(90), len(all))
		w.apply(all[:n]...)
		all = all[n:]
	}
	m.compare(at)
}

// model folds events one at a time, in order.
type model struct {
	w      *world
	state  map[string]sinks.TriggerState
	minute map[sinks.MinuteCursor]string
	events map[string][]sinks.EventRecord
}

func (m *model) apply(e sinks.EventRecord) {
	m.events[e.Trigger] = append(m.events[e.Trigger], e)
	s := m.state[e.Trigger]
	s.State, s.Type, s.Seq = e.State, e.Type, e.Seq
	wentOut := strings.HasPrefix(e.Type, "delivery.") || e.Type == "occurrence.expired" ||
		e.Type == "occurrence.fired" && e.Attempt > 1
	if e.UserID != "" && !wentOut { // that user may be from before a replacement
		s.UserID = e.UserID
	}
	m.state[e.Trigger] = s
	name := map[string]string{
		"trigger.registered": "PENDING", "trigger.replaced": "PENDING", "trigger.rescheduled": "PENDING",
		"trigger.resumed": "PENDING", "occurrence.snoozed": "PENDING", "trigger.paused": "PAUSED",
		"trigger.cancelled":  "CANCELLED",
		"occurrence.skipped": "SKIPPED", "occurrence.fired": "FIRED", "occurrence.expired": "EXPIRED",
	}[e.Type]
	if name == "" {
		return
	}
	if name == "PENDING" && e.State == "PAUSED" {
		name = "PAUSED"
	}
	if e.PreviousScheduled != "" && e.PreviousScheduled != e.ScheduledAt {
		m.put(e.PreviousScheduled, e.Trigger, "MOVED")
	}
	m.put(e.ScheduledAt, e.Trigger, name)
}

func (m *model) put(at, key, state string) {
	t, _ := time.Parse(time.RFC3339, at)
	m.minute[sinks.MinuteCursor{Due: trigger.At(t), Tenant: m.w.tenant, Trigger: key}] = state
}

func (m *model) compare(at time.Time) {
	m.w.t.Helper()
	for k, want := range m.state {
		m.w.requireEvents(k, m.events[k])
		if s, _ := m.w.state(k); s.State != want.State || s.Type != want.Type || s.Seq != want.Seq ||
			s.UserID != want.UserID {
			m.w.t.Errorf("state of %s: %+v, want %+v", k, s, want)
		}
	}
	entries := m.w.minute(at, 500)
	if len(entries) != len(m.minute) {
		m.w.t.Errorf("%d entries, want %d", len(entries), len(m.minute))
	}
	for _, e := range entries {
		if e.State != m.minute[e.Cursor()] {
			m.w.t.Errorf("entry %+v, want %s", e, m.minute[e.Cursor()])
		}
	}
}
