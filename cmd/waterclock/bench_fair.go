package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// fairOptions are the flags of bench fairness.
type fairOptions struct {
	herd    int
	probes  int
	payload int
	json    bool
	profile string
}

func newBenchFairness(a *app) *cobra.Command {
	o := fairOptions{}
	cmd := &cobra.Command{
		Use:   "fairness",
		Short: "Measure how late others are beside one tenant's herd",
		Long: `Measure how late others are while one tenant has a herd due at one instant: the
triggers of another tenant, and those of priority high, due one millisecond
after the herd and then for as long as it lasts. The engine runs as in bench.
Lateness is from the due time to the moment a read_committed consumer of the
probes' own channel has the record. The same probes are measured alone first.`,
		Example: "  waterclock bench fairness\n  waterclock bench fairness --herd 200000 --brokers kafka-1:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := a.config(true)
			if err != nil {
				return err
			}
			allowPayload(c, o.payload)
			var r *fairResult
			err = a.withBenchNode(cmd.Context(), c, !cmd.Flags().Changed("brokers"), true, func(n *node, broker string) error {
				r, err = measureFairness(cmd.Context(), n, o)
				if r != nil {
					r.Broker = broker
				}
				return err
			})
			if err != nil {
				return err
			}
			return a.printFair(r, o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.herd, "herd", 1_000_000, "triggers of one tenant, due at one instant")
	f.IntVar(&o.probes, "probes", 1000, "triggers of each kind due one millisecond later, and as many over the seconds after")
	f.IntVar(&o.payload, "payload", 200, "payload `bytes` of each, incompressible")
	f.BoolVar(&o.json, "json", false, "print JSON, as -o json")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to `file`")
	return cmd
}

func (o *fairOptions) check() error {
	return errors.Join(within("herd", o.herd, 1, benchTriggers), within("probes", o.probes, 1, 1_000_000), benchPayload(o.payload))
}

// fairResult is what bench fairness prints. Times are in milliseconds.
type fairResult struct {
	Herd       int    `json:"herd"`
	Probes     int    `json:"probes"`
	Payload    int    `json:"payload"`
	Broker     string `json:"broker"`
	Partitions int    `json:"partitions"`

	AloneOther fairLate `json:"alone_other"` // no herd
	AloneHigh  fairLate `json:"alone_high"`
	Other      fairLate `json:"other"` // another tenant's, due 1 ms after the herd
	High       fairLate `json:"high"`
	LaterOther fairLate `json:"later_other"` // over the seconds after
	LaterHigh  fairLate `json:"later_high"`

	HerdOutS   float64      `json:"herd_out_s"` // until the last of the herd was read
	CPUSeconds float64      `json:"cpu_seconds"`
	RSSBytes   int64        `json:"rss_bytes"`
	Machine    benchMachine `json:"machine"`
}

type fairLate struct {
	benchLate
	Lost int `json:"lost"`
}

// The probes are spread over so long after the first.
const laterFor = 3 * time.Second

// probe kinds, as they stand in a probe's key.
var probeKinds = [...]string{"other", "high", "laterother", "laterhigh"}

// fairBench is one run: tenants herd and other, and a channel for the probes.
type fairBench struct {
	n       *node
	o       fairOptions
	run     string
	produce *kgo.Client
	payload [][]byte
	result  *fairResult
	sent    int64 // commands, all told
}

func measureFairness(ctx context.Context, n *node, o fairOptions) (*fairResult, error) {
	f := &fairBench{n: n, o: o, run: newID(), result: &fairResult{Herd: o.herd, Probes: o.probes, Payload: o.payload,
		Partitions: n.cfg.Topics.Partitions, Machine: benchMachine{runtime.NumCPU(), runtime.Version(), buildCommit()}}}
	f.payload = benchPayloads(o.payload)
	var err error
	if f.produce, err = benchProducer(n); err != nil {
		return nil, err
	}
	defer f.produce.Close()
	if err := f.warm(ctx); err != nil {
		return nil, err
	}
	alone, err := f.round(ctx, "alone", 0)
	if err != nil {
		return nil, err
	}
	f.result.AloneOther, f.result.AloneHigh = alone[0], alone[1]
	if o.profile != "" {
		stop, err := startProfile(o.profile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	cpu := cpuTime()
	crowded, err := f.round(ctx, "crowd", o.herd)
	if err != nil {
		return nil, err
	}
	f.result.Other, f.result.High, f.result.LaterOther, f.result.LaterHigh = crowded[0], crowded[1], crowded[2], crowded[3]
	f.result.CPUSeconds, f.result.RSSBytes = (cpuTime() - cpu).Seconds(), peakRSS()
	return f.result, nil
}

// warm makes the probes' channel: its topic comes with the first fire.
func (f *fairBench) warm(ctx context.Context) error {
	due := time.Now()
	for i := range 16 * f.n.cfg.Topics.Partitions {
		f.send(ctx, "other/warm-"+f.run+"-"+strconv.Itoa(i), due, "probe", "normal", i)
	}
	if err := f.produce.Flush(ctx); err != nil {
		return err
	}
	if err := awaitDecided(ctx, f.n, f.sent); err != nil {
		return err
	}
	sleepUntil(ctx, time.Now().Add(2*time.Second))
	return ctx.Err()
}

// round registers a herd and the probes, and reads both.
func (f *fairBench) round(ctx context.Context, name string, herd int) ([len(probeKinds)]fairLate, error) {
	var out [len(probeKinds)]fairLate
	due := time.Now().Add(6*time.Second + time.Duration(herd)*time.Second/25_000).Truncate(time.Millisecond)
	probes, err := f.follow(ctx, "probe")
	if err != nil {
		return out, err
	}
	defer probes.Close()
	others, err := f.follow(ctx, "default")
	if err != nil {
		return out, err
	}
	defer others.Close()
	f.registerRound(ctx, name, herd, due)
	if err := f.produce.Flush(ctx); err != nil {
		return out, err
	}
	if err := awaitDecided(ctx, f.n, f.sent); err != nil {
		return out, err
	}
	if late := time.Since(due); late > 0 {
		return out, fmt.Errorf("registering took %v too long: this machine is too slow now; try a smaller --herd", late)
	}
	counted := make(chan time.Time, 1)
	go func() { counted <- f.count(ctx, others, herd) }()
	out, err = f.readProbes(ctx, probes, name, due)
	if last := <-counted; herd > 0 {
		f.result.HerdOutS = last.Sub(due).Seconds()
	}
	return out, err
}

// registerRound sends the herd and the probes of a round, in no order of theirs.
func (f *fairBench) registerRound(ctx context.Context, name string, herd int, due time.Time) {
	for i := range herd {
		f.send(ctx, "herd/"+f.run+"-"+name+"-"+strconv.Itoa(i), due, "default", "normal", i)
	}
	for kind, label := range probeKinds {
		priority := "normal"
		if strings.HasSuffix(label, "high") {
			priority = "high"
		}
		for i := range f.o.probes {
			key := "other/" + f.run + "-" + name + "-" + label + "-" + strconv.Itoa(i)
			f.send(ctx, key, due.Add(f.after(kind, i)), "probe", priority, i)
		}
	}
}

// after is how long after the herd a probe is due.
func (f *fairBench) after(kind, i int) time.Duration {
	if kind < 2 {
		return time.Millisecond
	}
	return time.Millisecond + laterFor*time.Duration(i+1)/time.Duration(f.o.probes)
}

func (f *fairBench) send(ctx context.Context, key string, due time.Time, channel, priority string, i int) {
	f.sent++
	f.produce.Produce(ctx, &kgo.Record{
		Partition: topics.Partition([]byte(key), int32(f.n.cfg.Topics.Partitions)), Key: []byte(key), Value: f.payload[i%len(f.payload)],
		Headers: []kgo.RecordHeader{{Key: "wc-fire-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
			{Key: "wc-channel", Value: []byte(channel)}, {Key: "wc-priority", Value: []byte(priority)}},
	}, nil)
}

// follow reads what a channel fires from now on.
func (f *fairBench) follow(ctx context.Context, channel string) (*kgo.Client, error) {
	cl, err := benchConsumer(f.n, channel)
	if err != nil {
		return nil, err
	}
	pctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	cl.PollFetches(pctx) // from the end as it is now
	return cl, nil
}

// count reads until the herd is there, and says when that was.
func (f *fairBench) count(ctx context.Context, cl *kgo.Client, herd int) (last time.Time) {
	for n := 0; n < herd; {
		pctx, cancel := context.WithTimeout(ctx, patience+time.Duration(herd)*time.Second/20_000)
		fs := cl.PollFetches(pctx)
		cancel()
		if fs.NumRecords() == 0 {
			break
		}
		n += fs.NumRecords()
		last = time.Now()
	}
	return last
}

// readProbes takes the probes of a round and says how late each kind was.
func (f *fairBench) readProbes(ctx context.Context, cl *kgo.Client, name string, due time.Time) (out [len(probeKinds)]fairLate, err error) {
	var late [len(probeKinds)][]int64
	want := len(probeKinds) * f.o.probes
	prefix := "other/" + f.run + "-" + name + "-"
	for n := 0; n < want; {
		pctx, cancel := context.WithTimeout(ctx, patience+time.Until(due))
		fs := cl.PollFetches(pctx)
		cancel()
		if fs.NumRecords() == 0 {
			break
		}
		now := time.Now()
		for it := fs.RecordIter(); !it.Done(); {
			label, number, _ := strings.Cut(strings.TrimPrefix(string(it.Next().Key), prefix), "-")
			kind := slices.Index(probeKinds[:], label)
			i, err := strconv.Atoi(number)
			if kind < 0 || err != nil {
				continue
			}
			n++
			late[kind] = append(late[kind], now.UnixMicro()-int64(trigger.At(due.Add(f.after(kind, i))))*1000)
		}
	}
	for kind, l := range late {
		out[kind] = fairLate{lateOf(l), f.o.probes - len(l)}
	}
	return out, ctx.Err()
}

func (a *app) printFair(r *fairResult, o fairOptions) error {
	if o.json {
		a.out.format = "json"
	}
	row := func(k string, l fairLate) [2]string {
		return [2]string{k, fmt.Sprintf("%.1f / %.1f / %.1f ms, %d lost", l.P50, l.P99, l.Max, l.Lost)}
	}
	return a.out.record(r, [][2]string{
		{"broker", fmt.Sprintf("%s, %d partitions", r.Broker, r.Partitions)}, {"herd", fmt.Sprintf("%d of %d B, out after %.2f s", r.Herd, r.Payload, r.HerdOutS)},
		row("p50/p99/max alone", r.AloneOther), row("high, alone", r.AloneHigh),
		row("another tenant, 1 ms later", r.Other), row("high, 1 ms later", r.High),
		row("another tenant, later", r.LaterOther), row("high, later", r.LaterHigh),
		{"CPU", fmt.Sprintf("%.1f s", r.CPUSeconds)}, {"peak RSS", fmt.Sprintf("%d MB", r.RSSBytes>>20)},
	})
}
