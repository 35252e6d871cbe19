package sinktest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// about makes the next event about an occurrence that was first emitted at an instant.
func (w *world) about(key, user, occurred string, fired time.Time, t trigger.FactType, channel string,
	edit ...func(*sinks.EventRecord),
) sinks.EventRecord {
	return w.event(key, t, trigger.InFlight, append([]func(*sinks.EventRecord){func(r *sinks.EventRecord) {
		step := 0
		r.UserID, r.Occurrence, r.Channel, r.Step, r.Attempt = user, occurred, channel, &step, 1
		r.FirstFired = trigger.At(fired).String()
		if t == trigger.OccurrenceFired {
			r.Tags = map[string]string{"type": "reminder"}
		}
	}}, edit...)...)
}

func because(reason string) func(*sinks.EventRecord) {
	return func(r *sinks.EventRecord) { r.Reason = reason }
}

// content returns the content of a due event of an occurrence.
func (w *world) content(key, occurred string, fired time.Time, title string) sinks.ContentRecord {
	w.offset++
	return sinks.ContentRecord{
		TopicPartition: sinks.TopicPartition{Topic: "due." + w.tenant, Partition: partition},
		Offset:         w.offset, Has: true,
		Tenant: w.tenant, Trigger: key, ID: topics.NotificationID(key, occurred),
		ContentRow: sinks.ContentRow{
			US: fired.UnixMicro(), Created: trigger.At(fired), Content: topics.NotificationContent{
				Title: title, Body: "b", DeepLink: "app://x", TemplateID: "t", TemplateData: jsontext.Value(`{"n":1}`),
			},
		},
	}
}

func (w *world) applyContent(batch ...sinks.ContentRecord) {
	w.t.Helper()
	if err := w.h.ApplyContent(context.Background(), batch); err != nil {
		w.t.Fatalf("apply %d contents: %v", len(batch), err)
	}
}

