package sinktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	topic = "waterclock.events"

	// LogPartitions is the number of partitions of a Log.
	LogPartitions = 3
)

// Log is an events topic to which a test writes like an engine: in transactions, with one
// event_us clock per partition.
type Log struct {
	t       testing.TB
	brokers []string
	client  *kgo.Client
	clock   int64
	seq     map[string]int64
	Events  int // committed and decodable
	on      [LogPartitions]int
}

// NewLog starts a broker for one test.
func NewLog(t testing.TB) *Log {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(LogPartitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := &Log{t: t, brokers: c.ListenAddrs(), clock: time.Now().Add(-time.Hour).UnixMicro(), seq: map[string]int64{}}
	l.client, err = kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.DefaultProduceTopic(topic),
		kgo.TransactionalID("engine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.Close)
	return l
}

// Kafka returns the client options to connect to the log.
func (l *Log) Kafka() []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(l.brokers...)} }

// Event returns the next event of a trigger.
func (l *Log) Event(key string, f trigger.FactType, state trigger.Status, due time.Time) topics.Event {
	l.clock += 1000
	l.seq[key]++
	e := topics.Event{
		Type: string(f), Version: 1, Trigger: key, Tenant: trigger.Key(key).Tenant(), Revision: 1, Seq: l.seq[key],
		EventUS: l.clock, OccurredAt: trigger.Instant(l.clock / 1000).String(), Channel: "push", State: state.String(),
	}
	e.EventID = topics.EventID(topics.Partition([]byte(key), LogPartitions), e.EventUS)
	if !due.IsZero() {
		e.ScheduledAt = trigger.At(due).String()
	}
	return e
}

// Lives returns the events of n triggers, each registered, fired and delivered.
func (l *Log) Lives(prefix string, n int) (all []topics.Event) {
	due := time.Now().Add(time.Hour)
	for i := range n {
		k := fmt.Sprintf("%s-%d", prefix, i)
		all = append(all, l.Event(k, trigger.Registered, trigger.Pending, due),
			l.Event(k, trigger.OccurrenceFired, trigger.InFlight, due),
			l.Event(k, trigger.DeliveryDelivered, trigger.Fired, time.Time{}))
	}
	return all
}

// Write commits events in one transaction, or aborts it.
func (l *Log) Write(end kgo.TransactionEndTry, events ...topics.Event) {
	l.t.Helper()
	var records []*kgo.Record
	for _, e := range events {
		value, err := json.Marshal(e)
		if err != nil {
			l.t.Fatal(err)
		}
		records = append(records, &kgo.Record{Key: []byte(e.Trigger), Value: value})
	}
	if end == kgo.TryCommit {
		l.Events += len(events)
		for _, e := range events {
			l.on[topics.Partition([]byte(e.Trigger), LogPartitions)]++
		}
	}
	l.WriteRaw(end, records...)
}

// EventsOn counts the events on a partition, or on all others.
func (l *Log) EventsOn(partition int32, there bool) int {
	if there {
		return l.on[partition]
	}
	return l.Events - l.on[partition]
}

// WriteRaw is Write for records that need not be events.
func (l *Log) WriteRaw(end kgo.TransactionEndTry, records ...*kgo.Record) {
	l.t.Helper()
	ctx := context.Background()
	err := l.client.BeginTransaction()
	if err == nil {
		err = l.client.ProduceSync(ctx, records...).FirstErr()
	}
	if err == nil {
		err = producer.EndTransaction(ctx, l.client, end, records...)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// Trim removes all records so far, as retention does.
func (l *Log) Trim() {
	l.t.Helper()
	admin := kadm.NewClient(l.client)
	ends, err := admin.ListEndOffsets(context.Background(), topic)
	if err == nil {
		_, err = admin.DeleteRecords(context.Background(), ends.Offsets())
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// Committed returns the sum of a group's offsets, and the sum of the log's ends.
func (l *Log) Committed(group string) (at, end int64) {
	l.t.Helper()
	client, err := kgo.NewClient(l.Kafka()...)
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	offsets, err := admin.FetchOffsets(context.Background(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		l.t.Fatal(err)
	}
	offsets.Each(func(o kadm.OffsetResponse) { at += o.At })
	ends, err := admin.ListEndOffsets(context.Background(), topic)
	if err != nil {
		l.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { end += o.Offset })
	return at, end
}

// Rows counts the rows of events.
func Rows(t testing.TB, s sinks.Scanner) (n int) {
	t.Helper()
	err := s.Scan(context.Background(), sinks.TableEvents, func(sinks.Row) error { n++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Project runs a projector until done returns true. It fails after 5 minutes.
func Project(t testing.TB, s sinks.Writer, o sinks.Options, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	applied := make(chan struct{}, 1)
	seen := o.Hooks.Applied
	o.Hooks.Applied = func(n int, d time.Duration) {
		if seen != nil {
			seen(n, d)
		}
		select {
		case applied <- struct{}{}:
		default:
		}
	}
	o.RetryMin, o.RetryMax = time.Millisecond, 10*time.Millisecond
	p, err := sinks.NewProjector(s, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for !done() {
		select {
		case <-applied:
		case <-time.After(100 * time.Millisecond): // done may depend on more than this projector
		case err := <-ended:
			t.Fatalf("the projector ended: %v", err)
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("run: %v", err)
	}
}
