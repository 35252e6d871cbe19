// Command windows counts what fired in each minute, and prints a minute once,
// when it is complete: by the watermarks, and not by waiting long enough. It is
// a plain consumer: it needs neither a state on disk nor our packages.
//
//	waterclock dev
//	go run ./examples/windows -window 10s
//	waterclock schedule tea --in 15s
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const events, watermarks = "waterclock.events", "waterclock.watermarks"

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, comma-separated")
	window := flag.Duration("window", time.Minute, "length of a window")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*brokers, ","), *window); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, brokers []string, window time.Duration) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(events, watermarks),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The ends of transactions take offsets, too. Without them a position stops short of such an end.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, events) // what is below is deleted, and complete
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return err
	}
	w := newWindows(len(starts[events]), window)
	starts.Each(func(o kadm.ListedOffset) { w.partitions[o.Partition].next = o.Offset })
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s/%d: %v", topic, partition, err) // kgo asks further
		})
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			if err := w.take(r); err != nil && failed == nil {
				failed = fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
		})
		if failed != nil {
			return failed
		}
		w.printComplete()
	}
	return nil
}

// windows are what is counted and not complete.
type windows struct {
	length     time.Duration
	counts     map[time.Time]map[string]int // by beginning of the window and channel
	partitions []partition
}

// partition is how far one partition is.
type partition struct {
	next    int64     // offset behind what was read of events
	marks   []mark    // that speak of offsets that are not read yet
	through time.Time // all that was due up to here is counted; zero: not known
}

// mark is the value of a watermark, as far as it matters here.
type mark struct {
	FiredThrough time.Time `json:"fired_through"`
	EventsOffset int64     `json:"events_offset"`
}

// event is the same of an event.
type event struct {
	Type        string    `json:"type"`
	Channel     string    `json:"channel"`
	Step        int       `json:"step"`
	Attempt     int       `json:"attempt"`
	Occurrence  string    `json:"occurrence"`
	FirstFired  time.Time `json:"first_fired_at"`
	OccurredAt  time.Time `json:"occurred_at"`
	LatenessMS  int64     `json:"lateness_ms"`
	EffectiveAt time.Time `json:"effective_at"`
}

// time is what watermarks speak of.
func (e *event) time() time.Time {
	if !e.EffectiveAt.IsZero() {
		return e.EffectiveAt
	}
	return e.OccurredAt.Add(-time.Duration(e.LatenessMS) * time.Millisecond)
}

// isFirst says that an occurrence of the plan went out for the first time: no further step, retry,
// snooze or run. What was postponed goes out again as the same attempt.
func (e *event) isFirst() bool {
	return e.Step == 0 && e.Attempt == 1 && (e.FirstFired.IsZero() || e.FirstFired.Equal(e.OccurredAt)) &&
		!strings.HasPrefix(e.Occurrence, "snz-") && !strings.HasPrefix(e.Occurrence, "run-")
}

func newWindows(partitions int, length time.Duration) *windows {
	return &windows{
		length: length, counts: map[time.Time]map[string]int{}, partitions: make([]partition, partitions),
	}
}

// take reads one record of either topic. Partition p of watermarks speaks of partition p of events.
func (w *windows) take(r *kgo.Record) error {
	p := &w.partitions[r.Partition]
	switch {
	case r.Topic == events:
		p.next = r.Offset + 1
		if err := w.count(r); err != nil {
			return err
		}
	case r.Attrs.IsControl():
	case r.Value == nil: // what was said before does not hold any more
		p.marks, p.through = nil, time.Time{}
	default:
		var m mark
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return err
		}
		p.marks = append(p.marks, m)
	}
	for len(p.marks) > 0 && p.marks[0].EventsOffset <= p.next {
		p.through, p.marks = p.marks[0].FiredThrough, p.marks[1:]
	}
	return nil
}

func (w *windows) count(r *kgo.Record) error {
	if r.Attrs.IsControl() || !bytes.Contains(r.Value, []byte(`"occurrence.fired"`)) {
		return nil
	}
	var e event
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return err
	}
	if e.Type != "occurrence.fired" || !e.isFirst() {
		return nil // no watermark covers it
	}
	at := e.time().Truncate(w.length)
	if w.counts[at] == nil {
		w.counts[at] = map[string]int{}
	}
	w.counts[at][e.Channel]++
	return nil
}

// printComplete prints every window that ends at or before what all partitions have fired through.
func (w *windows) printComplete() {
	through := time.UnixMilli(math.MaxInt32 * 1000)
	for _, p := range w.partitions {
		if p.through.Before(through) {
			through = p.through
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(w.counts), time.Time.Compare) {
		if last := at.Add(w.length - time.Millisecond); last.After(through) {
			return
		}
		for _, channel := range slices.Sorted(maps.Keys(w.counts[at])) {
			fmt.Printf("%s %s %d\n", at.UTC().Format(time.RFC3339), channel, w.counts[at][channel])
		}
		delete(w.counts, at)
	}
}
