package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
)

// wish is what Kafka acknowledged to the world's client for a one-shot.
type wish struct {
	due       time.Time
	cancelled time.Time // when a cancel was acknowledged; zero: never
	astray    bool      // the cancel was sent to a wrong partition: it may come too late, but an event must report it
	doubtful  bool      // may fire or not: its commit got no answer
}

// Register requests one firing, and returns once Kafka has acknowledged.
func (w *World) Register(key string, at time.Time) {
	w.T.Helper()
	w.RegisterOn(w.Home(key), key, at)
}

// RegisterOn is Register on a given partition, as a producer with another hash would send it.
func (w *World) RegisterOn(partition int32, key string, at time.Time) {
	w.T.Helper()
	at = at.Truncate(time.Millisecond)
	w.SendTo(partition, key, fmt.Sprintf(`{"op":"register","fire_at":%q,"payload":%q}`,
		at.UTC().Format(time.RFC3339Nano), key))
	w.wish(key, &wish{due: at})
}

// Cancel cancels a trigger, and returns once Kafka has acknowledged.
func (w *World) Cancel(key string) {
	w.T.Helper()
	w.CancelOn(w.Home(key), key)
}

// CancelOn is Cancel on a given partition.
func (w *World) CancelOn(partition int32, key string) {
	w.T.Helper()
	w.SendTo(partition, key, `{"op":"cancel"}`)
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.wishes[key]; x != nil {
		x.cancelled, x.astray = time.Now(), partition != w.Home(key)
	}
}

// SendFree sends a command for a trigger that only the checker judges.
func (w *World) SendFree(partition int32, key, body string) {
	w.T.Helper()
	w.judgedAlone(key)
	w.SendTo(partition, key, body)
}

// judgedAlone notes that only the checker judges a trigger: there is no wish and no promise.
func (w *World) judgedAlone(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free[key] = true
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

// Flood registers many triggers without waiting for each. Due times and cancels are as for
// Register. It must not be used while the broker fails.
func (w *World) Flood(n int, register func(i int) (key string, at time.Time)) {
	w.T.Helper()
	w.FloodOn(-1, n, register)
}

// FloodOn is Flood on a given partition. -1 means each key's own partition.
func (w *World) FloodOn(partition int32, n int, register func(i int) (key string, at time.Time)) {
	w.T.Helper()
	w.SendAllTo(partition, n, func(i int) (key, body string) {
		key, at := register(i)
		at = at.Truncate(time.Millisecond)
		w.wish(key, &wish{due: at})
		return key, fmt.Sprintf(`{"op":"register","fire_at":%q}`, at.UTC().Format(time.RFC3339Nano))
	})
}

// wish notes what must happen to a one-shot.
func (w *World) wish(key string, x *wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wishes[key] = x
}
