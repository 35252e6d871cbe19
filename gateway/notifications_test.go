package gateway

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// keptNotifications are notifications in the order of lists.
type keptNotifications []topics.Notification

func (k keptNotifications) Notifications(_ context.Context, q topics.NotificationQuery) (
	page topics.NotificationPage, err error,
) {
	for i := range k {
		n := k[i]
		if n.Tenant != q.Tenant || n.User != q.User || q.From != 0 && n.CreatedAt < q.From ||
			q.To != 0 && n.CreatedAt >= q.To || !q.After.IsZero() && n.CreatedAt >= q.After.CreatedAt {
			continue
		}
		if len(page.Items) == q.Limit {
			page.Next = page.Items[q.Limit-1].Cursor()
			return page, nil
		}
		if !q.Content {
			n.Content = nil
		}
		page.Items = append(page.Items, n)
	}
	return page, nil
}

func (k keptNotifications) Notification(_ context.Context, tenant, id string) (topics.Notification, bool, error) {
	i := slices.IndexFunc(k, func(n topics.Notification) bool { return n.Tenant == tenant && n.ID == id })
	if i < 0 {
		return topics.Notification{}, false, nil
	}
	return k[i], true, nil
}

func (k keptNotifications) EventsNext(context.Context) (map[int32]int64, error) { return nil, nil }

func someNotifications() (all keptNotifications) {
	for _, tenant := range []string{"acme", "blue"} {
		for i := range 5 {
			key := string(trigger.NewKey(tenant, "k"))
			all = append(all, topics.Notification{
				Tenant: tenant, Trigger: key, ID: key + "@2026-11-2" + string(rune('5'-i)) + "T09:00:00", User: "u",
				CreatedAt: trigger.Instant(1_795_000_000_000 - 1000*i), Type: "reminder",
				Channels: map[string]string{"push": "SENT"},
				Content:  &topics.NotificationContent{Title: "of " + tenant},
			})
		}
	}
	return all
}

// A tenant sees its own notifications, page by page, and no cursor or id leads to another's.
func TestNotifications(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.Notifications = testKeys(t), someNotifications() })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	const path = "/v1/users/u/notifications"
	var ids []string
	query := "?limit=2"
	for {
		a := w.must(http.StatusOK, "GET", path+query, "", as(keyA)...)
		var page NotificationList
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Items {
			ids = append(ids, n.NotificationID)
			if n.Content != nil || n.ChannelStatus["push"] != "SENT" || n.TriggerID != "k" {
				t.Errorf("%+v", n)
			}
		}
		if page.NextCursor == "" {
			break
		}
		for _, other := range []string{
			"/v1/users/v/notifications?limit=2&cursor=", path + "?limit=2&to=2026-12-01T00:00:00Z&cursor=",
		} {
			w.must(http.StatusBadRequest, "GET", other+page.NextCursor, "", as(keyA)...)
		}
		w.must(http.StatusBadRequest, "GET", path+"?cursor="+page.NextCursor, "", as(keyB)...)
		query = "?limit=2&cursor=" + page.NextCursor
	}
	if len(ids) != 5 || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%v", ids)
	}
	const bounds = "?content=1&from=2026-11-18T11:46:40Z&to=2026-11-18T11:46:41Z"
	a := w.must(http.StatusOK, "GET", path+bounds, "", as(keyA)...)
	if strings.Count(a.body, `"notification_id"`) != strings.Count(a.body, `"title"`) {
		t.Error(a.body)
	}
	for _, bad := range []string{"?limit=0", "?from=then", "?cursor=", "?cursor=x", "?content=maybe", "?when=now"} {
		w.must(http.StatusBadRequest, "GET", path+bad, "", as(keyA)...)
	}
	for _, spelled := range []string{ids[0], url.QueryEscape(ids[0])} {
		one := w.must(http.StatusOK, "GET", "/v1/notifications/"+spelled, "", as(keyA)...)
		if !strings.Contains(one.body, `"title":"of `) || !strings.Contains(one.body, `"notification_id":"k@`) {
			t.Error(one.body)
		}
	}
	for _, c := range []struct{ key, own, other string }{{keyA, "acme", "blue"}, {keyB, "blue", "acme"}} {
		list := w.must(http.StatusOK, "GET", path+"?content=1", "", as(c.key)...).body
		if !strings.Contains(list, "of "+c.own) || strings.Contains(list, "of "+c.other) {
			t.Error(list)
		}
		for _, id := range []string{
			c.other + "/k@2026-11-25T09:00:00", c.own + "/k@2026-11-25T09:00:00", "k@2020-01-01", "k", "@", "k@",
		} {
			w.must(http.StatusNotFound, "GET", "/v1/notifications/"+url.PathEscape(id), "", as(c.key)...)
		}
	}
}

// Without a history the routes say so.
func TestNoNotifications(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusServiceUnavailable, "GET", "/v1/users/u/notifications", "")
	w.must(http.StatusServiceUnavailable, "GET", "/v1/notifications/k@o", "")
}

// lateNotifications are those of a history that reads the newest event when it has been asked
// some times for its position.
type lateNotifications struct {
	keptNotifications
	asked, after atomic.Int64
}

func (l *lateNotifications) EventsNext(context.Context) (map[int32]int64, error) {
	if l.asked.Add(1) < l.after.Load() {
		return map[int32]int64{}, nil
	}
	return map[int32]int64{0: 1, 1: 1, 2: 1, 3: 1}, nil
}

