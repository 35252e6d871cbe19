package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// A forecast that would visit too much is refused, here and where another instance
// owns the partitions, and says how much it visited.
func TestForecastBudget(t *testing.T) {
	w, urls, _ := newClusterWith(t, func(o *Options) { o.ReadBudget = 10_000 })
	for i := range 20 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/m%d", i), `{"recurrence":"every:1m"}`)
	}
	w.must(http.StatusOK, "GET", "/v1/upcoming?n=60&bucket=1m", "")
	for _, url := range append(urls, w.url) {
		a := w.callAt(url, "GET", "/v1/upcoming?n=1440&bucket=366d", "")
		if a.status != http.StatusRequestEntityTooLarge || a.get(t, "code") != "too_large" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		var visited int
		if _, err := fmt.Sscan(a.get(t, "looked_at"), &visited); err != nil || visited < 10_000 || visited > 60_000 {
			t.Errorf("it visited %s: %v", a.get(t, "looked_at"), err)
		}
	}
}

// Reads are charged by what they visit: a tenant that has overdrawn its quota waits,
// and others do not.
func TestReadQuota(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Now = testKeys(t), func() time.Time { return now }
		o.ReadRate = func(tenant string) float64 { return map[string]float64{"acme": 200}[tenant] }
	})
	a, b := []string{"Authorization", "Bearer " + keyA}, []string{"Authorization", "Bearer " + keyB}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/m", `{"recurrence":"every:1m"}`, a...)
	w.must(http.StatusOK, "GET", "/v1/upcoming?n=1440&bucket=1m", "", a...)
	// The second overdraws it at the latest; a slow machine is charged more for the first.
	if second := w.call("GET", "/v1/upcoming?n=1440&bucket=1m", "", a...); second.status != http.StatusOK &&
		second.status != http.StatusTooManyRequests {
		t.Fatalf("%d: %s", second.status, second.body)
	}
	for _, path := range []string{"/v1/triggers", "/v1/upcoming", "/v1/triggers/m/occurrences", "/api/reminders"} {
		refused := w.must(http.StatusTooManyRequests, "GET", path, "", a...)
		if refused.get(t, "code") != "quota_exceeded" || refused.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, refused.body)
		}
		w.call("GET", path, "", b...)
	}
	w.must(http.StatusOK, "GET", "/v1/upcoming?n=1440&bucket=1m", "", b...)
	w.must(http.StatusOK, "GET", "/v1/triggers/m", "", a...) // costs next to nothing
	now = now.Add(time.Minute)
	w.must(http.StatusOK, "GET", "/v1/triggers", "", a...)
}

// A page has about as many bytes as it may, and the pages together have every
// trigger once.
func TestPageBytes(t *testing.T) {
	w, urls, _ := newClusterWith(t, func(o *Options) { o.PageBytes = 64 << 10 })
	payload := strings.Repeat("x", 4000)
	for i := range 120 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/l%03d", i), `{"delay":"1d","payload":"`+payload+`"}`)
	}
	for _, url := range append(urls, w.url) {
		seen, pages := map[string]bool{}, 0
		for cursor := ""; ; pages++ {
			a := w.callAt(url, "GET", "/v1/triggers?limit=1000"+cursor, "")
			if a.status != http.StatusOK || len(a.body) > 400<<10 {
				t.Fatalf("%d, %d bytes", a.status, len(a.body))
			}
			for part := range strings.SplitSeq(a.body, `"trigger_id":"`) {
				if id, _, _ := strings.Cut(part, `"`); strings.HasPrefix(id, "l") {
					if seen[id] {
						t.Errorf("%s is there twice", id)
					}
					seen[id] = true
				}
			}
			next := a.get(t, "next_cursor")
			if next == "" {
				break
			}
			cursor = "&cursor=" + next
		}
		if len(seen) != 120 || pages < 2 {
			t.Errorf("%d triggers on %d pages", len(seen), pages)
		}
	}
}

// Pages that their readers have not taken bound those that follow, tenant by tenant.
func TestPagesInFlight(t *testing.T) {
	p := &pages{most: 100, by: map[string]int64{}}
	p.add("a", 40)
	if a, b := p.free("a"), p.free("b"); a != 20 || b != 60 {
		t.Errorf("a has %d, b %d", a, b)
	}
	p.add("a", 20)
	if a, b := p.free("a"), p.free("b"); a != 0 || b != 40 {
		t.Errorf("a has %d, b %d", a, b)
	}
	p.add("a", -60)
	if len(p.by) != 0 || p.free("a") != 100 {
		t.Errorf("%+v", p)
	}
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", `{"delay":"1d"}`)
	w.server.reads.pages.add(trigger.DefaultTenant, w.server.opts.PagesInFlight)
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers", "")
	w.server.reads.pages.add(trigger.DefaultTenant, -w.server.opts.PagesInFlight)
	w.must(http.StatusOK, "GET", "/v1/triggers", "")
	if held := w.server.reads.pages.sum; held != 0 {
		t.Errorf("%d bytes are held still", held)
	}
}

