package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/sinks/webhook"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// hooked are a world's channels, with channel webhook as in serve.
type hooked struct{ pipelinetest.Channels }

func (c hooked) Settings(name string) pipeline.ChannelSettings {
	s := c.Channels.Settings(name)
	if name == webhook.Channel {
		s.Receipts = true
		s.Retry = []time.Duration{
			10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		}
	}
	return s
}

// hook is one request as the receiver saw it.
type hook struct {
	trigger, id string
	attempt     int
	at          time.Time
}

// hooks are receivers, and the requests that they got.
type hooks struct {
	answer func(host, path string, attempt int) (status int, after time.Duration)

	mu    sync.Mutex
	calls []hook
}

// RoundTrip replaces the network: it passes the request to the receiver.
func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		TriggerID string `json:"triggerId"`
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		return nil, err
	}
	attempt, _ := strconv.Atoi(r.Header.Get("X-Trigger-Attempt"))
	h.mu.Lock()
	h.calls = append(h.calls, hook{body.TriggerID, r.Header.Get("Webhook-Id"), attempt, time.Now()})
	h.mu.Unlock()
	status, after := h.answer(r.URL.Host, r.URL.Path, attempt)
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(after):
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// of returns the calls for a trigger.
func (h *hooks) of(key string) (calls []hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.trigger == key {
			calls = append(calls, c)
		}
	}
	return calls
}

// webhookWorld makes a world with an engine and a webhook worker.
func webhookWorld(t *testing.T, h *hooks) *sim.World {
	t.Helper()
	w := sim.New(t, sim.Options{Seed: 1, Channels: []string{webhook.Channel}})
	w.Start("a", func(o *pipeline.Options) {
		o.Channels = hooked{pipelinetest.Channels{Names: w.Names}}
		o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	})
	w.AwaitOwners()
	startHooks(t, w, h)
	return w
}

// startHooks runs a webhook worker until the test ends.
func startHooks(t *testing.T, w *sim.World, h *hooks) {
	t.Helper()
	startHooksWith(t, w, h, func(*webhook.Options) {})
}

func startHooksWith(t *testing.T, w *sim.World, h *hooks, change func(*webhook.Options)) {
	t.Helper()
	o := webhook.Options{
		Kafka: append(w.Kafka(), kgo.DisableClientMetrics()), Policy: new(egress.Policy), Transport: h,
		Kit: []worker.Option{worker.Prefix(w.Names.Prefix)},
	}
	change(&o)
	k, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// emissions counts the due events of each trigger, including copies.
func emissions(w *sim.World) map[string]int {
	n := map[string]int{}
	for _, r := range w.Dump(w.Names.Due(webhook.Channel)) {
		n[string(r.Key)]++
	}
	return n
}

// TestBreakerOpenForAnHour opens a breaker for an hour. Due events behind it must be emitted at
// most 20 times per hour, use up no attempt, and go out once the endpoint answers. Calls to
// another endpoint must stay punctual.
func TestBreakerOpenForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		back := start.Add(65 * time.Minute)
		h := &hooks{answer: func(host, _ string, _ int) (int, time.Duration) {
			if host == "bad.example" && time.Now().Before(back) {
				return 500, time.Millisecond
			}
			return 200, time.Millisecond
		}}
		w := webhookWorld(t, h)
		const bad, good = 1000, 115
		register := func(key, host string, delay time.Duration) {
			w.SendFree(w.Home(key), key, fmt.Sprintf(
				`{"op":"register","delay":"%dms","channel":"webhook","callback":{"url":"https://%s/"}}`,
				delay.Milliseconds(), host))
		}
		for i := range bad {
			register(fmt.Sprintf("bad%d", i), "bad.example", 5*time.Minute-time.Since(start))
		}
		for i := range good {
			register(fmt.Sprintf("good%d", i), "good.example",
				6*time.Minute+time.Duration(i)*30*time.Second-time.Since(start))
		}
		time.Sleep(back.Sub(start))
		repeats := map[string]int{}
		for key, n := range emissions(w) {
			repeats[key] = n - 1
		}
		attempts, most := 0, 0
		for i := range bad {
			key := fmt.Sprintf("bad%d", i)
			attempts, most = max(attempts, len(h.of(key))), max(most, repeats[key])
		}
		if most > 20 {
			t.Errorf("%d re-emissions of one event in an hour, want at most 20", most)
		}
		if attempts > 4 { // of 6: with more, none would be left for a longer outage
			t.Errorf("one event of %d made %d of the attempts that ask whether the endpoint answers", bad, attempts)
		}
		t.Logf("at most %d re-emissions and %d attempts of one event", most, attempts)
		var late []time.Duration
		for i := range good {
			key := fmt.Sprintf("good%d", i)
			calls := h.of(key)
			if len(calls) != 1 || repeats[key] != 0 {
				t.Fatalf("%s: %v, %d re-emissions", key, calls, repeats[key])
			}
			late = append(late, calls[0].at.Sub(start.Add(6*time.Minute+time.Duration(i)*30*time.Second)))
		}
		if worst := slices.Max(late); worst > 200*time.Millisecond {
			t.Errorf("a call to the other endpoint was %v late", worst)
		} else {
			t.Logf("calls to the other endpoint were at most %v late", worst)
		}
		time.Sleep(time.Hour)
		for i := range bad {
			key := fmt.Sprintf("bad%d", i)
			calls := h.of(key)
			if last := calls[len(calls)-1]; last.attempt != len(calls) || last.at.Before(back) {
				t.Fatalf("%s: %v; want one after the endpoint is back, and no attempt used up unsent", key, calls)
			}
		}
		w.CheckInvariants()
	})
}