// notifications reads all results of a query for this test's tenant, page by page.
func (w *world) notifications(q topics.NotificationQuery) (all []topics.Notification) {
	w.t.Helper()
	q.Tenant = w.tenant
	for range 20_000 {
		page, err := w.h.Notifications(context.Background(), q)
		if err != nil {
			w.t.Fatalf("notifications of %q: %v", q.User, err)
		}
		if len(page.Items) > sinks.PageSize(q.Limit) {
			w.t.Fatalf("a page of %d, limit %d", len(page.Items), q.Limit)
		}
		all = append(all, page.Items...)
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
	w.t.Fatal("pages without end")
	return nil
}

func (w *world) notification(id string) (topics.Notification, bool) {
	w.t.Helper()
	n, ok, err := w.h.Notification(context.Background(), w.tenant, id)
	if err != nil {
		w.t.Fatalf("notification %q: %v", id, err)
	}
	return n, ok
}

func idsOf(list []topics.Notification) (all []string) {
	for i := range list {
		all = append(all, list[i].ID)
	}
	return all
}

// testNotification follows a notification through its channels, by list and by id.
func testNotification(t *testing.T, w *world) {
	const occurred = "2026-11-20T09:00:00"
	key, fired := w.tenant+"/a@b", w.start
	about := func(k trigger.FactType, channel string, edit ...func(*sinks.EventRecord)) sinks.EventRecord {
		return w.about(key, "u@1", occurred, fired, k, channel, edit...)
	}
	w.applyContent(w.content(key, occurred, fired, "Take pills"))
	want := map[string]string{}
	for _, c := range []struct {
		event   sinks.EventRecord
		channel string
		status  string
	}{
		{about(trigger.OccurrenceFired, "push"), "push", sinks.StatusPending},
		{about(trigger.DeliveryRetried, "push"), "push", sinks.StatusPending},
		{about(trigger.DeliveryPostponed, "push"), "push", sinks.StatusPostponed},
		{about(trigger.OccurrenceFired, "push"), "push", sinks.StatusPending},
		{about(trigger.DeliveryAccepted, "push"), "push", sinks.StatusSent},
		{about(trigger.EscalationAdvanced, "sms"), "push", sinks.StatusSent},
		{about(trigger.OccurrenceFired, "sms"), "sms", sinks.StatusPending},
		{about(trigger.DeliverySuppressed, "sms"), "sms", sinks.StatusSuppressed},
		{about(trigger.OccurrenceFired, "email"), "email", sinks.StatusPending},
		{about(trigger.DeliveryFailed, "email"), "email", sinks.StatusFailed},
		{about(trigger.DeliveryAccepted, "email", because("late")), "email", sinks.StatusFailed},
		{about(trigger.DeliveryDelivered, "email", because("late")), "email", sinks.StatusDelivered},
	} {
		w.apply(c.event)
		want[c.channel] = c.status
		n, ok := w.notification(topics.NotificationID(key, occurred))
		if !ok || !reflect.DeepEqual(n.Channels, want) {
			t.Fatalf("after %s on %s: %v %v, want %v", c.event.Type, c.event.Channel, ok, n.Channels, want)
		}
	}
	ack := about(trigger.EscalationStopped, "email", because("ack"))
	w.apply(ack)
	n := topics.Notification{
		Tenant: w.tenant, Trigger: key, ID: topics.NotificationID(key, occurred), User: "u@1",
		CreatedAt: trigger.At(fired), Type: "reminder", Channels: want, AckedAt: sinks.InstantOf(ack.OccurredAt),
		Content: &topics.NotificationContent{
			Title: "Take pills", Body: "b", DeepLink: "app://x", TemplateID: "t", TemplateData: jsontext.Value(`{"n":1}`),
			CreatedAt: trigger.At(fired),
		},
	}
	if got, _ := w.notification(n.ID); !reflect.DeepEqual(got, n) {
		t.Errorf("by id\n got %+v %+v\nwant %+v", got, got.Content, n)
	}
	if got := w.notifications(topics.NotificationQuery{User: "u@1", Content: true}); len(got) != 1 ||
		!reflect.DeepEqual(got[0], n) {
		t.Errorf("by user\n got %+v\nwant %+v", got, n)
	}
	n.Content = nil
	if got := w.notifications(topics.NotificationQuery{User: "u@1"}); len(got) != 1 || !reflect.DeepEqual(got[0], n) {
		t.Errorf("by user, without content\n got %+v\nwant %+v", got, n)
	}
	for _, none := range []string{"x", "@", "a@", key, key + "@2026-11-21T09:00:00", key + "@2026-11-20T09:00:0"} {
		if _, ok := w.notification(none); ok {
			t.Errorf("%q is a notification", none)
		}
	}
	if got := w.notifications(topics.NotificationQuery{User: "u"}); len(got) != 0 {
		t.Errorf("of another user: %v", idsOf(got))
	}
}

// testNotificationsOfNobody checks that an occurrence without a user has no notification. An
// occurrence that was never emitted has one if it has ended.
func testNotificationsOfNobody(t *testing.T, w *world) {
	key := w.tenant + "/k"
	w.apply(w.about(key, "", "2026-11-20T09:00:00", w.start, trigger.OccurrenceFired, "push"))
	if _, ok := w.notification(key + "@2026-11-20T09:00:00"); ok {
		t.Error("an occurrence without a user has a notification")
	}
	never := func(r *sinks.EventRecord) { r.FirstFired = "" }
	over := w.about(key, "u", "2026-11-21T09:00:00", w.start, trigger.OccurrenceExpired, "push", never)
	w.apply(over, w.about(key, "u", "2026-11-22T09:00:00", w.start, trigger.Skipped, "push", never),
		w.about(key, "u", "2026-11-22T09:00:00", w.start, trigger.DeliveryAccepted, "push", because("unknown"), never))
	got := w.notifications(topics.NotificationQuery{User: "u"})
	if len(got) != 1 || got[0].ID != key+"@2026-11-21T09:00:00" || got[0].Channels["push"] != sinks.StatusFailed ||
		got[0].CreatedAt != trigger.Instant(over.EventUS/1000) {
		t.Errorf("%+v", got)
	}
}

// testLateUser checks the event of a late receipt, which has the trigger's current user. It must
// not make a notification of that user, and shows in the list of the user who got it.
func testLateUser(t *testing.T, w *world) {
	key := w.tenant + "/k"
	w.apply(w.about(key, "ann", "2026-11-20T09:00:00", w.start, trigger.OccurrenceFired, "push"),
		w.about(key, "bob", "2026-11-20T09:00:00", w.start, trigger.DeliveryDelivered, "push", because("late")))
	if got := w.notifications(topics.NotificationQuery{User: "bob"}); len(got) != 0 {
		t.Errorf("bob has %v", idsOf(got))
	}
	n, _ := w.notification(key + "@2026-11-20T09:00:00")
	if n.User != "ann" || n.Channels["push"] != sinks.StatusDelivered {
		t.Errorf("%+v", n)
	}
	got := w.notifications(topics.NotificationQuery{User: "ann"})
	if len(got) != 1 || !reflect.DeepEqual(got[0], n) {
		t.Errorf("ann has %+v, want %+v", got, n)
	}
}

// testNoReceipts checks that receipts on a channel without receipts change nothing. Their events
// have the trigger's current user and channel.
func testNoReceipts(t *testing.T, w *world) {
	const o = "2026-11-20T09:00:00"
	key := w.tenant + "/k"
	w.apply(w.about(key, "ann", o, w.start, trigger.OccurrenceFired, "orders"))
	want, _ := w.notification(topics.NotificationID(key, o))
	for _, k := range []trigger.FactType{
		trigger.DeliveryFailed, trigger.DeliveryRetried, trigger.DeliveryPostponed, trigger.DeliverySuppressed,
		trigger.DeliveryAccepted, trigger.DeliveryDelivered,
	} {
		w.apply(w.about(key, "bob", o, w.start, k, "orders", because(trigger.ReasonNoReceipts)),
			w.about(key, "bob", o, w.start, k, "push", because(trigger.ReasonNoReceipts)))
		got, _ := w.notification(want.ID)
		if got.User != "ann" || got.Channels["orders"] != sinks.StatusPending || !reflect.DeepEqual(got, want) {
			t.Errorf("after %s: %+v, want %+v", k, got, want)
		}
		if all := w.notifications(topics.NotificationQuery{User: "ann"}); len(all) != 1 ||
			!reflect.DeepEqual(all[0], want) {
			t.Errorf("after %s ann has %+v, want %+v", k, all, want)
		}
		if all := w.notifications(topics.NotificationQuery{User: "bob"}); len(all) != 0 {
			t.Errorf("after %s bob has %v", k, idsOf(all))
		}
		if all := w.triggersOf(w.tenant, "ann"); !slices.Equal(all, []string{key}) {
			t.Errorf("after %s ann has the triggers %v", k, all)
		}
	}
}

// testRedriven checks an occurrence that became a dead letter before it ever went out, and first
// went out with a redrive. It is one notification, at one position of the list, and an erase removes
// it from there.
func testRedriven(t *testing.T, w *world) {
	const o = "2026-11-20T09:00:00"
	key, later := w.tenant+"/k", w.start.Add(3*time.Hour)
	id := topics.NotificationID(key, o)
	dead := w.about(key, "ann", o, w.start, trigger.DeadLettered, "push", func(r *sinks.EventRecord) {
		r.FirstFired, r.Tags = "", nil
	})
	redriven := []sinks.EventRecord{
		w.about(key, "ann", o, later, trigger.OccurrenceFired, "push", func(r *sinks.EventRecord) {
			r.Attempt, r.OccurredAt = 4, r.FirstFired
			r.EventUS = later.UnixMicro()
		}),
		w.about(key, "ann", o, later, trigger.DeliveryDelivered, "push", func(r *sinks.EventRecord) {
			w.at(r, later.Add(time.Second))
		}),
	}
	older := w.about(w.tenant+"/older", "ann", o, w.start.Add(-time.Hour), trigger.OccurrenceFired, "push")
	var ends []sinks.EventRecord // before it goes out, two redrives of it end, too
	for i, end := range []trigger.FactType{trigger.DeadLettered, trigger.OccurrenceExpired} {
		ends = append(ends, w.about(key, "ann", o, w.start.Add(time.Duration(i+1)*time.Hour), end, "push",
			func(r *sinks.EventRecord) { r.FirstFired, r.Tags, r.Attempt = "", nil, 2+i }))
	}
	check := func(when string) {
		t.Helper()
		got := w.notifications(topics.NotificationQuery{User: "ann", Limit: 1})
		if want := []string{id, topics.NotificationID(w.tenant+"/older", o)}; !slices.Equal(idsOf(got), want) ||
			got[0].CreatedAt != trigger.At(later) || got[0].Channels["push"] != sinks.StatusDelivered {
			t.Errorf("%s: %+v, want %v", when, got, want)
		}
	}
	w.apply(older, dead)
	if got := idsOf(w.notifications(topics.NotificationQuery{User: "ann"})); len(got) != 2 || got[0] != id {
		t.Errorf("as a dead letter: %v", got)
	}
	for _, end := range ends {
		w.apply(end)
		if got := idsOf(w.notifications(topics.NotificationQuery{User: "ann"})); len(got) != 2 || got[0] != id {
			t.Errorf("after %s of a redrive: %v", end.Type, got)
		}
	}
	w.apply(redriven...)
	check("after the redrive")
	w.apply(older, dead)
	w.apply(slices.Concat([]sinks.EventRecord{dead}, ends, redriven)...)
	check("in a replay")
	w.apply(w.event(key, trigger.ErasedFact, trigger.Erased, func(r *sinks.EventRecord) {
		w.at(r, later.Add(time.Minute))
	}))
	if got := w.notifications(topics.NotificationQuery{User: "ann"}); len(got) != 1 {
		t.Errorf("after the erase: %v", idsOf(got))
	}
	if got := w.triggersOf(w.tenant, "ann"); len(got) != 1 {
		t.Errorf("after the erase, ann has the triggers %v", got)
	}
}

// testNotificationMonths checks lists across months, with any page size, and with bounds in any
// month.
func testNotificationMonths(t *testing.T, w *world) {
	month := time.Date(w.start.Year(), w.start.Month(), 1, 0, 0, 0, 0, time.UTC)
	times := []time.Time{
		w.start, w.start.Add(-time.Millisecond), month, month, month.Add(-time.Millisecond),
		month.Add(-40 * time.Hour), month.AddDate(0, -1, 0), month.AddDate(0, -1, 0).Add(-time.Millisecond),
	}
	slices.SortStableFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	var batch []sinks.EventRecord
	for i, at := range times {
		key := fmt.Sprintf("%s/k%d", w.tenant, i)
		batch = append(batch, w.about(key, "u", "2026-11-20T09:00:00", at, trigger.OccurrenceFired, "push"))
	}
	w.apply(batch...)
	w.apply(batch[2:5]...) // once more
	all := w.notifications(topics.NotificationQuery{User: "u"})
	if len(all) != len(times) || !slices.IsSortedFunc(all, func(a, b topics.Notification) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
	}) {
		t.Fatalf("%v", idsOf(all))
	}
	for _, limit := range []int{1, 2, 3, 1000} {
		if got := w.notifications(topics.NotificationQuery{User: "u", Limit: limit}); !reflect.DeepEqual(got, all) {
			t.Fatalf("limit %d: %v, want %v", limit, idsOf(got), idsOf(all))
		}
	}
	for i := range all {
		for j := i; j < len(all); j++ {
			q := topics.NotificationQuery{User: "u", From: all[j].CreatedAt, To: all[i].CreatedAt + 1, Limit: 2}
			var want []string
			for k := range all {
				if all[k].CreatedAt >= q.From && all[k].CreatedAt < q.To {
					want = append(want, all[k].ID)
				}
			}
			if got := idsOf(w.notifications(q)); !slices.Equal(got, want) {
				t.Fatalf("from %s to %s: %v, want %v", q.From, q.To, got, want)
			}
		}
	}
	if got := w.notifications(topics.NotificationQuery{User: "u", From: all[0].CreatedAt + 1}); len(got) != 0 {
		t.Errorf("after the newest: %v", idsOf(got))
	}
	if got := w.notifications(topics.NotificationQuery{User: "u", From: 5, To: 5}); len(got) != 0 {
		t.Errorf("of no time: %v", idsOf(got))
	}
}