// A cursor does not open a stream on what is not there.
func TestNoStreamOnNothing(t *testing.T) {
	w := newWorld(t, nil)
	at := EventCursor{EventUS: firstEventUS, Seq: 1}.String()
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none/events?follow=1&cursor="+at, "")
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none/events?follow=1", "", "Last-Event-ID", at)
}

// A batch that comes byte by byte is ended, and gives its slot back.
func TestTrickledBatch(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Batches = 1 })
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/triggers:batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
	go func() {
		for {
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second)) // far below batchWithin
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%s %s", resp.Status, b)
	}
	eventually(t, "the slot", func() bool { return w.server.batches.slots.Held(trigger.DefaultTenant) == 0 })
}

// A length that is announced is no reason to make room for it.
func TestAnnouncedLength(t *testing.T) {
	const announced = 512 << 10
	b, err := readAll(strings.NewReader("{}"), announced, announced)
	if err != nil || string(b) != "{}" {
		t.Fatalf("%q, %v", b, err)
	}
	if n := cap(b); n > 2*readAhead {
		t.Errorf("a body of two bytes takes %d", n)
	}
}

// writing is an answer that hears when its body is written.
type writing struct {
	*httptest.ResponseRecorder
	body func(n int)
}

func (w *writing) Write(b []byte) (int, error) {
	w.body(len(b))
	return w.ResponseRecorder.Write(b)
}

// What owners have counted is bounded as lists are: by slots, by the tenant's rate, and by the bytes that
// readers have not taken. An answer that others may have too holds no slot while it is sent.
func TestCountsAreCostly(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Now = testKeys(t), func() time.Time { return now }
		o.ReadRate = func(tenant string) float64 { return map[string]float64{"acme": 300}[tenant] }
	})
	a, b := []string{"Authorization", "Bearer " + keyA}, []string{"Authorization", "Bearer " + keyB}
	pages := w.server.reads.pages
	for path, shared := range map[string]bool{
		"/v1/forecast?bucket=1h&n=2160&by=channel": true, "/v1/lateness": true, "/v1/upcoming?n=1440": false,
		"/v1/upcoming": false,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.Header = "localhost", http.Header{"Authorization": {"Bearer " + keyB}}
		written := 0
		w.server.Handler().ServeHTTP(&writing{httptest.NewRecorder(), func(n int) {
			written += n
			if held := pages.by["blue"]; held < int64(n) {
				t.Errorf("%s: its reader has not taken %d bytes, and %d count", path, n, held)
			}
			if !shared && w.server.reads.slots.Held("blue") == 0 {
				t.Errorf("%s holds no slot", path)
			}
		}}, r)
		if written == 0 || pages.sum != 0 {
			t.Errorf("%s: %d bytes; afterwards %d count", path, written, pages.sum)
		}
		pages.add("acme", w.server.opts.PagesInFlight)
		w.must(http.StatusServiceUnavailable, "GET", path, "", a...)
		pages.add("acme", -w.server.opts.PagesInFlight)
	}
	// Each bucket is charged: the second overdraws what acme may read at once, 3,000, the third is refused.
	path := "/v1/forecast?bucket=1h&n=2160"
	now = now.Add(time.Minute)
	w.must(http.StatusOK, "GET", path, "", a...)
	w.must(http.StatusOK, "GET", path+"&by=channel", "", a...)
	w.must(http.StatusTooManyRequests, "GET", path, "", a...)
	w.must(http.StatusTooManyRequests, "GET", "/v1/lateness", "", a...)
	w.must(http.StatusOK, "GET", path, "", b...)
}

// What one read costs is charged, also where it is more than the tenant may use at once.
func TestChargeBeyondTheBurst(t *testing.T) {
	now := time.Now()
	l := newRateLimits(func(string) float64 { return 10 }, readBurst, func() time.Time { return now })
	l.charge("acme", 1000)
	for _, after := range []time.Duration{0, 80 * time.Second} {
		if now = now.Add(after); l.overdrawn("acme") == nil {
			t.Errorf("of 1,000 visits at 10 a second it may read after %v", after)
		}
	}
	if now = now.Add(15 * time.Second); l.overdrawn("acme") != nil {
		t.Error("it may not read when it has paid")
	}
}

// Who waits until the balance is positive ends with its request.
func TestPayEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimits(func(string) float64 { return 10 }, readBurst, time.Now)
		begun := time.Now()
		if err := l.pay(t.Context(), "acme", 600); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took < 49*time.Second || took > 51*time.Second {
			t.Errorf("it waited for %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.pay(ctx, "acme", 600); err == nil {
			t.Error("it went on after its request")
		}
	})
}
