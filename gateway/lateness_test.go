package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/lateness"
)

func (w *world) lateness(base, query string, header ...string) (l Lateness) {
	w.t.Helper()
	a := w.callAt(base, "GET", "/v1/lateness"+query, "", header...)
	if a.status != http.StatusOK {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &l); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) counts(partition int32, at time.Time, tenant, channel string, late ...int) {
	for _, ms := range late {
		w.engine.late[partition].Count(at.UnixMilli(), []lateness.Fired{
			{Tenant: tenant, Channel: channel, Late: time.Duration(ms) * time.Millisecond},
		})
	}
}

// Every instance joins what all owners have counted; what has left the window is not there.
func TestLateness(t *testing.T) {
	w, urls, _ := newCluster(t)
	now := time.Now()
	for p := range int32(testPartitions) {
		w.engine.late[p].Begin(now.Add(-2 * time.Hour).UnixMilli())
	}
	w.counts(0, now.Add(-61*time.Minute), "a", "sms", 99)
	w.counts(0, now.Add(-30*time.Minute), "a", "push", 3, 4)
	w.counts(1, now.Add(-30*time.Minute), "b", "sms", 7, 9, 2000)
	for i, u := range urls {
		l := w.lateness(u, "")
		if len(l.Items) != 60 || l.Window != "1h" || l.Since != "" || len(l.Silent) != 0 || l.Fires != 5 ||
			*l.P50 != 7 || *l.P99 != 2000 || *l.Max != 2000 {
			t.Fatalf("instance %d: %+v", i, l)
		}
		half := 0
		for _, item := range l.Items {
			if half += int(item.Fires); item.Fires == 0 && item.P50 != nil {
				t.Errorf("instance %d: %+v has a median of nothing", i, item)
			}
		}
		if half != 5 || l.Channels["push"].Fires != 2 || *l.Channels["push"].P99 != 4 || l.Channels["sms"].Fires != 3 {
			t.Errorf("instance %d: %d in the curve, %+v", i, half, l.Channels)
		}
		if m := w.lateness(u, "?window=1m"); len(m.Items) != 12 || m.Fires != 0 || m.P50 != nil {
			t.Errorf("instance %d: the last minute is %+v", i, m)
		}
	}
	for _, bad := range []string{"?window=2h", "?window=", "?x=1"} {
		w.must(http.StatusBadRequest, "GET", "/v1/lateness"+bad, "")
	}
}

// A partition without an owner is named, and the others count. A new owner says since when.
func TestLatenessOfASilentPartition(t *testing.T) {
	w := newWorld(t, nil)
	begun := time.Now().Add(-10 * time.Minute)
	w.engine.late[1].Begin(begun.UnixMilli())
	w.counts(0, time.Now(), "a", "push", 5)
	w.counts(2, time.Now(), "a", "push", 7)
	w.engine.set(func() { w.engine.foreign[2] = true })
	l := w.lateness(w.url, "?window=1h")
	if len(l.Silent) != 1 || l.Silent[0] != 2 || l.Fires != 1 {
		t.Errorf("%+v", l)
	}
	if since, err := time.Parse(time.RFC3339, l.Since); err != nil || since.UnixMilli() != begun.UnixMilli() {
		t.Errorf("since %q, %v", l.Since, err)
	}
	w.engine.set(func() {
		for p := range int32(testPartitions) {
			w.engine.foreign[p] = true
		}
	})
	began := time.Now()
	a := w.call("GET", "/v1/lateness", "")
	if a.status != http.StatusServiceUnavailable || time.Since(began) > 4*peer.SearchTimeout {
		t.Errorf("of nobody: %d %s after %v", a.status, a.body, time.Since(began))
	}
}

// Where too many tenants fire at once to tell them apart, one that was not counted learns that its counts are too low:
// from the report, and from the stream.
func TestLatenessIsIncomplete(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	for key, want := range map[string]bool{keyA: false, keyO: false} {
		if l := w.lateness(w.url, "", "Authorization", "Bearer "+key); l.Incomplete != want {
			t.Errorf("of few tenants: %+v", l)
		}
	}
	for i := range 300 {
		w.counts(1, time.Now(), fmt.Sprint("t", i), "push", 5)
	}
	w.counts(1, time.Now(), "acme", "push", 5)
	for key, want := range map[string]int64{keyA: 0, keyO: 301} {
		// Without the parameter its answer of before would do.
		if l := w.lateness(w.url, "?window=1h", "Authorization", "Bearer "+key); l.Fires != want || !l.Incomplete {
			t.Errorf("%d fires, incomplete %v, want %d", l.Fires, l.Incomplete, want)
		}
	}
	for key, want := range map[string]bool{keyA: true, keyO: false} { // the sum of all is right
		first, _ := watch(t, w.url, "Authorization", "Bearer "+key).next()
		if s := first.state(t); s.Incomplete != want {
			t.Errorf("the stream says %+v", s)
		}
	}
}

// A tenant sees its own; an operator sees all together.
func TestLatenessOfTenants(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	w.counts(0, time.Now(), "acme", "secret", 5)
	w.counts(1, time.Now(), "blue", "push", 9)
	for key, want := range map[string]int64{keyA: 1, keyR: 1, keyB: 1, keyD: 0, keyO: 2} {
		l := w.lateness(w.url, "", "Authorization", "Bearer "+key)
		if l.Fires != want {
			t.Errorf("%s sees %d", key, l.Fires)
		}
		if _, sees := l.Channels["secret"]; sees != (key != keyB && key != keyD) {
			t.Errorf("%s sees channels %+v", key, l.Channels)
		}
	}
}
