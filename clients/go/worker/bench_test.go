package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// acks counts acknowledged receipts.
type acks struct {
	NoMetrics
	n atomic.Int64
}

func (a *acks) ReceiptWritten(time.Duration) { a.n.Add(1) }

// BenchmarkRun is a handler that does nothing, with receipts, from a filled
// topic to the last acknowledged receipt, the joining of the group included.
// The cluster (kfake) is in the same process and shares its cores.
func BenchmarkRun(b *testing.B) {
	const events, parts = 100_000, 4
	for _, target := range []int{events, 100} { // record keys
		b.Run(fmt.Sprintf("keys=%d", target), func(b *testing.B) {
			w := newWorld(b, parts)
			dues := make([]due, events)
			for i := range dues {
				dues[i] = due{
					key: fmt.Sprintf("tenant/trigger-%d", i), target: fmt.Sprintf("key-%d", i%target),
					partition: int32(i % parts), value: `{"title":"Take pills","body":"two of the white ones"}`,
				}
			}
			w.write(dues...)
			round := 0
			for b.Loop() {
				round++
				ctx, cancel := context.WithCancel(context.Background())
				a := &acks{}
				done := make(chan error, 1)
				go func() {
					done <- Run(ctx, "print", delivered, Brokers(w.cluster.ListenAddrs()...), WithMetrics(a),
						Group(fmt.Sprintf("round-%d", round)), Topic(dueTopic), Logger(slog.New(slog.DiscardHandler)),
						// Each round handles all: the memory is as full as it gets, and knows none.
						func(o *options) { o.prefix = fmt.Sprintf("round%d.", round); w.create(o.prefix + "receipts") })
				}()
				for a.n.Load() < events {
					time.Sleep(time.Millisecond)
				}
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