// TestRetriesRaced sends cancel, erase, replace and snooze before, during and between attempts,
// to the millisecond. After the decision, no attempt of an ended occurrence may begin. Attempts
// must be numbered without gaps, and what continues must be delivered.
func TestRetriesRaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 3 * time.Second // duration of a call
		h := &hooks{answer: func(_, path string, attempt int) (int, time.Duration) {
			if path == "/again" || attempt >= 3 {
				return 200, takes
			}
			return 500, takes
		}}
		w := webhookWorld(t, h)
		const register = `{"op":"register","delay":"1m","channel":"webhook","user_id":"u","callback":` +
			`{"url":"https://a.example/%s","retry":["10s","30s","2m"]}}`
		commands := map[string]string{
			"cancel": `{"op":"cancel"}`, "erase": `{"op":"erase"}`, "snooze": `{"op":"snooze","for":"10m"}`,
			"replace": strings.Replace(fmt.Sprintf(register, "again"), "1m", "10m", 1),
		}
		// The first attempt is at 60 s, its answer at 63 s, the second attempt at 73 s, the third
		// at 106 s.
		moments := []time.Duration{
			59999 * time.Millisecond, time.Minute, 60001 * time.Millisecond, 60010 * time.Millisecond, 61 * time.Second,
			62999 * time.Millisecond, 63 * time.Second, 63001 * time.Millisecond, 63010 * time.Millisecond,
			70 * time.Second, 72990 * time.Millisecond, 73 * time.Second, 73010 * time.Millisecond, 74 * time.Second,
			76010 * time.Millisecond, 90 * time.Second, 106050 * time.Millisecond, 109 * time.Second,
		}
		start := time.Now()
		decided := map[string]time.Time{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for op, command := range commands {
			for i, at := range moments {
				key := fmt.Sprintf("%s-%02d", op, i)
				w.SendFree(w.Home(key), key, fmt.Sprintf(register, "first"))
				all.Go(func() {
					time.Sleep(time.Until(start.Add(at)))
					w.SendFree(w.Home(key), key, command)
					mu.Lock()
					defer mu.Unlock()
					decided[key] = time.Now().Add(time.Second) // decided, and out of the worker's queue
				})
			}
		}
		all.Wait()
		time.Sleep(2 * time.Hour)
		late := map[string]bool{}
		last := map[string]topics.Event{}
		for _, r := range w.Dump(w.Names.Events()) {
			e, err := topics.DecodeEvent(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			last[e.Trigger] = e
			late[e.Trigger] = late[e.Trigger] || e.Reason == "late"
		}
		for key, at := range decided {
			calls := h.of(key)
			attempts := map[string][]int{}
			for _, c := range calls {
				attempts[c.id] = append(attempts[c.id], c.attempt)
			}
			for id, list := range attempts {
				for i, n := range list {
					if n != i+1 {
						t.Errorf("%s %s: attempts %v", key, id, list)
					}
				}
			}
			after := calls[:0:0]
			for _, c := range calls {
				if c.at.After(at) {
					after = append(after, c)
				}
			}
			op, _, _ := strings.Cut(key, "-")
			state := last[key].State
			switch op {
			case "cancel", "erase":
				if len(after) != 0 {
					t.Errorf("%s: called %v after %v", key, after, at)
				}
				want := map[string]string{"cancel": "CANCELLED", "erase": "ERASED"}[op]
				if state != want && state != "FIRED" {
					t.Errorf("%s: %s, want %s", key, state, want)
				}
			case "snooze", "replace":
				if state != "FIRED" {
					t.Errorf("%s: %s, want FIRED; calls %v", key, state, calls)
				}
				if tail := calls[len(calls)-1].at.Sub(at); tail < 9*time.Minute {
					t.Errorf("%s: no call about 10 m after: %v", key, calls)
				}
			}
		}
		w.CheckInvariants()
	})
}

