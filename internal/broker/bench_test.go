package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// BenchmarkRestart: how long clients wait for a restart in place of 8 partitions with 64 MiB of state each, a tenth of
// it the newest of its key: without compaction, with copies that were made before, and compacting.
//
//	go test -run - -bench Restart -benchtime 1x ./internal/broker
func BenchmarkRestart(b *testing.B) {
	for _, name := range []string{"only", "copies", "compacting"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				br := start(b, b.TempDir(), func(o *Options) { o.CompactBytes, o.RetentionInterval = 1<<20, -1 })
				fillState(b, br, 8, 64<<20)
				copies := map[floorKey]*ahead{}
				begun := time.Now()
				switch name {
				case "copies":
					g, err := br.retainOnce(time.Now())
					if err == nil {
						copies, err = br.compactAhead(b.Context(), g.parts)
					}
					if err != nil {
						b.Fatal(err)
					}
				case "compacting":
					copies = nil
				}
				before := time.Since(begun)
				begun = time.Now()
				if err := br.restart(b.Context(), copies); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms_away")
				b.ReportMetric(float64(before.Milliseconds()), "ms_before")
				b.ReportMetric(0, "ns/op")
				stop(b, br)
			}
		})
	}
}

// fillState writes about bytes to each partition of a compacted topic, in batches of a hundred records with random
// values, ten for each key.
func fillState(b *testing.B, br *Broker, partitions int32, bytes int) {
	create(b, br, "state", partitions, "cleanup.policy", "compact")
	cl := client(b, br, kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	rnd := rand.NewChaCha8([32]byte{})
	const size = 250
	n := bytes / size
	for i := range n {
		for p := range partitions {
			value := make([]byte, size)
			_, _ = rnd.Read(value)
			r := &kgo.Record{Topic: "state", Partition: p, Key: fmt.Append(nil, "tenant/", i%(n/10)), Value: value}
			cl.Produce(b.Context(), r, nil)
		}
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
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
