package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// bencher is one run: a producer of registers and a reader of due records.
type bencher struct {
	n        *node
	o        benchOptions
	run      string
	produce  *kgo.Client
	consume  *kgo.Client
	payloads [][]byte
	result   *benchResult
	firstDue time.Time
	lastDue  time.Time
}

func (a *app) measure(ctx context.Context, n *node, o benchOptions, broker string) (*benchResult, error) {
	b := &bencher{n: n, o: o, run: newID(), result: &benchResult{Triggers: o.triggers, Payload: o.payload, Window: o.window.String(),
		Rate: o.rate, Partitions: n.cfg.Topics.Partitions, Broker: broker, Machine: benchMachine{runtime.NumCPU(), runtime.Version(), buildCommit()}}}
	if err := b.connect(); err != nil {
		return nil, err
	}
	defer b.produce.Close()
	defer b.consume.Close()
	if b.o.profile != "" {
		stop, err := startProfile(b.o.profile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	if err := b.raw(ctx); err != nil {
		return nil, fmt.Errorf("raw produce: %w", err)
	}
	cpu := cpuTime()
	read := make(chan error, 1)
	go func() { read <- b.read(ctx) }()
	if err := b.register(ctx); err != nil {
		return nil, err
	}
	if err := <-read; err != nil {
		return nil, err
	}
	b.result.CPUSeconds = (cpuTime() - cpu).Seconds()
	b.result.RSSBytes = peakRSS()
	b.result.Turns, b.result.CommitMS = n.metrics.Turns()
	return b.result, nil
}

func (b *bencher) connect() (err error) {
	b.payloads = benchPayloads(b.o.payload)
	if b.produce, err = benchProducer(b.n); err != nil {
		return err
	}
	b.consume, err = benchConsumer(b.n, "default")
	return err
}

// lead is how long before the first due time registering begins: long enough
// at a rate that this machine is known to reach.
func (b *bencher) lead() time.Duration {
	return 2*time.Second + time.Duration(b.o.triggers)*time.Second/40_000
}

// register sends the registers and waits until the engine has decided all.
func (b *bencher) register(ctx context.Context) error {
	start := time.Now()
	b.firstDue = start.Add(b.lead())
	b.lastDue = b.firstDue.Add(b.o.window)
	if b.o.rate > 0 {
		b.firstDue = start.Add(time.Second)
		b.lastDue = b.firstDue.Add(time.Duration(b.o.triggers) * time.Second / time.Duration(b.o.rate))
	}
	if err := produceAll(ctx, b.produce, b.o.triggers, func(i int) *kgo.Record {
		if b.o.rate > 0 && i%64 == 0 {
			sleepUntil(ctx, start.Add(time.Duration(i)*time.Second/time.Duration(b.o.rate)))
		}
		return b.command(i)
	}); err != nil {
		return err
	}
	if err := awaitDecided(ctx, b.n, int64(b.o.triggers)); err != nil {
		return err
	}
	b.result.RegistersPerS = float64(b.o.triggers) / time.Since(start).Seconds()
	b.result.BytesPerTrigger = b.storeBytes()
	return nil
}

// produceAll produces n records, and returns when all are acknowledged.
func produceAll(ctx context.Context, cl *kgo.Client, n int, record func(int) *kgo.Record) error {
	var failed atomic.Pointer[error]
	for i := range n {
		cl.Produce(ctx, record(i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// raw produces the same registers to a topic that nobody reads, in one
// transaction: what the broker and this machine can do at best.
func (b *bencher) raw(ctx context.Context) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("bench-raw-" + b.run),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchCompression(kgo.NoCompression())}, b.n.kafka...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm, topic := kadm.NewClient(cl), b.n.cfg.Topic("bench-raw")
	if _, err := adm.CreateTopic(ctx, int32(b.n.cfg.Topics.Partitions), -1, nil, topic); err != nil {
		return err
	}
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	b.firstDue = time.Now()
	start := time.Now()
	var last *kgo.Record
	if err := produceAll(ctx, cl, b.o.triggers, func(i int) *kgo.Record {
		last = b.command(i)
		last.Topic = topic
		return last
	}); err != nil {
		return err
	}
	if err := producer.EndTransaction(ctx, cl, kgo.TryCommit, last); err != nil {
		return err
	}
	b.result.RawPerS = float64(b.o.triggers) / time.Since(start).Seconds()
	_, err = adm.DeleteTopics(ctx, topic)
	return err
}

func (b *bencher) command(i int) *kgo.Record {
	key := "bench-" + b.run + "-" + strconv.Itoa(i)
	return &kgo.Record{
		Partition: topics.Partition([]byte(key), int32(b.n.cfg.Topics.Partitions)), Key: []byte(key), Value: b.payloads[i%len(b.payloads)],
		Headers: []kgo.RecordHeader{{Key: "wc-fire-at", Value: strconv.AppendInt(nil, b.due(i).UnixMilli(), 10)}},
	}
}

// due spreads the triggers over the window, in an order that is not theirs.
func (b *bencher) due(i int) time.Time {
	if b.o.rate > 0 {
		return b.firstDue.Add(time.Duration(i) * time.Second / time.Duration(b.o.rate))
	}
	spread := uint64(i) * 11400714819323198485 % uint64(max(b.o.window.Milliseconds(), 1))
	return b.firstDue.Add(time.Duration(spread) * time.Millisecond)
}

func (b *bencher) storeBytes() float64 {
	var bytes, pending int64
	for _, s := range b.n.engine.Partitions() {
		bytes, pending = bytes+s.StoreBytes, pending+s.Pending
	}
	return float64(bytes) / float64(max(pending, 1))
}

// read takes every due record back and judges it.
func (b *bencher) read(ctx context.Context) error {
	late := make([]int64, 0, b.o.triggers)
	seen := make([]bool, b.o.triggers)
	var first, last time.Time
	for len(late) < b.o.triggers {
		pctx, cancel := context.WithTimeout(ctx, patience+b.lead()+b.o.window)
		fs := b.consume.PollFetches(pctx)
		cancel()
		if fs.NumRecords() == 0 {
			break
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		for it := fs.RecordIter(); !it.Done(); {
			b.judge(it.Next(), last, seen, &late)
		}
	}
	b.result.Lost = b.o.triggers - len(late)
	b.result.Lateness = lateOf(late)
	b.result.FiresPerS = float64(len(late)) / max(last.Sub(b.firstDue), time.Millisecond).Seconds()
	b.result.LastOutS = last.Sub(b.lastDue).Seconds()
	return ctx.Err()
}

func (b *bencher) judge(r *kgo.Record, now time.Time, seen []bool, late *[]int64) {
	i, err := strconv.Atoi(string(r.Key[len("bench-")+len(b.run)+1:]))
	if err != nil || i < 0 || i >= len(seen) {
		return
	}
	if seen[i] {
		b.result.Duplicates++
		return
	}
	seen[i] = true
	due := trigger.At(b.due(i))
	if trigger.At(r.Timestamp) < due {
		b.result.Early++
	}
	*late = append(*late, now.UnixMicro()-int64(due)*1000)
}
