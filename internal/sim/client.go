package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
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
		if err == nil {
			cancel()
			*r = copied
			w.acknowledged(r)
			return
		}
		if next, err := w.Producer(ctx); err == nil {
			w.mu.Lock()
			w.client = next
			w.mu.Unlock()
			cl.Close()
		}
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
	w.T.Fatalf("send %s: never acknowledged", r.Key)
}

// acknowledged notes a command for the checker.
func (w *World) acknowledged(r *kgo.Record) {
	if r.Topic != w.Names.Commands() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, check.Ack{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: r.Value})
}

// Flood registers many without waiting for each; due and cancels are as for
// Register. It must not be used while the broker fails.
func (w *World) Flood(n int, register func(i int) (key string, at time.Time)) {
	w.T.Helper()
	w.FloodOn(-1, n, register)
}

// FloodOn is Flood on a partition of the caller's choice; -1 is each key's own.
func (w *World) FloodOn(partition int32, n int, register func(i int) (key string, at time.Time)) {
	w.T.Helper()
	for i := range n {
		key, at := register(i)
		at = at.Truncate(time.Millisecond)
		on := partition
		if on < 0 {
			on = topics.Partition([]byte(key), w.P)
		}
		w.client.Produce(context.Background(), &kgo.Record{Topic: w.Names.Commands(), Partition: on, Key: []byte(key),
			Value: fmt.Appendf(nil, `{"op":"register","fire_at":%q}`, at.UTC().Format(time.RFC3339Nano))}, func(r *kgo.Record, err error) {
			if err != nil {
				w.T.Errorf("flood %s: %v", r.Key, err)
				return
			}
			w.acknowledged(r)
		})
		w.wishes[key] = &wish{due: at}
	}
	if err := w.client.Flush(context.Background()); err != nil {
		w.T.Fatalf("flood: %v", err)
	}
}
