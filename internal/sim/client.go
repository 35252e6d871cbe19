package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// wish is what the world's client was acknowledged about one one-shot.
type wish struct {
	due       time.Time
	cancelled time.Time // when a cancel was acknowledged; zero: none
	astray    bool      // the cancel stood on a wrong partition: it may come too late, but must be told
	doubtful  bool      // may fire or not: its commit was not answered
}

// Register asks for one firing and returns once Kafka has acknowledged.
func (w *World) Register(key string, at time.Time) {
	w.T.Helper()
	w.RegisterOn(topics.Partition([]byte(key), w.P), key, at)
}

// RegisterOn is Register on a partition of the caller's choice, as a producer
// with another hash would.
func (w *World) RegisterOn(partition int32, key string, at time.Time) {
	w.T.Helper()
	at = at.Truncate(time.Millisecond)
	w.Send(&kgo.Record{Topic: w.Names.Commands(), Partition: partition, Key: []byte(key),
		Value: fmt.Appendf(nil, `{"op":"register","fire_at":%q,"payload":%q}`, at.UTC().Format(time.RFC3339Nano), key)})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wishes[key] = &wish{due: at}
}

// Cancel takes a register back and returns once Kafka has acknowledged.
func (w *World) Cancel(key string) {
	w.T.Helper()
	w.CancelOn(topics.Partition([]byte(key), w.P), key)
}

// CancelOn is Cancel on a partition of the caller's choice.
func (w *World) CancelOn(partition int32, key string) {
	w.T.Helper()
	w.Send(&kgo.Record{Topic: w.Names.Commands(), Partition: partition, Key: []byte(key), Value: []byte(`{"op":"cancel"}`)})
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.wishes[key]; x != nil {
		x.cancelled, x.astray = time.Now(), partition != topics.Partition([]byte(key), w.P)
	}
}

// Send appends a record, again and again until it is acknowledged: faults of
// the broker may fail a producer for good, then a new one takes over.
func (w *World) Send(r *kgo.Record) {
	w.T.Helper()
	for range 600 {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		w.mu.Lock()
		cl := w.client
		w.mu.Unlock()
		copied := *r
		err := cl.ProduceSync(ctx, &copied).FirstErr()
		cancel()
		if err == nil {
			*r = copied
			return
		}
		next := w.Client()
		w.mu.Lock()
		w.client = next
		w.mu.Unlock()
		cl.Close()
		time.Sleep(100 * time.Millisecond)
	}
	w.T.Fatalf("send %s: never acknowledged", r.Key)
}

// Flood registers many without waiting for each; due and cancels are as for
// Register. It must not be used while the broker fails.
func (w *World) Flood(n int, register func(i int) (key string, at time.Time)) {
	w.T.Helper()
	for i := range n {
		key, at := register(i)
		at = at.Truncate(time.Millisecond)
		w.client.Produce(context.Background(), &kgo.Record{Topic: w.Names.Commands(), Partition: topics.Partition([]byte(key), w.P), Key: []byte(key),
			Value: fmt.Appendf(nil, `{"op":"register","fire_at":%q}`, at.UTC().Format(time.RFC3339Nano))}, func(r *kgo.Record, err error) {
			if err != nil {
				w.T.Errorf("flood %s: %v", r.Key, err)
			}
		})
		w.wishes[key] = &wish{due: at}
	}
	if err := w.client.Flush(context.Background()); err != nil {
		w.T.Fatalf("flood: %v", err)
	}
}