func (l *lateNotifications) Notifications(ctx context.Context, q topics.NotificationQuery) (
	topics.NotificationPage, error,
) {
	if l.asked.Load() < l.after.Load() {
		return topics.NotificationPage{}, nil
	}
	return l.keptNotifications.Notifications(ctx, q)
}

func (l *lateNotifications) Notification(ctx context.Context, tenant, id string) (topics.Notification, bool, error) {
	if l.asked.Load() < l.after.Load() {
		return topics.Notification{}, false, nil
	}
	return l.keptNotifications.Notification(ctx, tenant, id)
}

// Who reads behind an event sees it, once the history has it; a history that stays behind is
// shown as it is.
func TestNotificationsWaitForTheHistory(t *testing.T) {
	l := &lateNotifications{}
	for _, n := range someNotifications() {
		n.Tenant, n.Trigger, n.ID = trigger.DefaultTenant, "k", "k"+n.ID[strings.Index(n.ID, "@"):]
		l.keptNotifications = append(l.keptNotifications, n)
	}
	w := newWorld(t, func(o *Options) { o.Notifications = l })
	events := topics.Names{}.Events()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: events, Key: []byte("k"), Value: []byte("{}")}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/users/u/notifications", "/v1/notifications/k@2026-11-25T09:00:00"} {
		l.after.Store(4)
		seen := false
		for range 60 { // the wait has an end, and this machine may be slow
			l.asked.Store(0)
			if seen = strings.Contains(w.call("GET", path, "").body, `"notification_id":"k@`); seen {
				break
			}
		}
		if !seen {
			t.Errorf("%s does not wait", path)
		}
	}
	l.after.Store(math.MaxInt64)
	w.must(http.StatusOK, "GET", "/v1/users/u/notifications", "")
	w.must(http.StatusNotFound, "GET", "/v1/notifications/k@2026-11-25T09:00:00", "")
}

// A page with contents has as many bytes as a page may have, and the rest is behind its cursor.
func TestNotificationPageBytes(t *testing.T) {
	var kept keptNotifications
	key := string(trigger.NewKey("default", "k"))
	for i := range 60 {
		kept = append(kept, topics.Notification{
			Tenant: "default", Trigger: key, ID: key + "@" + strings.Repeat("x", i+1), User: "u",
			CreatedAt: trigger.Instant(1_795_000_000_000 - 1000*i), Type: "reminder", Channels: map[string]string{},
			Content: &topics.NotificationContent{Body: strings.Repeat("b", 64<<10)},
		})
	}
	w := newWorld(t, func(o *Options) { o.Notifications, o.PageBytes = kept, 256<<10 })
	const path = "/v1/users/u/notifications?limit=1000"
	got, pages := 0, 0
	for query := "&content=1"; ; pages++ {
		a := w.must(http.StatusOK, "GET", path+query, "")
		var page NotificationList
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 0 || len(a.body) > 512<<10 {
			t.Fatalf("%d notifications in %d bytes", len(page.Items), len(a.body))
		}
		for _, n := range page.Items {
			if want := "k@" + strings.Repeat("x", got+1); n.NotificationID != want {
				t.Fatalf("%s, want %s", n.NotificationID, want)
			}
			got++
		}
		if page.NextCursor == "" {
			break
		}
		query = "&content=1&cursor=" + url.QueryEscape(page.NextCursor)
	}
	if got != len(kept) || pages != 14 {
		t.Errorf("%d notifications, want %d; %d pages more, want 14", got, len(kept), pages)
	}
	var all NotificationList
	if err := json.Unmarshal([]byte(w.must(http.StatusOK, "GET", path, "").body), &all); err != nil ||
		len(all.Items) != len(kept) {
		t.Errorf("without contents: %d, %v", len(all.Items), err)
	}
}

// A notification is read from the history, as lists are: with a slot, and from the tenant's rate.
func TestNotificationIsCostly(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Now = testKeys(t), func() time.Time { return now }
		o.ReadRate = func(tenant string) float64 { return map[string]float64{"acme": 10}[tenant] }
		o.Notifications = keptNotifications{{
			Tenant: "acme", Trigger: "acme/t", ID: "acme/t@o", CreatedAt: 1_795_000_000_000,
			Channels: map[string]string{}, Content: &topics.NotificationContent{Body: strings.Repeat("x", 1000)},
		}}
	})
	a := []string{"Authorization", "Bearer " + keyA}
	w.must(http.StatusOK, "GET", "/v1/notifications/t@o", "", a...)
	refused := w.must(http.StatusTooManyRequests, "GET", "/v1/notifications/t@o", "", a...)
	if refused.get(t, "code") != "quota_exceeded" || refused.header.Get("Retry-After") == "" {
		t.Error(refused.body)
	}
	w.must(http.StatusNotFound, "GET", "/v1/notifications/t@o", "", "Authorization", "Bearer "+keyB)
	now = now.Add(time.Minute)
	pages := w.server.reads.pages
	pages.add("acme", w.server.opts.PagesInFlight)
	w.must(http.StatusServiceUnavailable, "GET", "/v1/notifications/t@o", "", a...)
	pages.add("acme", -w.server.opts.PagesInFlight)
	now = now.Add(time.Minute)
	w.must(http.StatusOK, "GET", "/v1/notifications/t@o", "", a...)
}
