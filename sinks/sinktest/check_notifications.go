package sinktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Lost names a table from which a test removes a row.
type Lost int8

// The tables of Lost.
const (
	LostStatus  Lost = iota + 1 // notification_status
	LostByUser                  // notifications_by_user
	LostContent                 // notification_content
)

// CheckNotifications tests sinks.NotificationCheck. lose removes the row of a notification from a
// table, and perhaps other rows.
func CheckNotifications(t *testing.T, open Open, lose func(h sinks.History, table Lost, n *topics.Notification)) {
	w := newWorld(t, open)
	ctx := context.Background()
	const o = "2026-11-20T10:00:00"
	key, other := w.tenant+"/k", w.tenant+"/other"
	due := func(r *sinks.EventRecord) { r.DueTopic, r.DuePartition = "due."+w.tenant, new(int32) }
	said := map[string]sinks.ContentRecord{}
	var events []sinks.EventRecord
	for _, k := range []string{key, other} {
		events = append(events, w.event(k, trigger.Registered, trigger.Pending, func(r *sinks.EventRecord) {
			r.Payload = []byte(`{"title":"t"}`)
		}))
		fired := w.start.Add(time.Duration(w.us)*time.Second + 500*time.Millisecond) // between two events
		events = append(events,
			w.about(k, "ann", o, fired, trigger.OccurrenceFired, "push", due),
			w.about(k, "ann", o, fired, trigger.DeliveryAccepted, "push"))
		c := w.content(k, o, fired, "title")
		c.Offset, c.Partition = 7, 0
		said[c.ID] = c
		w.applyContent(c)
	}
	w.apply(events...)
	known := sinks.Known{Key: trigger.Key(key), Born: trigger.At(w.start)}
	reads := 0
	c := &sinks.NotificationCheck{
		History: w.h, Retention: 90 * 24 * time.Hour, Now: time.Now, Pause: time.Millisecond,
		ReadDue: func(_ context.Context, at sinks.DueAt) (sinks.ContentRecord, bool, error) {
			reads++
			r, ok := said[at.ID]
			if at.Topic != "due."+w.tenant {
				t.Errorf("read %+v", at)
			}
			return r, ok, nil
		},
	}
	want := func(when string, mend bool, want ...sinks.NotificationFault) {
		t.Helper()
		c.Mend = mend
		got, err := c.Check(ctx, known)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %+v, %v; want %+v", when, got, err, want)
		}
	}
	want("all is there", true)
	if reads != 0 {
		t.Errorf("%d due events were read", reads)
	}
	id := key + "@" + o
	lost, _ := w.notification(id)
	before := w.notifications(topics.NotificationQuery{User: "ann", Content: true})
	for _, table := range []Lost{LostStatus, LostByUser, LostContent} {
		lose(w.h, table, &lost)
		fault := sinks.NotificationFault{ID: id, Fault: sinks.NotificationDiffers}
		if table == LostContent {
			fault.Fault = sinks.ContentMissing
		}
		want("a dry run", false, fault)
		if table == LostContent {
			r := said[id]
			delete(said, id)
			want("the due topic has dropped it", true, fault)
			c.DueSince = lost.CreatedAt + 1
			want("nobody could bring it back", true)
			c.DueSince = 0
			said[id] = sinks.ContentRecord{TopicPartition: r.TopicPartition, Offset: 1_000_000, Has: true}
			want("the reader has still to come to it", true)
			said[id] = sinks.ContentRecord{TopicPartition: r.TopicPartition}
			want("it said nothing", true)
			said[id] = r
		}
		fault.Mended = true
		want("mended", true, fault)
		want("afterwards", false)
		// lose may have removed other rows, too.
		c.Mend = true
		if _, err := c.Check(ctx, sinks.Known{Key: trigger.Key(other), Born: trigger.At(w.start)}); err != nil {
			t.Fatal(err)
		}
	}
	after := w.notifications(topics.NotificationQuery{User: "ann", Content: true})
	if len(after) != len(before) {
		t.Errorf("%v, were %v", idsOf(after), idsOf(before))
	}

	w.apply(w.event(key, trigger.ErasedFact, trigger.Erased))
	want("erased", true)
	if n, _ := w.notification(id); n.User != "" || n.Content != nil {
		t.Errorf("the check brought back %+v", n)
	}
}