// testNotificationTenants checks that equal users and ids of two tenants are separate.
func testNotificationTenants(t *testing.T, w *world) {
	mine := w.about("k", "u", "2026-11-20T09:00:00", w.start, trigger.OccurrenceFired, "push")
	other := w.about("k", "u", "2026-11-20T09:00:00", w.start, trigger.DeliveryDelivered, "sms")
	fired := w.about("k", "u", "2026-11-20T09:00:00", w.start, trigger.OccurrenceFired, "sms")
	other.Tenant, fired.Tenant = w.tenant+"-b", w.tenant+"-b"
	w.apply(mine, other, fired)
	got := w.notifications(topics.NotificationQuery{User: "u"})
	if len(got) != 1 || !reflect.DeepEqual(got[0].Channels, map[string]string{"push": sinks.StatusPending}) {
		t.Errorf("%+v", got)
	}
	w.tenant += "-b"
	got = w.notifications(topics.NotificationQuery{User: "u"})
	if len(got) != 1 || !reflect.DeepEqual(got[0].Channels, map[string]string{"sms": sinks.StatusPending}) {
		t.Errorf("of the other tenant: %+v", got)
	}
}

// testManyNotifications reads the pages of a user who has ten thousand notifications.
func testManyNotifications(t *testing.T, w *world) {
	const n = 10_000
	batch := make([]sinks.EventRecord, n)
	for i := range batch {
		key := fmt.Sprintf("%s/k%05d", w.tenant, i)
		at := w.start.Add(-time.Duration(i) * 3 * time.Minute)
		batch[i] = w.about(key, "u", "o", at, trigger.OccurrenceFired, "push")
	}
	for part := range slices.Chunk(batch, 500) {
		untilTaken(t, func() error { return w.h.Apply(context.Background(), part) })
	}
	all := w.notifications(topics.NotificationQuery{User: "u", Limit: 700})
	if len(all) != n {
		t.Fatalf("%d notifications, want %d", len(all), n)
	}
	for i := range all {
		if all[i].ID != fmt.Sprintf("%s/k%05d@o", w.tenant, i) {
			t.Fatalf("the %d-th is %s", i, all[i].ID)
		}
	}
}

