package sinktest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// testNotificationModel applies random events of some triggers, with erases and duplicates, in
// any order and batches, and their content before, between and after them. The rows must equal
// those of an independent fold in order.
func testNotificationModel(t *testing.T, w *world) {
	m := &notificationModel{
		all: map[string]*topics.Notification{}, said: map[string]string{}, listed: map[string]string{},
		erased: map[string]int64{},
	}
	types := []trigger.FactType{
		trigger.OccurrenceFired, trigger.DeliveryRetried, trigger.DeliveryAccepted, trigger.DeliveryDelivered,
		trigger.DeliveryFailed, trigger.DeadLettered, trigger.DeliverySuppressed, trigger.DeliveryPostponed,
		trigger.EscalationAdvanced, trigger.EscalationStopped, trigger.Registered, trigger.OccurrenceExpired,
	}
	channels, reasons := []string{"push", "sms", "email"}, []string{"", "", "late", "ack", "no_receipts"}
	var events []sinks.EventRecord
	var contents []sinks.ContentRecord
	users := []string{"ann", "bob"}
	for i := range 300 {
		key := fmt.Sprintf("%s/m%d", w.tenant, w.rand.IntN(5))
		if i%60 == 59 {
			e := w.event(key, trigger.ErasedFact, trigger.Erased)
			m.erase(key, e.EventUS)
			events = append(events, e)
			continue
		}
		// By the contract, a life after an erase has other occurrences.
		occurred := fmt.Sprintf("o%d~7-%d", w.rand.IntN(3), m.erased[key])
		user := users[len(occurred)%2]
		fired := w.start
		if us := m.erased[key]; us != 0 {
			fired = time.UnixMicro(us).Add(time.Millisecond)
		}
		if w.rand.IntN(4) == 0 {
			c := w.content(key, occurred, fired, "title of "+occurred)
			contents = append(contents, c)
			m.content(&c)
		}
		e := w.about(key, user, occurred, fired, types[w.rand.IntN(len(types))], channels[w.rand.IntN(3)],
			because(reasons[w.rand.IntN(len(reasons))]))
		if strings.HasPrefix(e.Type, "delivery.") && (e.Reason == "late" || e.Reason == "no_receipts") {
			e.UserID = users[w.rand.IntN(2)] // the user that the trigger has by now
		}
		m.apply(&e)
		events = append(events, e)
	}
	events = append(events, events[50:150]...)
	contents = append(contents, contents[len(contents)/2:]...)
	if w.rand.IntN(2) == 0 {
		w.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
	w.rand.Shuffle(len(contents), func(i, j int) { contents[i], contents[j] = contents[j], contents[i] })
	allEvents, allContents := events, contents
	for len(events)+len(contents) > 0 {
		n, k := min(w.rand.IntN(60), len(events)), min(w.rand.IntN(20), len(contents))
		w.apply(events[:n]...)
		w.applyContent(contents[:k]...)
		events, contents = events[n:], contents[k:]
	}
	m.compare(w, users)

	// A replay of everything gives the same rows, whether content comes first or last.
	w.applyContent(allContents...)
	w.apply(allEvents...)
	m.compare(w, users)
	w.apply(allEvents...)
	w.applyContent(allContents...)
	m.compare(w, users)
}

// notificationModel folds the events in order.
type notificationModel struct {
	all    map[string]*topics.Notification
	said   map[string]string // title by id
	listed map[string]string // user by id, if it is in a list
	erased map[string]int64
}

func (m *notificationModel) apply(e *sinks.EventRecord) {
	status := map[string]string{
		"occurrence.fired": "PENDING", "delivery.retried": "PENDING", "delivery.accepted": "SENT",
		"delivery.delivered": "DELIVERED", "delivery.failed": "FAILED", "delivery.dead_lettered": "FAILED",
		"occurrence.expired": "FAILED", "delivery.suppressed": "SUPPRESSED", "delivery.postponed": "POSTPONED",
	}[e.Type]
	acked := e.Type == "escalation.stopped" && e.Reason == "ack"
	late := e.Reason == "late"
	if status == "" && !acked || late && e.Type != "delivery.delivered" || e.Reason == "no_receipts" {
		return
	}
	id := e.Trigger + "@" + e.Occurrence
	n := m.all[id]
	if n == nil {
		n = &topics.Notification{
			Tenant: e.Tenant, Trigger: e.Trigger, ID: id, CreatedAt: sinks.InstantOf(e.FirstFired),
			Channels: map[string]string{},
		}
		m.all[id] = n
	}
	if !late {
		n.User = e.UserID
	}
	if acked {
		n.AckedAt = sinks.InstantOf(e.OccurredAt)
	} else {
		n.Channels[e.Channel] = status
	}
	if e.Type == "occurrence.fired" {
		n.Type = "reminder"
		m.listed[id] = e.UserID
	}
}

func (m *notificationModel) content(c *sinks.ContentRecord) {
	m.said[c.ID] = c.Content.Title
}

func (m *notificationModel) erase(key string, us int64) {
	m.erased[key] = us
	for id, n := range m.all {
		if n.Trigger == key {
			n.User, n.Type = "", ""
			delete(m.listed, id)
		}
	}
	for id := range m.said {
		if strings.HasPrefix(id, key+"@") {
			delete(m.said, id)
		}
	}
}

func (m *notificationModel) compare(w *world, users []string) {
	w.t.Helper()
	title := func(n *topics.Notification) (s string) {
		if n.Content != nil {
			s = n.Content.Title
		}
		n.Content = nil
		return s
	}
	for id, want := range m.all {
		got, ok := w.notification(id)
		if said := title(&got); said != m.said[id] {
			w.t.Errorf("%s says %q, want %q", id, said, m.said[id])
		}
		if !ok || !reflect.DeepEqual(got, *want) {
			w.t.Errorf("%s\n got %v %+v\nwant %+v", id, ok, got, *want)
		}
	}
	for _, user := range users {
		var want []string
		for id, u := range m.listed {
			if u == user {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		all := w.notifications(topics.NotificationQuery{User: user, Limit: 3, Content: true})
		for i := range all {
			if said := title(&all[i]); said != m.said[all[i].ID] || !reflect.DeepEqual(all[i], *m.all[all[i].ID]) {
				w.t.Errorf("list of %s: %q %+v, want %q %+v", user, said, all[i], m.said[all[i].ID], *m.all[all[i].ID])
			}
		}
		got := idsOf(all)
		if slices.Sort(got); !slices.Equal(got, want) {
			w.t.Errorf("list of %s: %v, want %v", user, got, want)
		}
	}
}
