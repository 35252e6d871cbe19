package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attacks are those that are measured.
func attacks() []attack {
	return []attack{
		{name: "streams on nothing", run: streamsOnNothing},
		{name: "streams", run: streams},
		{name: "trickled batches", run: trickledBatches},
		{name: "channels", run: channels},
		// Who sends bombs may write to Kafka, so they are judged by memory alone.
		{name: "bombs", prepare: assembled, run: bombs, memoryOnly: []string{"dev", "serve"}},
		{name: "encoded bodies", prepare: assembled, run: encodedBodies},
		{name: "forged tokens", prepare: trusted, run: forgedTokens},
		{name: "closed doors", run: closedDoors},
		// From here on the attacker has overdrawn its quota of reads.
		{name: "slow readers", prepare: largeTriggers, run: slowReaders},
		{name: "upcoming", prepare: everyMinute, run: upcoming},
		{name: "flood", run: flood, memoryOnly: []string{"dev"}}, // with broker, engine and history in one process
	}
}

// TestServeAudited and TestDevAudited flood nodes that put each register on topic audit, too.
func TestServeAudited(t *testing.T) { suffer(t, newServe(t, "--audit-registers"), auditedAttacks()) }
func TestDevAudited(t *testing.T)   { suffer(t, newDev(t, "--audit-registers"), auditedAttacks()) }

func auditedAttacks() []attack {
	return []attack{{name: "flood", run: flood, memoryOnly: []string{"dev"}}}
}

// batch sends lines, a few thousand at a time.
func batch(t *testing.T, a *tenant, lines []string) {
	t.Helper()
	for len(lines) > 0 {
		n := min(len(lines), 1000)
		got := a.must(t, http.StatusOK, "POST", "/v1/triggers:batch", strings.Join(lines[:n], "\n"))
		if bad := strings.Index(got.body, `"status":4`); bad >= 0 {
			t.Fatalf("a line was refused: %s", got.body[bad:min(len(got.body), bad+300)])
		}
		lines = lines[n:]
	}
}

// everyMinute registers 3,000 triggers that fire each minute, from next week on.
func everyMinute(t *testing.T, a *tenant) {
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`{"id":"m%d","recurrence":"every:1m","start":%q}`, i,
			time.Now().Add(7*24*time.Hour).UTC().Format(time.RFC3339)))
	}
	batch(t, a, lines)
	if a.n.as("attacker", readerKey).must(t, http.StatusRequestEntityTooLarge, "GET",
		"/v1/upcoming?n=1440&bucket=366d", "").problem().Visited < 100_000 {
		t.Error("the refusal does not say what was visited")
	}
}

// upcoming asks forty at a time for four years of it (issue 17, security 1).
func upcoming(ctx context.Context, t *testing.T, a *tenant) {
	got := a.many(ctx, 40, func(int) answer {
		return a.try(ctx, "GET", "/v1/upcoming?n=1440&bucket=366d", "")
	})
	t.Logf("answers: %v", got)
	for status := range got {
		if status != http.StatusRequestEntityTooLarge && status != http.StatusTooManyRequests &&
			status != http.StatusServiceUnavailable {
			t.Errorf("%d answers of %d", got[status], status)
		}
	}
}

// largeTriggers registers 200 with payloads of nearly 512 KiB.
func largeTriggers(t *testing.T, a *tenant) {
	payload := strings.Repeat("x", largePayload-100)
	for i := range 200 {
		a.must(t, http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/large%d", i),
			`{"delay":"300d","tags":{"size":"large"},"payload":"`+payload+`"}`)
	}
}

// slowReaders asks for all of them and reads nothing (security 7).
func slowReaders(ctx context.Context, t *testing.T, a *tenant) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := a.slowReader(ctx, "/v1/triggers?limit=1000&tag=size:large"); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// streamsOnNothing opens streams on ids that do not exist, with a cursor that anybody
// can make up (security 6).
func streamsOnNothing(ctx context.Context, t *testing.T, a *tenant) {
	const cursor = "gIDk4u-B9AQC"
	got := openStreams(ctx, a, func(i int) string { return fmt.Sprintf("none%d", i) }, "Last-Event-ID", cursor)
	if got[http.StatusNotFound] != manyStreams {
		t.Errorf("answers: %v", got)
	}
}

// streams opens as many as it may on a trigger of the attacker's own.
func streams(ctx context.Context, t *testing.T, a *tenant) {
	if got := a.try(ctx, "PUT", "/v1/triggers/watched", `{"delay":"1d"}`); got.status != http.StatusCreated &&
		got.status != http.StatusOK { // in the second round it is there
		t.Errorf("PUT: %s", got)
	}
	victim := make(chan int, 1)
	go func() {
		pause(ctx, attackFor/2) // by then the attacker has what it can get
		victim <- a.n.as("victim", victimKey).opens(ctx, "/v1/triggers/first/events?follow=1")
	}()
	got := openStreams(ctx, a, func(int) string { return "watched" })
	if status := <-victim; status != http.StatusOK {
		t.Errorf("the victim's own stream: %d", status)
	}
	if got[http.StatusOK] == 0 || got[http.StatusServiceUnavailable] == 0 || len(got) != 2 {
		t.Errorf("answers: %v", got)
	}
}

// manyStreams is more than a node has.
const manyStreams = 300

