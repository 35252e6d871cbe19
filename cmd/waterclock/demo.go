package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// demoStep is one command of the demo, and the time after the start at which to write it.
type demoStep struct {
	after time.Duration
	wish  wish
	says  string // an explanation for the person who watches
}

// demoSteps returns the commands of a demo that begins now. Each run has its own idempotency key,
// so that a second demo in the same data directory does not count as a duplicate.
func demoSteps(run string, now time.Time) []demoStep {
	register := func(key, says string, when map[string]any) demoStep {
		when["payload"], when["idempotency_key"] = map[string]any{"say": says}, run
		when["user_id"] = demoUser
		return demoStep{wish: wish{Key: key, Op: trigger.OpRegister, Fields: when}, says: says}
	}
	return []demoStep{
		register("demo-tea", "tea is ready", map[string]any{"delay": "2s"}),
		register("demo-pizza", "take the pizza out", map[string]any{"delay": "4s"}),
		register("demo-alarm", "wake up", map[string]any{"delay": "3s"}),
		register("demo-meeting", "you will never hear this", map[string]any{"delay": "6s"}),
		// So that somebody who asks the data what was late gets an answer.
		register("demo-bus", "the bus left 5 minutes ago",
			map[string]any{"fire_at": now.Add(-5 * time.Minute).UTC().Format(time.RFC3339)}),
		register(demoSeries, "drink some water", map[string]any{"recurrence": "cron:* * * * *"}),
		{1 * time.Second, wish{"demo-alarm", trigger.OpSnooze, map[string]any{"for": "5s"}}, "five more seconds"},
		{1500 * time.Millisecond, wish{"demo-meeting", trigger.OpCancel, map[string]any{}}, "it was cancelled"},
	}
}

// demoUser is who all of it is for: somebody to look for in the console.
const demoUser = "demo-user"

// demoSeries is a series without an end, so the demo cancels it at the end.
const demoSeries = "demo-water"

// runDemo schedules a few triggers through Kafka, as any client would. It prints their events
// from the event log until ctx ends.
func (a *app) runDemo(ctx context.Context, c *config.Config) error {
	to, err := newKafkaCommander(ctx, a, c, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	reader, err := a.demoReader(ctx, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	steps := demoSteps(node.NewID(), time.Now())
	a.demoTitle(steps)
	written := make(chan error, 1)
	go func() { written <- writeDemo(ctx, to, steps) }()
	err = a.showDemo(ctx, reader, steps)
	if failed := <-written; err == nil {
		err = failed
	}
	endDemo(to)
	return err
}

// demoReader starts at the end of the event log.
func (a *app) demoReader(ctx context.Context, c *config.Config) (*kgo.Client, error) {
	cl, err := a.kafka(ctx, c, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second))
	if err != nil {
		return nil, err
	}
	f := &tailFlags{partition: -1}
	from, err := f.span(ctx, kadm.NewClient(cl), []string{c.Topic("events")})
	if err != nil {
		cl.Close()
		return nil, err
	}
	cl.AddConsumePartitions(from.start)
	return cl, nil
}

func (a *app) demoTitle(steps []demoStep) {
	fmt.Fprintln(a.io.out, "\nDemo, through Kafka:")
	for _, s := range steps {
		switch s.wish.Op {
		case trigger.OpRegister:
			when := cmp.Or(s.wish.Fields["delay"], s.wish.Fields["fire_at"], s.wish.Fields["recurrence"])
			fmt.Fprintf(a.io.out, "  schedule %-13s %-20s %s\n", s.wish.Key, when, s.says)
		default:
			fmt.Fprintf(a.io.out, "  %-8s %-13s after %-14s %s\n", s.wish.Op, s.wish.Key, s.after, s.says)
		}
	}
	fmt.Fprintln(a.io.out)
}

// writeDemo writes each command at its time.
func writeDemo(ctx context.Context, to commander, steps []demoStep) error {
	began := time.Now()
	for _, s := range steps {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(began.Add(s.after))):
		}
		if _, err := to.Do(ctx, s.wish); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// showDemo prints a line for each event of the demo's triggers.
func (a *app) showDemo(ctx context.Context, reader *kgo.Client, steps []demoStep) error {
	says := map[string]string{}
	for _, s := range steps {
		if s.wish.Op == trigger.OpRegister {
			says[s.wish.Key] = s.says
		}
	}
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read the event log: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var e topics.Event
			if says[string(r.Key)] != "" && json.Unmarshal(r.Value, &e) == nil {
				fmt.Fprintln(a.io.out, clean(demoLine(&e, says[e.Trigger])))
			}
		})
	}
}

// demoLine describes an event for a person who is new to Waterclock.
func demoLine(e *topics.Event, says string) string {
	at, tail := e.OccurredAt, ""
	if t, err := time.Parse(time.RFC3339, e.OccurredAt); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceFired:
		late := int64(0)
		if e.LatenessMS != nil {
			late = *e.LatenessMS
		}
		tail = fmt.Sprintf("%q, %s late", says, explain.Took(time.Duration(late)*time.Millisecond))
	case trigger.Registered, trigger.Replaced, trigger.Snoozed:
		tail = "for " + e.ScheduledAt
	}
	return fmt.Sprintf("  %s  %-20s %-13s %s", at, e.Type, e.Trigger, tail)
}

// endWithin bounds the time for the final cancel.
const endWithin = 2 * time.Second

// endDemo cancels the series, which would otherwise fire for ever. If the cancel fails, the demo
// still succeeds.
func endDemo(to commander) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	_, _ = to.Do(ctx, wish{Key: demoSeries, Op: trigger.OpCancel, Fields: map[string]any{}})
}