// testNotificationErase checks that an erase removes the user and the content and keeps the fact.
// This includes content that is read after the erase, and a replay of everything. A trigger whose
// longer key begins with this key and an @ keeps its data.
func testNotificationErase(t *testing.T, w *world) {
	const o = "2026-11-20T09:00:00"
	key, other := w.tenant+"/k", w.tenant+"/k@x"
	fired := w.about(key, "ann", o, w.start, trigger.OccurrenceFired, "push")
	rest := []sinks.EventRecord{
		fired, w.about(other, "ann", o, w.start, trigger.OccurrenceFired, "push"),
		w.about(key, "ann", o, w.start, trigger.DeliveryAccepted, "push"),
	}
	erase := w.event(key, trigger.ErasedFact, trigger.Erased)
	early := w.content(key, o, w.start, "canary")
	late := w.content(key, o, w.start.Add(time.Second), "canary")
	keeps := w.content(other, o, w.start, "kept")
	w.apply(rest...)
	w.applyContent(early, keeps)
	check := func(when string) {
		t.Helper()
		got := w.notifications(topics.NotificationQuery{User: "ann", Content: true})
		if len(got) != 1 || got[0].Trigger != other || got[0].Content == nil || got[0].Content.Title != "kept" {
			t.Errorf("%s: the list is %+v", when, got)
		}
		n, ok := w.notification(key + "@" + o)
		if !ok || n.User != "" || n.Type != "" || n.Content != nil || n.Channels["push"] != sinks.StatusSent {
			t.Errorf("%s: %v %+v %+v", when, ok, n, n.Content)
		}
	}
	w.apply(erase)
	check("after the erase")
	w.applyContent(late)
	check("after content of before it")
	w.apply(fired)
	check("after an event of before it")
	w.apply(rest...)
	w.applyContent(early)
	check("in a replay")
	w.apply(append(rest, erase)...)
	check("after a replay")

	// A later life has its own content.
	anew := fmt.Sprintf("%s~7-%d", o, w.offset)
	at := time.UnixMicro(erase.EventUS).Add(time.Second)
	w.apply(w.about(key, "ann", anew, at, trigger.OccurrenceFired, "push"))
	w.applyContent(w.content(key, anew, at, "new"))
	if n, ok := w.notification(key + "@" + anew); !ok || n.User != "ann" || n.Content == nil {
		t.Errorf("of the life after it: %v %+v", ok, n)
	}
}

