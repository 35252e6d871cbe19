package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// triggersOf returns the keys of a user's triggers, each once.
func (w *world) triggersOf(tenant, user string) (keys []string) {
	w.t.Helper()
	err := w.h.TriggersOf(context.Background(), tenant, user, func(key string) error {
		keys = append(keys, key)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func ofUser(user string) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.UserID = user }
}

// testTriggersOfUser covers triggers that never fired, triggers that did, and triggers from which
// an erase removed the user.
func testTriggersOfUser(t *testing.T, w *world) {
	const o = "2026-11-20T09:00:00"
	ann := w.tenant + "-ann"
	var events []sinks.EventRecord
	var want []string
	for i := range 20 {
		key := fmt.Sprintf("%s/planned%02d", w.tenant, i)
		events = append(events, w.event(key, trigger.Registered, trigger.Pending, ofUser(ann)))
		want = append(want, key)
	}
	fired, both := w.tenant+"/fired", w.tenant+"/both"
	events = append(events, w.about(fired, ann, o, w.start, trigger.OccurrenceFired, "push"),
		w.event(both, trigger.Registered, trigger.Pending, ofUser(ann)),
		w.about(both, ann, o, w.start, trigger.OccurrenceFired, "push"),
		w.event(w.tenant+"/nobody", trigger.Registered, trigger.Pending),
		w.event(w.tenant+"/bob", trigger.Registered, trigger.Pending, ofUser(w.tenant+"-bob")))
	elsewhere := w.event("x"+w.tenant+"/k", trigger.Registered, trigger.Pending, ofUser(ann))
	elsewhere.Tenant = "x" + w.tenant
	w.apply(append(events, elsewhere)...)
	want = append(want, fired, both)
	slices.Sort(want)
	if got := w.triggersOf(w.tenant, ann); !slices.Equal(got, want) {
		t.Errorf("the user's are %v, want %v", got, want)
	}
	if got := w.triggersOf("x"+w.tenant, ann); !slices.Equal(got, []string{"x" + w.tenant + "/k"}) {
		t.Errorf("another tenant's are %v", got)
	}
	if got := w.triggersOf(w.tenant, w.tenant+"-nobody"); len(got) != 0 {
		t.Errorf("nobody's are %v", got)
	}
	stop := errors.New("stop")
	if err := w.h.TriggersOf(t.Context(), w.tenant, ann, func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	for _, key := range want {
		w.apply(w.event(key, trigger.ErasedFact, trigger.Erased))
	}
	if got := w.triggersOf(w.tenant, ann); len(got) != 0 {
		t.Errorf("after the erases the user's are %v", got)
	}
}