// openStreams opens each once, and holds it until the phase ends.
func openStreams(ctx context.Context, a *tenant, id func(int) string, header ...string) map[int]int {
	var mu sync.Mutex
	counts := map[int]int{}
	var all sync.WaitGroup
	for i := range manyStreams {
		all.Go(func() {
			pause(ctx, time.Duration(i)*attackFor/2/manyStreams)
			resp, err := a.send(ctx, "GET", "/v1/triggers/"+id(i)+"/events?follow=1", http.NoBody, header...)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			mu.Lock()
			counts[resp.StatusCode]++
			mu.Unlock()
			if resp.StatusCode == http.StatusOK {
				<-ctx.Done()
			}
		})
	}
	all.Wait()
	return counts
}

// trickle is a body that comes byte by byte.
type trickle struct{ ctx context.Context } //nolint:containedctx // a reader has no other way

func (r trickle) Read(b []byte) (int, error) {
	if pause(r.ctx, 500*time.Millisecond); r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	b[0] = ' '
	return 1, nil
}

// trickledBatches opens more than there may be, and sends a byte now and then.
func trickledBatches(ctx context.Context, t *testing.T, a *tenant) {
	var all sync.WaitGroup
	all.Go(func() {
		pause(ctx, attackFor/2)
		got := a.n.as("victim", victimKey).try(ctx, "POST", "/v1/triggers:batch", `{"id":"line","delay":"1d"}`)
		if got.status != http.StatusOK && ctx.Err() == nil {
			t.Errorf("the victim's own batch: %s", got)
		}
	})
	for range 64 {
		all.Go(func() {
			for ctx.Err() == nil {
				if resp, err := a.send(ctx, "POST", "/v1/triggers:batch", trickle{ctx}); err == nil {
					resp.Body.Close()
				}
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// flood sends what anybody may send, as fast as it is taken: batches of triggers that
// fire at once. Their commands stand before the victim's in the same log.
func flood(ctx context.Context, t *testing.T, a *tenant) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf(`{"id":"f%d","delay":"0s","idempotency_key":"%d"}`, i, time.Now().UnixNano()))
	}
	text := strings.Join(lines, "\n")
	got := a.many(ctx, 8, func(int) answer { return a.try(ctx, "POST", "/v1/triggers:batch", text) })
	t.Logf("answers: %v", got)
	for status := range got { // 503: as many batches as may be are under way
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("%d answers of %d", got[status], status)
		}
	}
}

// TestFloodInMemory: triggers that fire at once, from eight callers, into a dev that has had nothing
// to do yet, whose heap has all its growth before it. Beside another tenant, a flood of three times
// as many lines fills all memtables, too.
func TestFloodInMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		batches int64
		others  bool
	}{
		{"alone", 20, false},
		{"beside another tenant", 60, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newDev(t)
			a := n.as("attacker", attackerKey)
			a.must(t, http.StatusCreated, "PUT", "/v1/triggers/first", `{"delay":"0s"}`)
			if c.others {
				watch(t, n).phase(t.Context(), time.Second) // the first turns, topics and connections
			}
			calm := n.rss(t)
			peak := calm
			done := make(chan struct{})
			go func() {
				defer close(done)
				floodOnce(t, a, c.batches)
				pause(t.Context(), time.Second) // they fire
			}()
			for running := true; running; {
				select {
				case <-done:
					running = false
				case <-time.After(20 * time.Millisecond):
				}
				peak = max(peak, n.rss(t))
			}
			t.Logf("%d MB before, at most %d MB", calm>>20, peak>>20)
			if grown := peak - calm; grown > mayGrow {
				t.Errorf("memory grew by %d MB, may be %d MB", grown>>20, mayGrow>>20)
			}
		})
	}
}

// floodOnce sends batches of 1,000 triggers that fire at once, each until it is taken.
func floodOnce(t *testing.T, a *tenant, batches int64) {
	var left atomic.Int64
	left.Store(batches)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for k := left.Add(-1); k >= 0; k = left.Add(-1) {
				var lines []string
				for i := range 1000 {
					lines = append(lines, fmt.Sprintf(`{"id":"f%d","delay":"0s","idempotency_key":"%d"}`, i, k))
				}
				text := strings.Join(lines, "\n")
				for t.Context().Err() == nil {
					got := a.try(t.Context(), "POST", "/v1/triggers:batch", text)
					if got.status == http.StatusOK {
						break
					}
					if got.status != http.StatusServiceUnavailable {
						t.Errorf("a batch: %s", got)
						return
					}
					pause(t.Context(), refusedFor)
				}
			}
		})
	}
	all.Wait()
}

// channels names a new one in each of 300 lines (security 2). What a tenant creates
// leaves room for others, and none is created in serve.
func channels(ctx context.Context, t *testing.T, a *tenant) {
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`{"id":"c%d","delay":"0s","channel":"new-%d"}`, i, i))
	}
	got := a.try(ctx, "POST", "/v1/triggers:batch", strings.Join(lines, "\n"))
	made := strings.Count(got.body, `"status":20`)
	if most := map[string]int{"dev": 20}[a.n.kind]; got.status != http.StatusOK || made > most {
		t.Errorf("%d channels were created, of which a tenant has %d; %s", made, most, got)
	}
	victim := a.n.as("victim", victimKey)
	for _, name := range []string{"sms", "push", "email", "default"} {
		victim.must(t, http.StatusCreated, "POST", "/v1/triggers", `{"delay":"1d","channel":"`+name+`"}`)
	}
	for _, name := range []string{"sms.high", "new-1.high"} {
		a.must(t, http.StatusUnprocessableEntity, "POST", "/v1/triggers", `{"delay":"1d","channel":"`+name+`"}`)
	}
}
