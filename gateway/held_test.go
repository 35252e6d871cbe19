package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/trigger"
)

// Commands that Kafka has not acknowledged are bounded in bytes: one beyond it fails at once.
func TestCommandsWithoutAnswerAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.CommandBytes, o.ProduceWithin = 64<<10, time.Minute })
	free := make(chan struct{})
	w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		w.cluster.SleepControl(func() { <-free })
		return nil, nil, false
	})
	register := fmt.Sprintf(`{"delay":"1d","payload":%q}`, strings.Repeat("x", 4000))
	codes := make(chan int, 40)
	for i := range cap(codes) {
		go func() { codes <- w.call("PUT", fmt.Sprintf("/v1/triggers/%d", i), register).status }()
	}
	refused := 0
	for ; refused < cap(codes)-64<<10/4000; refused++ { // while none is written
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Fatalf("beyond the bound: %d", code)
		}
	}
	close(free)
	for range cap(codes) - refused {
		if code := <-codes; code != http.StatusCreated {
			t.Errorf("within the bound: %d", code)
		}
	}
}

// Bodies count from their arrival until the answer. One beyond the bound is refused, and no other
// tenant's.
func TestBodiesInFlight(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.BodiesInFlight = 8 << 10 })
	const register = `{"delay":"1d"}`
	held := w.server.writes.bodies.held
	held.add(trigger.DefaultTenant, 4<<10)
	a := w.must(http.StatusTooManyRequests, "PUT", "/v1/triggers/x", register)
	if a.get(t, "code") != "overloaded" || a.header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", a.body, a.header.Get("Retry-After"))
	}
	if free := held.free("another"); free != 4<<10 {
		t.Errorf("another tenant has %d bytes", free)
	}
	held.add(trigger.DefaultTenant, -4<<10)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", register)

	come, whole := io.Pipe()
	answer := make(chan int)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, w.url+"/v1/triggers/y", come)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			answer <- 0
			return
		}
		a.Body.Close()
		answer <- a.StatusCode
	}()
	_, _ = io.WriteString(whole, register[:5])
	eventually(t, "what has come counts", func() bool { return held.free("another") == 8<<10-5 })
	_, _ = io.WriteString(whole, register[5:])
	whole.Close()
	if code := <-answer; code != http.StatusCreated {
		t.Errorf("it was answered %d", code)
	}
	eventually(t, "all is given back", func() bool { return held.free("another") == 8<<10 })
}

// Lines of batches without an answer are bounded in bytes. What is beyond waits, and keeps its order.
func TestLinesInFlight(t *testing.T) {
	const most, lines = 16 << 10, 40
	w := newWorld(t, func(o *Options) { o.LinesInFlight, o.AnswerWithin = most, time.Minute })
	room := w.server.batches.inFlight
	payload := strings.Repeat("x", 1000)
	var body strings.Builder
	for i := range lines {
		fmt.Fprintf(&body, `{"id":"t%d","delay":"1d","payload":%q}`+"\n", i, payload)
	}
	w.engine.freeze()
	done := make(chan answer)
	go func() { done <- w.call("POST", "/v1/triggers:batch", body.String()) }()
	if n := w.written(t, "", 1); n > most/(1000+lineBytes) {
		t.Errorf("%d lines of 1,000 bytes are on their way, in %d bytes", n, most)
	}
	w.engine.thaw()
	a := <-done
	for i, line := range strings.Split(strings.TrimSpace(a.body), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"id":"t%d","status":20`, i)) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if n := strings.Count(a.body, "\n"); n != lines {
		t.Errorf("%d answers", n)
	}
	if !room.TakeN("", most) {
		t.Error("not all room is given back")
	}
	room.ReleaseN("", most)

	large := fmt.Sprintf(`{"id":"large","delay":"1d","payload":%q}`, strings.Repeat("x", 4000))
	room.most = 1 << 10 // a line that is larger than all room
	if a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", large); !strings.Contains(a.body, `"status":201`) {
		t.Error(a.body)
	}
}

// A tenant whose batches hold their room, because their bodies stop half-way, keeps no other tenant's batch out.
func TestLinesOfOneTenant(t *testing.T) {
	const most = 16 << 10
	w := newWorld(t, func(o *Options) { o.Auth, o.LinesInFlight = testKeys(t), most })
	room := w.server.batches.inFlight
	for room.TakeN("acme", 1<<10) { // lines of its open chunks
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := make(chan error)
	go func() { waits <- room.WaitN(ctx, "acme", 4<<10) }()
	for !room.Waiting() {
		time.Sleep(time.Millisecond)
	}
	a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"t","delay":"1d"}`, "Authorization", "Bearer "+keyB)
	if !strings.Contains(a.body, `"status":201`) {
		t.Error(a.body)
	}
	cancel()
	if err := <-waits; err == nil {
		t.Error("acme has more than its share")
	}
}

// The answer to a line that is refused for its id is short, however long the id is.
func TestRefusedLinesAreShort(t *testing.T) {
	w := newWorld(t, func(*Options) {})
	line := `{"id":"` + strings.Repeat("<", 100_000) + `","delay":"1d"}` + "\n"
	a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", line+line+`{"id":"<","delay":"1d","channel":"no such"}`)
	if len(a.body) > 3<<10 || strings.Count(a.body, `"line":`) != 3 || strings.Count(a.body, `"id":`) != 1 {
		t.Errorf("%d bytes: %.2000s", len(a.body), a.body)
	}
}
