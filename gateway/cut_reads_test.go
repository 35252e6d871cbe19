package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// hangingUp is a history, and who calls leaves when it is asked for a page.
type hangingUp struct {
	leave func()
}

func (h hangingUp) cut(ctx context.Context) error {
	h.leave()
	<-ctx.Done()
	return ctx.Err()
}

func (h hangingUp) Next(context.Context, int32) (int64, error) { return 1 << 40, nil }

func (h hangingUp) EventsNext(context.Context) (map[int32]int64, error) { return nil, nil }

func (h hangingUp) LettersNext(context.Context) (letters, events map[int32]int64, err error) {
	return nil, nil, nil
}

func (h hangingUp) Notification(ctx context.Context, _, _ string) (topics.Notification, bool, error) {
	return topics.Notification{}, false, h.cut(ctx)
}

func (h hangingUp) Events(ctx context.Context, _ string, _ trigger.Key, _ EventCursor, _ int, _ int64) (
	[]topics.Event, bool, error,
) {
	return nil, false, h.cut(ctx)
}

func (h hangingUp) LastEvents(ctx context.Context, _ string, _ trigger.Key, _ int) ([]topics.Event, error) {
	return nil, h.cut(ctx)
}

func (h hangingUp) Notifications(ctx context.Context, _ topics.NotificationQuery) (topics.NotificationPage, error) {
	return topics.NotificationPage{}, h.cut(ctx)
}

func (h hangingUp) Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	if q.Trigger != "" && q.After.IsZero() { // a trigger has one page more
		return topics.LetterPage{Visited: 100, Next: topics.LetterCursor{FailedAt: 1}}, nil
	}
	return topics.LetterPage{Visited: 123}, h.cut(ctx)
}

// Who leaves before a costly read has its answer pays for what the read did, or was about to do.
func TestReadThatIsCutOffIsCharged(t *testing.T) {
	const rate, each = 1000, 30
	now := time.Now()
	var leave atomic.Pointer[context.CancelFunc]
	history := hangingUp{leave: func() { (*leave.Load())() }}
	w := newWorld(t, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.ReadRate = func(string) float64 { return rate }
		o.History, o.Letters, o.Notifications = history, history, history
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/e", at(""))
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		keys := make([]string, each)
		for i := range keys {
			keys[i] = key
		}
		w.refuse(t, keys...)
	}
	var fetches atomic.Int64
	w.cluster.ControlKey(int16(kmsg.Fetch), func(q kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		if fetches.Add(1) == 2 { // of partitions of topic rejected: the first was read
			(*leave.Load())()
		}
		return nil, nil, false
	})
	// Fetches that a request had under way may come late: the two that read a topic are far from each other.
	for _, one := range []struct {
		path string
		most int
	}{
		{"/v1/rejected", each},
		{"/v1/triggers/e/events?limit=200", 200},
		{"/v1/triggers/e/events?tail=150", 150},
		{"/v1/triggers/e/explain", explainEvents},
		{"/v1/triggers/e?as_of=" + now.UTC().Format(time.RFC3339), maxPage},
		{"/v1/users/u/notifications?limit=300", 300},
		{"/v1/dead-letters?fresh=false", 123},
		{"/v1/dead-letters?fresh=0&group_by=code", 123},
		{`:redrive{"code":"http_500"}`, 123},
		{`:redrive{"code":"http_500","dry_run":true}`, 123},
		{`:redrive{"trigger_id":"e"}`, 223},
		{`:redrive{"trigger_id":"e","dry_run":true}`, 223},
		{"/v1/rejected?group_by=code", each},
	} {
		path, most := one.path, one.most
		if fetches.Store(1000); strings.HasPrefix(path, "/v1/rejected") {
			fetches.Store(0)
		}
		now = now.Add(time.Minute) // the balance is full
		ctx, cancel := context.WithCancel(t.Context())
		leave.Store(&cancel)
		method, url, least := http.MethodGet, path, leastCost+most
		body, redrives := strings.CutPrefix(path, ":redrive")
		if redrives {
			method, url = http.MethodPost, "/v1/dead-letters:redrive"
		}
		if redrives && !strings.Contains(body, "dry_run") { // it is no read, and pays for what it visits in vain
			least = most
		}
		r := httptest.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Host = "localhost"
		w.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if ctx.Err() == nil {
			t.Errorf("%s: its caller has not left", path)
		}
		cancel()
		left := w.server.reads.quota.limiter(trigger.DefaultTenant).TokensAt(now)
		if paid := rate*readBurst - int(left); paid < least {
			t.Errorf("%s: %d were charged, want %d at least", path, paid, least)
		}
	}
}
