package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// benchOptions are the flags of bench (CONTRACT section 9).
type benchOptions struct {
	triggers int
	payload  int
	window   time.Duration
	rate     int
	json     bool
	sync     bool
	profile  string
}

func newBench(a *app) *cobra.Command {
	o := benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure registers/s, fires/s and lateness, on the embedded broker or yours",
		Long: `Measure registers per second, fires per second and lateness. An engine of its
own runs in this process, against the embedded broker in a temporary directory,
or against --brokers under topics of its own (prefix waterclock-bench-<n>.).
Every due record is read back by a read_committed consumer; lateness is from
the due time to the moment that consumer has the record.

Without --rate all triggers are registered first and fall due over --window
(0s: at one instant). With --rate they are registered at that rate, each due a
second later, so that registers and fires run side by side.`,
		Example: "  waterclock bench --triggers 200000 --window 10s\n  waterclock bench --triggers 600000 --rate 20000 --json\n  waterclock bench --triggers 1000000 --window 0s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(true)
			if err != nil {
				return err
			}
			own := !cmd.Flags().Changed("brokers")
			return a.runBench(cmd.Context(), c, o, own)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.triggers, "triggers", 200_000, "how many triggers")
	f.IntVar(&o.payload, "payload", 200, "payload `bytes` of each, incompressible")
	f.DurationVar(&o.window, "window", 10*time.Second, "time over which they fall due; 0s is one instant")
	f.IntVar(&o.rate, "rate", 0, "registers per second, each due one second later; 0 registers all first")
	f.BoolVar(&o.json, "json", false, "print JSON, as -o json")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to `file`")
	f.BoolVar(&o.sync, "sync", true, "embedded broker: acknowledge only what is on stable storage")
	cmd.AddCommand(newBenchHTTP(a), newBenchFairness(a))
	return cmd
}

// benchResult is what bench prints.
type benchResult struct {
	Triggers        int          `json:"triggers"`
	Payload         int          `json:"payload"`
	Window          string       `json:"window"`
	Rate            int          `json:"rate,omitempty"`
	Broker          string       `json:"broker"`
	Partitions      int          `json:"partitions"`
	RawPerS         float64      `json:"raw_per_s"` // the same registers, produced to a topic nobody reads
	RegistersPerS   float64      `json:"registers_per_s"`
	FiresPerS       float64      `json:"fires_per_s"`
	Lateness        benchLate    `json:"lateness_ms"`
	LastOutS        float64      `json:"last_out_s"` // from the last due time to the last record read
	CPUSeconds      float64      `json:"cpu_seconds"`
	RSSBytes        int64        `json:"rss_bytes"`
	BytesPerTrigger float64      `json:"bytes_per_trigger"` // of the store, with all of them pending
	Turns           int64        `json:"turns"`
	CommitMS        float64      `json:"commit_ms"` // mean duration of EndTransaction and the store's batch
	Duplicates      int          `json:"duplicates"`
	Lost            int          `json:"lost"`
	Early           int          `json:"early"`
	Machine         benchMachine `json:"machine"`
}

type benchLate struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type benchMachine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
}

func (a *app) runBench(ctx context.Context, c *config.Config, o benchOptions, embedded bool) error {
	return a.withBenchNode(ctx, c, embedded, o.sync, func(n *node, broker string) error {
		r, err := a.measure(ctx, n, o, broker)
		if err != nil {
			return err
		}
		return a.printBench(r, o)
	})
}

// withBenchNode runs f beside an engine of its own, on the embedded broker in a
// temporary directory or on the brokers that are set, and topics of its own.
func (a *app) withBenchNode(ctx context.Context, c *config.Config, embedded, sync bool, f func(n *node, broker string) error) error {
	dir, err := os.MkdirTemp("", "waterclock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.DataDir = dir
	c.Log.Level = "warn"
	name := "kafka"
	if embedded {
		name = "embedded"
		b, err := broker.Start(ctx, broker.Options{Dir: filepath.Join(dir, "broker"), Listen: "127.0.0.1:0", Sync: sync, Logger: a.log(c)})
		if err != nil {
			return err
		}
		defer b.Close()
		c.Brokers = []string{b.Addr()}
	} else {
		c.Topics.Prefix = "waterclock-bench-" + newID() + "."
		c.Group = c.Topics.Prefix + "engine"
	}
	n, err := newNode(c, a.log(c), true)
	if err != nil {
		return err
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openEngine(); err != nil {
		return err
	}
	life := newLife()
	defer life.end()
	life.start("engine", n.engine.Run)
	if err := n.awaitReady(ctx, life); err != nil {
		return err
	}
	return f(n, name)
}

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
	var failed atomic.Pointer[error]
	for i := range b.o.triggers {
		if b.o.rate > 0 && i%64 == 0 {
			sleepUntil(ctx, start.Add(time.Duration(i)*time.Second/time.Duration(b.o.rate)))
		}
		b.produce.Produce(ctx, b.command(i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := b.produce.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	if err := awaitDecided(ctx, b.n, int64(b.o.triggers)); err != nil {
		return err
	}
	b.result.RegistersPerS = float64(b.o.triggers) / time.Since(start).Seconds()
	b.result.BytesPerTrigger = b.storeBytes()
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
	for i := range b.o.triggers {
		r := b.command(i)
		r.Topic = topic
		cl.Produce(ctx, r, nil)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
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

func (a *app) printBench(r *benchResult, o benchOptions) error {
	if o.json {
		a.out.format = "json"
	}
	row := func(k, format string, v ...any) [2]string { return [2]string{k, fmt.Sprintf(format, v...)} }
	return a.out.record(r, [][2]string{
		row("broker", "%s, %d partitions", r.Broker, r.Partitions), row("triggers", "%d of %d B payload", r.Triggers, r.Payload),
		row("raw produce/s", "%.0f", r.RawPerS), row("registers/s", "%.0f (%.2f of raw)", r.RegistersPerS, r.RegistersPerS/r.RawPerS), row("fires/s", "%.0f (%.2f of raw)", r.FiresPerS, r.FiresPerS/r.RawPerS),
		row("lateness p50/p99/max", "%.1f / %.1f / %.1f ms", r.Lateness.P50, r.Lateness.P99, r.Lateness.Max),
		row("last out after last due", "%.2f s", r.LastOutS), row("CPU", "%.1f s", r.CPUSeconds), row("peak RSS", "%d MB", r.RSSBytes>>20),
		row("turns", "%d, commit %.1f ms", r.Turns, r.CommitMS),
		row("store bytes/trigger", "%.0f", r.BytesPerTrigger), row("lost/doubled/early", "%d / %d / %d", r.Lost, r.Duplicates, r.Early),
	})
}