// testNotificationExpiry checks that all rows of a notification expire when its age reaches the
// retention, whenever its events were written.
func testNotificationExpiry(t *testing.T, w *world) {
	const o = "2026-11-20T09:00:00"
	w.reopen(20 * time.Hour)
	old, young := w.start, w.start.Add(20*time.Hour)
	w.apply(w.about("old", "u", o, old, trigger.OccurrenceFired, "push"),
		w.about("young", "u", o, young, trigger.OccurrenceFired, "push"),
		w.about("old", "u", o, old, trigger.DeliveryDelivered, "push",
			func(r *sinks.EventRecord) { w.at(r, young) }))
	w.applyContent(w.content("old", o, old, "t"), w.content("young", o, young, "t"))
	if got := w.notifications(topics.NotificationQuery{User: "u", Content: true}); len(got) != 1 ||
		got[0].Trigger != "young" || got[0].Content == nil {
		t.Errorf("%+v", got)
	}
	if n, ok := w.notification("old@" + o); ok {
		t.Errorf("%+v", n)
	}
}

// testContentProgress checks that positions are kept by topic and partition.
func testContentProgress(t *testing.T, w *world) {
	a, b := sinks.TopicPartition{Topic: "a." + w.tenant, Partition: 1}, sinks.TopicPartition{Topic: "b." + w.tenant}
	w.applyContent(sinks.ContentRecord{TopicPartition: a, Offset: 4}, sinks.ContentRecord{TopicPartition: b, Offset: 9},
		sinks.ContentRecord{TopicPartition: a, Offset: 5})
	all, err := w.h.ContentProgress(context.Background())
	if err != nil || all[a] != 6 || all[b] != 10 {
		t.Errorf("%v %v", all, err)
	}
}
