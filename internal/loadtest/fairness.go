package loadtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// FairnessOptions set the size of the herd, and how many probes run at the same time.
type FairnessOptions struct {
	Herd    int    // triggers of one tenant, due at one instant
	Probes  int    // probes of each kind
	Payload int    // bytes per trigger
	Profile string // file for a CPU profile; "" writes none
}

// FairnessResult is the output of bench fairness. Times are in milliseconds.
type FairnessResult struct {
	Herd       int    `json:"herd"`
	Probes     int    `json:"probes"`
	Payload    int    `json:"payload"`
	Broker     string `json:"broker"`
	Partitions int    `json:"partitions"`

	AloneOther ProbeLateness `json:"alone_other"` // without a herd
	AloneHigh  ProbeLateness `json:"alone_high"`
	Other      ProbeLateness `json:"other"` // of another tenant, due 1 ms after the herd
	High       ProbeLateness `json:"high"`
	LaterOther ProbeLateness `json:"later_other"` // due over the seconds after the herd
	LaterHigh  ProbeLateness `json:"later_high"`

	HerdOutS   float64 `json:"herd_out_s"` // until the last trigger of the herd was read
	CPUSeconds float64 `json:"cpu_seconds"`
	RSSBytes   int64   `json:"rss_bytes"`
	Machine    Machine `json:"machine"`
}

type ProbeLateness struct {
	Lateness
	Lost int `json:"lost"`
}

// laterFor is the period over which the later probes are spread.
const laterFor = 3 * time.Second

// probeKinds are the kinds as they appear in a probe's key.
var probeKinds = [...]string{"other", "high", "laterother", "laterhigh"}

// fairnessRun is one run. It has the tenants herd and other, and a channel for the probes.
type fairnessRun struct {
	engine  *node.Engine
	cfg     *config.Config
	o       FairnessOptions
	run     string
	produce *kgo.Client
	payload payloads
	result  *FairnessResult
	sent    int64 // commands sent in total
}

// MeasureFairness measures how late one tenant's triggers are during another tenant's herd, and
// alone.
func MeasureFairness(ctx context.Context, s Setup, o FairnessOptions) (r *FairnessResult, err error) {
	allowPayload(s.Config, o.Payload)
	err = s.besideEngine(ctx, true, func(ctx context.Context, e *node.Engine, broker string) error {
		f := &fairnessRun{engine: e, cfg: s.Config, o: o, run: node.NewID(), result: &FairnessResult{
			Herd: o.Herd, Probes: o.Probes, Payload: o.Payload, Broker: broker,
			Partitions: s.Config.Topics.Partitions, Machine: s.machine(),
		}}
		r, err = f.measure(ctx)
		return err
	})
	return r, err
}

func (f *fairnessRun) measure(ctx context.Context) (*FairnessResult, error) {
	f.payload = payloadsOf(f.o.Payload)
	var err error
	if f.produce, err = newProducer(f.engine, f.cfg); err != nil {
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
	if f.o.Profile != "" {
		stop, err := startProfile(f.o.Profile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	cpu := CPUTime()
	crowded, err := f.round(ctx, "crowd", f.o.Herd)
	if err != nil {
		return nil, err
	}
	f.result.Other, f.result.High, f.result.LaterOther, f.result.LaterHigh = crowded[0], crowded[1], crowded[2],
		crowded[3]
	f.result.CPUSeconds, f.result.RSSBytes = (CPUTime() - cpu).Seconds(), peakRSS()
	return f.result, nil
}

// warm fires once on the probes' channel, because the first firing creates its topic.
func (f *fairnessRun) warm(ctx context.Context) error {
	due := time.Now()
	for i := range 16 * f.cfg.Topics.Partitions {
		f.send(ctx, "other/warm-"+f.run+"-"+strconv.Itoa(i), due, "probe", "normal", i)
	}
	if err := f.produce.Flush(ctx); err != nil {
		return err
	}
	if err := awaitDecided(ctx, f.engine, f.sent); err != nil {
		return err
	}
	sleepUntil(ctx, time.Now().Add(2*time.Second))
	return ctx.Err()
}

// round registers a herd and the probes, and reads their due events.
func (f *fairnessRun) round(ctx context.Context, name string, herd int) ([len(probeKinds)]ProbeLateness, error) {
	var out [len(probeKinds)]ProbeLateness
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
	if err := awaitDecided(ctx, f.engine, f.sent); err != nil {
		return out, err
	}
	if late := time.Since(due); late > 0 {
		return out, fmt.Errorf("registering took %v too long for this machine; try a smaller --herd", late)
	}
	counted := make(chan time.Time, 1)
	go func() { counted <- f.count(ctx, others, herd) }()
	out, err = f.readProbes(ctx, probes, name, due)
	if last := <-counted; herd > 0 {
		f.result.HerdOutS = last.Sub(due).Seconds()
	}
	return out, err
}

// registerRound sends the herd and then the probes of a round.
func (f *fairnessRun) registerRound(ctx context.Context, name string, herd int, due time.Time) {
	for i := range herd {
		f.send(ctx, "herd/"+f.run+"-"+name+"-"+strconv.Itoa(i), due, "default", "normal", i)
	}
	for kind, label := range probeKinds {
		priority := "normal"
		if strings.HasSuffix(label, "high") {
			priority = "high"
		}
		for i := range f.o.Probes {
			key := "other/" + f.run + "-" + name + "-" + label + "-" + strconv.Itoa(i)
			f.send(ctx, key, due.Add(f.after(kind, i)), "probe", priority, i)
		}
	}
}

// after returns how long after the herd a probe is due.
func (f *fairnessRun) after(kind, i int) time.Duration {
	if kind < 2 {
		return time.Millisecond
	}
	return time.Millisecond + laterFor*time.Duration(i+1)/time.Duration(f.o.Probes)
}

func (f *fairnessRun) send(ctx context.Context, key string, due time.Time, channel, priority string, i int) {
	f.sent++
	f.produce.Produce(ctx, &kgo.Record{
		Partition: topics.Partition([]byte(key), int32(f.cfg.Topics.Partitions)), Key: []byte(key),
		Value: f.payload.at(i),
		Headers: []kgo.RecordHeader{
			{Key: "wc-fire-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
			{Key: "wc-channel", Value: []byte(channel)},
			{Key: "wc-priority", Value: []byte(priority)},
		},
	}, nil)
}

// follow reads the due events of a channel from now on.
func (f *fairnessRun) follow(ctx context.Context, channel string) (*kgo.Client, error) {
	cl, err := newConsumer(f.engine.Kafka(), f.cfg, channel)
	if err != nil {
		return nil, err
	}
	pctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	cl.PollFetches(pctx) // the first poll fixes the current end as the start
	return cl, nil
}

// count reads until the whole herd has arrived, and returns the time of the last one.
func (f *fairnessRun) count(ctx context.Context, cl *kgo.Client, herd int) (last time.Time) {
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

// readProbes reads the probes of a round and computes the lateness of each kind.
func (f *fairnessRun) readProbes(
	ctx context.Context, cl *kgo.Client, name string, due time.Time,
) (out [len(probeKinds)]ProbeLateness, err error) {
	var late [len(probeKinds)][]int64
	want := len(probeKinds) * f.o.Probes
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
		out[kind] = ProbeLateness{lateOf(l), f.o.Probes - len(l)}
	}
	return out, ctx.Err()
}
