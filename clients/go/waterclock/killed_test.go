package waterclock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/producer"
	"github.com/waterclock/waterclock/clients/go/waterclock"
)

func newClient(t *testing.T, url string, opts ...waterclock.ClientOption) *waterclock.Client {
	t.Helper()
	c, err := waterclock.New(
		url,
		append([]waterclock.ClientOption{waterclock.Backoff(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hold is a trigger that does not fire while a test runs.
var hold = waterclock.Register{When: waterclock.In(time.Hour), Payload: map[string]string{"holdId": "h_8c4"}}

// registered returns how often a trigger was registered, and how often it fired.
func registered(ctx context.Context, t *testing.T, c *waterclock.Client, id string) (n, fired int) {
	t.Helper()
	for e, err := range c.AllEvents(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case "trigger.registered", "trigger.replaced":
			n++
		case "occurrence.fired":
			fired++
		}
	}
	return n, fired
}

// wantFirst waits until the engine has decided, and requires that the trigger was registered
// once.
func wantFirst(ctx context.Context, t *testing.T, c *waterclock.Client, id string) {
	t.Helper()
	for {
		now, err := c.Get(ctx, id)
		if err == nil {
			if now.Revision != 1 {
				t.Errorf("%s is at revision %d", id, now.Revision)
			}
			break
		}
		if !errors.Is(err, waterclock.NotFound) && !errors.Is(err, waterclock.Unavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	n, _ := registered(ctx, t, c, id)
	for ; n == 0 && ctx.Err() == nil; n, _ = registered(ctx, t, c, id) { // the history lags behind the owner
		time.Sleep(20 * time.Millisecond)
	}
	if n != 1 {
		t.Errorf("%s was registered %d times", id, n)
	}
}

// TestKilledInMidCall: dev is stopped while it handles a request, and then killed. The error says
// that the write may have been applied. The same call with the same key then leads to one
// trigger, registered once.
func TestKilledInMidCall(t *testing.T) {
	d := startDev(t)
	ctx := within(t, 2*time.Minute)
	c := newClient(t, d.url, waterclock.Retries(0))
	if _, err := c.Schedule(ctx, "warm", hold); err != nil { // opens a connection
		t.Fatal(err)
	}
	for i, signal := range []syscall.Signal{syscall.SIGSTOP, 0} {
		id := []string{"stopped", "running"}[i]
		failed := make(chan error, 1)
		if signal != 0 {
			_ = d.cmd.Process.Signal(signal)
		}
		go func() {
			for { // repeat until the kill interrupts a call
				_, err := c.Schedule(ctx, id, hold, waterclock.IdempotencyKey("key-"+id))
				if err != nil {
					failed <- err
					return
				}
			}
		}()
		time.Sleep(200 * time.Millisecond)
		url, kafka := strings.TrimPrefix(d.url, "http://"), d.kafka
		d.kill(syscall.SIGKILL)
		err := <-failed
		e := waterclock.ErrorOf(err)
		if !errors.Is(err, waterclock.Unavailable) || e == nil || e.Status != 0 || e.Attempts != 1 {
			t.Fatalf("%s: the error is %#v", id, err)
		}
		if signal == syscall.SIGSTOP && !e.MaybeApplied {
			t.Errorf("%s: a server had the request, and the error says %v", id, err)
		}
		_, err = c.Schedule(ctx, "refused", hold)
		if e := waterclock.ErrorOf(err); !errors.Is(err, waterclock.Unavailable) || e.MaybeApplied {
			t.Errorf("nobody was there, and the error says %v", err)
		}
		d.start(t, url, kafka)
		for range 2 {
			r, err := newClient(t, d.url).Schedule(ctx, id, hold, waterclock.IdempotencyKey("key-"+id))
			if err != nil || r.Decided && r.Revision != 1 {
				t.Fatalf("%s: %+v, %v", id, r, err)
			}
		}
		wantFirst(ctx, t, c, id)
	}
}

// TestKilledBetweenRetries: one call survives the restart of its server.
func TestKilledBetweenRetries(t *testing.T) {
	d := startDev(t)
	ctx := within(t, 2*time.Minute)
	c := newClient(t, d.url, waterclock.Retries(200), waterclock.Backoff(50*time.Millisecond))
	url, kafka := strings.TrimPrefix(d.url, "http://"), d.kafka
	_ = d.cmd.Process.Signal(syscall.SIGSTOP)
	type answer struct {
		r   *waterclock.Registered
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := c.Schedule(ctx, "", hold, waterclock.IdempotencyKey("order-77"))
		done <- answer{r, err}
	}()
	time.Sleep(100 * time.Millisecond)
	d.kill(syscall.SIGKILL)
	d.start(t, url, kafka)
	a := <-done
	if a.err != nil || a.r.Decided && a.r.Revision != 1 {
		t.Fatalf("%+v, %v", a.r, a.err)
	}
	wantFirst(ctx, t, c, a.r.TriggerID)
}

// cutter forwards requests, and drops the answers to the next few writes.
type cutter struct {
	to   string
	lose atomic.Int32
}

func (p *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req, _ := http.NewRequestWithContext(r.Context(), r.Method, p.to+r.RequestURI, bytes.NewReader(body))
	req.Header = r.Header.Clone()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body) // the server has applied the request by now
	if r.Method != http.MethodGet && p.lose.Add(-1) >= 0 {
		panic(http.ErrAbortHandler)
	}
	for name, v := range res.Header {
		w.Header()[name] = v
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(answer)
}

// TestAnswerLost: the write was applied, but its answer was lost.
func TestAnswerLost(t *testing.T) {
	d := startDev(t)
	ctx := within(t, 2*time.Minute)
	cut := &cutter{to: d.url}
	front := httptest.NewServer(cut)
	t.Cleanup(front.Close)
	c := newClient(t, front.URL)

	cut.lose.Store(2)
	r, err := c.Schedule(ctx, "", hold) // gets a generated key
	if err != nil || r.Created {
		t.Fatalf("schedule: %+v, %v", r, err)
	}
	wantFirst(ctx, t, c, r.TriggerID)

	cut.lose.Store(1)
	_, err = c.Run(ctx, r.TriggerID)
	if e := waterclock.ErrorOf(err); e == nil || !e.MaybeApplied || e.Attempts != 1 {
		t.Errorf("run: %v", err)
	}
	fired := 0
	for ; fired == 0 && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		_, fired = registered(ctx, t, c, r.TriggerID)
	}
	if fired != 1 {
		t.Errorf("it fired %d times", fired)
	}

	cut.lose.Store(1)
	_, err = c.Snooze(ctx, r.TriggerID, waterclock.Snooze{For: "2h"}, waterclock.IfRevision(1))
	if e := waterclock.ErrorOf(err); !errors.Is(err, waterclock.Conflict) || !e.MaybeApplied || e.Attempts != 2 {
		t.Errorf("snooze: %v", err)
	}
	if now, err := c.Get(ctx, r.TriggerID); err != nil || now.Revision != 2 {
		t.Errorf("after the snooze: %+v, %v", now, err)
	}

	cut.lose.Store(1)
	results, err := c.Batch(ctx, waterclock.ScheduleCommand("", hold), waterclock.CancelCommand(r.TriggerID))
	if err != nil || results[0].Status == http.StatusCreated || results[1].Err != nil {
		t.Fatalf("batch: %+v, %v", results, err)
	}
	wantFirst(ctx, t, c, results[0].TriggerID)
}

// TestKilledBrokers: a command over Kafka is never acknowledged.
func TestKilledBrokers(t *testing.T) {
	d := startDev(t)
	ctx := within(t, 2*time.Minute)
	p, err := producer.New(producer.Brokers(d.kafka), producer.Timeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Schedule(ctx, "warm", hold); err != nil {
		t.Fatal(err)
	}
	url, kafka := strings.TrimPrefix(d.url, "http://"), d.kafka
	_ = d.cmd.Process.Signal(syscall.SIGSTOP)
	failed := make(chan error, 1)
	go func() { failed <- p.Schedule(ctx, "hold", hold, waterclock.IdempotencyKey("k")) }()
	time.Sleep(100 * time.Millisecond)
	d.kill(syscall.SIGKILL)
	if err := <-failed; !errors.Is(err, waterclock.Unavailable) || !waterclock.ErrorOf(err).MaybeApplied {
		t.Errorf("the error is %v", err)
	}
	d.start(t, url, kafka)
	second, err := producer.New(producer.Brokers(d.kafka))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	for range 2 {
		if err := second.Schedule(ctx, "hold", hold, waterclock.IdempotencyKey("k")); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, d.url)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if n := duplicates(ctx, t, c, "hold"); n >= 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the repeat was never decided")
		}
	}
	if n, _ := registered(ctx, t, c, "hold"); n != 1 {
		t.Errorf("it was registered %d times", n)
	}
}

func duplicates(ctx context.Context, t *testing.T, c *waterclock.Client, id string) (n int) {
	t.Helper()
	for e, err := range c.AllEvents(ctx, id, 0) {
		if err != nil {
			if errors.Is(err, waterclock.NotFound) {
				return 0
			}
			t.Fatal(err)
		}
		if e.Type == "command.duplicate" {
			n++
		}
	}
	return n
}
