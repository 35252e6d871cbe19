package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

func TestDemo(t *testing.T) {
	brokers := cluster(t)
	var once sync.Once
	cancelled := make(chan struct{})
	startEngine(t, brokers, func(key string, command map[string]any) []topics.Event {
		switch command["op"] {
		case "cancel":
			if key == demoSeries {
				once.Do(func() { close(cancelled) })
			}
			return []topics.Event{{Type: "trigger.cancelled", OccurredAt: "2026-11-20T14:00:00.000Z"}}
		case "snooze":
			return []topics.Event{{Type: "occurrence.snoozed", ScheduledAt: "2026-11-20T14:00:05.000Z"}}
		}
		return []topics.Event{
			{Type: "trigger.registered", ScheduledAt: "2026-11-20T14:00:00.000Z"},
			{Type: "occurrence.fired", LatenessMS: ptr(int64(3))},
		}
	})
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Brokers = strings.Split(brokers, ",")
	out, printed := io.Pipe()
	a := newApp(stdio{in: strings.NewReader(""), out: printed, err: io.Discard})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.runDemo(ctx, c); printed.Close() }()

	missing := []string{
		"schedule demo-tea", "snooze   demo-alarm", `"tea is ready", 3 ms late`,
		"occurrence.snoozed   demo-alarm", "trigger.cancelled    demo-meeting",
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if len(missing) > 0 && strings.Contains(lines.Text(), missing[0]) {
			missing = missing[1:]
		}
		if len(missing) == 0 {
			stop() // reading continues, so that nothing blocks on the pipe
		}
	}
	if err := <-ended; err != nil || len(missing) > 0 {
		t.Errorf("the demo ended with %v, and did not show %q", err, missing)
	}
	select {
	case <-cancelled:
	case <-time.After(time.Minute):
		t.Error("the series was not cancelled")
	}
}

// A second demo in the same data directory must not count as a repeat.
func TestDemoRunsTwice(t *testing.T) {
	x, y := demoSteps("one", time.Now()), demoSteps("two", time.Now())
	for i := range x {
		if x[i].wish.Op.String() == "register" &&
			x[i].wish.Fields["idempotency_key"] == y[i].wish.Fields["idempotency_key"] {
			t.Errorf("%s has the same idempotency key in every demo", x[i].wish.Key)
		}
	}
}
