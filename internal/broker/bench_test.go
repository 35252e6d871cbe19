package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkProduce: acknowledged records of 200 bytes a second, acks=all,
// pipelined over 4 partitions by one client.
//
//	go test -run - -bench Produce ./internal/broker
func BenchmarkProduce(b *testing.B) {
	for _, c := range []struct {
		name string
		open func(b *testing.B) string
	}{
		{"broker=ours/sync=true", func(b *testing.B) string { return benchBroker(b, true) }},
		{"broker=ours/sync=false", func(b *testing.B) string { return benchBroker(b, false) }},
		{"broker=kfake/sync=true", func(b *testing.B) string { return benchKfake(b, kfake.SyncWrites()) }},
		{"broker=kfake/sync=false", func(b *testing.B) string { return benchKfake(b) }},
	} {
		for _, linger := range []time.Duration{0, 5 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/linger=%v", c.name, linger),
				func(b *testing.B) { benchProduce(b, c.open(b), linger) })
		}
	}
}

func benchBroker(b *testing.B, sync bool) string {
	br := start(b, b.TempDir(), func(o *Options) { o.Sync = sync })
	create(b, br, "a", 4, "message.timestamp.type", "LogAppendTime")
	return br.Addr()
}

func benchKfake(b *testing.B, opts ...kfake.Opt) string {
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.DataDir(b.TempDir()),
		kfake.SeedTopics(4, "a"))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func benchProduce(b *testing.B, addr string, linger time.Duration) {
	cl := client(b, &Broker{addr: addr}, kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(20_000))
	value := make([]byte, 200)
	var failed atomic.Int64
	n := 0
	for b.Loop() {
		r := &kgo.Record{Topic: "a", Partition: int32(n % 4), Key: []byte("key-000001"), Value: value}
		cl.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
		n++
	}
	if err := cl.Flush(context.Background()); err != nil || failed.Load() > 0 {
		b.Fatal(err, failed.Load())
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkTransaction: transactions a second of ten records of 200 bytes over
// 4 partitions, one after another.
func BenchmarkTransaction(b *testing.B) {
	for _, c := range []struct{ sync, inner bool }{{true, false}, {true, true}, {false, false}} {
		b.Run(fmt.Sprintf("sync=%v,inner=%v", c.sync, c.inner), func(b *testing.B) {
			br := start(b, b.TempDir(), func(o *Options) { o.Sync = c.sync })
			create(b, br, "a", 4, "message.timestamp.type", "LogAppendTime")
			opts := []kgo.Opt{kgo.TransactionalID("x")}
			if c.inner {
				opts = append(opts, kgo.Dialer(br.Dial))
			}
			cl := client(b, br, opts...)
			value := make([]byte, 200)
			ctx := context.Background()
			n := 0
			for b.Loop() {
				if err := cl.BeginTransaction(); err != nil {
					b.Fatal(err)
				}
				for i := range int32(10) {
					cl.Produce(ctx, &kgo.Record{Topic: "a", Partition: i % 4, Key: []byte("key"), Value: value}, nil)
				}
				if err := cl.Flush(ctx); err != nil {
					b.Fatal(err)
				}
				if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "transactions/s")
		})
	}
}