// killer kills a node at the next step of a name, once it is armed and a time has passed.
type killer struct {
	pipeline.NoListener
	kill func()

	mu   sync.Mutex
	step pipeline.Step // "": not armed
	from time.Time
}

func (k *killer) arm(step pipeline.Step, from time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.step, k.from = step, from
}

func (k *killer) armed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.step != ""
}

func (k *killer) Step(_ int32, step pipeline.Step) {
	k.mu.Lock()
	hit := k.step == step && !time.Now().Before(k.from)
	if hit {
		k.step = ""
	}
	k.mu.Unlock()
	if hit {
		k.kill()
	}
}

// TestEngineKilledAtEveryStep kills the engine at each step of the turn that reads the receipt of
// an attempt, and at each step of the turn that emits the next one. Each attempt must be called
// once, with the right number, under one webhook-id, and not before its time.
func TestEngineKilledAtEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait, takes = 40 * time.Second, time.Second
		steps := []pipeline.Step{
			pipeline.StepPoll, pipeline.StepBegin, pipeline.StepApply, pipeline.StepAdvance, pipeline.StepEmit,
			pipeline.StepFlush, pipeline.StepEnd, pipeline.StepCommitted, pipeline.StepStored,
		}
		last := 2*len(steps) + 1
		h := &hooks{answer: func(_, _ string, attempt int) (int, time.Duration) {
			if attempt >= last {
				return 200, takes
			}
			return 500, takes
		}}
		w := sim.New(t, sim.Options{Seed: 1, Partitions: 1, Channels: []string{webhook.Channel}})
		k := &killer{kill: func() { w.Kill("a") }}
		launch := func() {
			w.Start("a", func(o *pipeline.Options) {
				o.Listener = k
				o.Channels = hooked{pipelinetest.Channels{Names: w.Names}}
				o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
			})
			w.AwaitOwners()
		}
		launch()
		startHooks(t, w, h)
		retry := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q,", wait), last), ",")
		w.SendFree(0, "k", `{"op":"register","delay":"1m","channel":"webhook","callback":{"url":"https://a.example/",`+
			`"retry":[`+retry+`]}}`)
		called := func(n int) time.Time {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Minute); len(h.of("k")) < n; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("attempt %d did not come: %v", n, h.of("k"))
				}
			}
			return h.of("k")[n-1].at
		}
		killed := func(step pipeline.Step) {
			t.Helper()
			for deadline := time.Now().Add(5 * time.Minute); k.armed(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("no turn came to step %s", step)
				}
			}
			launch()
		}
		attempt := 1
		for _, step := range steps {
			at := called(attempt)
			k.arm(step, at.Add(takes)) // the turn that reads the receipt
			killed(step)
			at = called(attempt + 1)
			k.arm(step, at.Add(takes+wait-time.Millisecond)) // the turn that emits the next attempt
			killed(step)
			attempt += 2
		}
		called(last)
		time.Sleep(time.Hour)
		before := hook{}
		for i, c := range h.of("k") {
			if c.attempt != i+1 || i > 0 && c.id != before.id {
				t.Errorf("call %d is attempt %d of %s, after %+v", i+1, c.attempt, c.id, before)
			}
			if gap := c.at.Sub(before.at); i > 0 && gap < wait {
				t.Errorf("attempt %d came %v after the one before, want %v", c.attempt, gap, wait)
			}
			before = c
		}
		if before.attempt != last {
			t.Errorf("the last attempt was %d, want %d", before.attempt, last)
		}
		w.CheckInvariants()
	})
}
