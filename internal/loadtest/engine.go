package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// EngineOptions set what is registered, and how fast it falls due.
type EngineOptions struct {
	Triggers int
	Payload  int           // bytes per trigger
	Window   time.Duration // period over which they fall due; 0 is one instant
	Rate     int           // registers per second, each due one second later; 0 registers all first
	Sync     bool          // the embedded broker acknowledges only what is on stable storage
	Brokers  []int         // process ids of Kafka brokers on this machine, for their CPU time
	Profile  string        // file for a CPU profile; "" writes none
}

// EngineResult is the output of bench.
type EngineResult struct {
	Triggers        int      `json:"triggers"`
	Payload         int      `json:"payload"`
	Window          string   `json:"window"`
	Rate            int      `json:"rate,omitempty"`
	Broker          string   `json:"broker"`
	Partitions      int      `json:"partitions"`
	RawPerS         float64  `json:"raw_per_s"` // the same registers, produced to a topic that nobody reads
	RegistersPerS   float64  `json:"registers_per_s"`
	FiresPerS       float64  `json:"fires_per_s"`
	LivesPerS       float64  `json:"lives_per_s,omitempty"` // of a backlog: registered, then due at one instant
	RawLivesPerS    float64  `json:"raw_lives_per_s"`       // the same records, produced without any decisions
	OfRaw           float64  `json:"of_raw,omitempty"`      // LivesPerS / RawLivesPerS
	Lateness        Lateness `json:"lateness_ms"`
	LastOutS        float64  `json:"last_out_s"` // from the last due time to the last record read
	CPUSeconds      float64  `json:"cpu_seconds"`
	CPUPerLifeUS    float64  `json:"cpu_us_per_life"`                  // CPU time of this process
	BrokerCPUUS     float64  `json:"broker_cpu_us_per_life,omitempty"` // CPU time of the broker processes
	WireBytes       float64  `json:"wire_bytes_per_life"`              // produced by the engine, without the command
	RSSBytes        int64    `json:"rss_bytes"`
	BytesPerTrigger float64  `json:"bytes_per_trigger"` // size of the store with all triggers pending
	Turns           int64    `json:"turns"`
	CommitMS        float64  `json:"commit_ms"` // mean duration of EndTransaction and the store's batch
	Duplicates      int      `json:"duplicates"`
	Lost            int      `json:"lost"`
	Early           int      `json:"early"`
	Machine         Machine  `json:"machine"`

	// RestBytes is the log size per life of each topic, in one replica.
	RestBytes map[string]float64 `json:"rest_bytes_per_life,omitempty"`
}

// engineRun is one run: a producer of registers and a consumer of due events.
type engineRun struct {
	engine   *node.Engine
	cfg      *config.Config
	o        EngineOptions
	run      string
	produce  *kgo.Client
	consume  *kgo.Client
	payloads payloads
	result   *EngineResult
	firstDue time.Time
	lastDue  time.Time

	registering time.Duration // until the engine had decided everything
	drained     time.Duration // time to drain a backlog that was due at one instant; else 0
	wire        *produced     // bytes produced by every client with the engine's options, including produce
	commandWire produced      // bytes produced by produce
}

// MeasureEngine registers triggers, reads back every due event, and reports how fast and how late
// they were.
func MeasureEngine(ctx context.Context, s Setup, o EngineOptions) (r *EngineResult, err error) {
	allowPayload(s.Config, o.Payload)
	wire := &produced{}
	err = s.besideEngine(ctx, o.Sync, func(e *node.Engine, broker string) error {
		b := &engineRun{engine: e, cfg: s.Config, o: o, run: node.NewID(), wire: wire, result: &EngineResult{
			Triggers: o.Triggers, Payload: o.Payload, Window: o.Window.String(), Rate: o.Rate,
			Partitions: s.Config.Topics.Partitions, Broker: broker, Machine: s.machine(),
		}}
		r, err = b.measure(ctx)
		return err
	}, kgo.WithHooks(wire))
	return r, err
}

func (b *engineRun) measure(ctx context.Context) (*EngineResult, error) {
	if err := b.connect(); err != nil {
		return nil, err
	}
	defer b.produce.Close()
	defer b.consume.Close()
	if b.o.Profile != "" {
		stop, err := startProfile(b.o.Profile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	if err := b.raw(ctx); err != nil {
		return nil, fmt.Errorf("raw produce: %w", err)
	}
	used, err := b.usage()
	if err != nil {
		return nil, err
	}
	read := make(chan error, 1)
	go func() { read <- b.read(ctx) }()
	if err := b.register(ctx); err != nil {
		return nil, err
	}
	if err := <-read; err != nil {
		return nil, err
	}
	if err := b.since(used); err != nil {
		return nil, err
	}
	b.result.RSSBytes = peakRSS()
	b.result.Turns, b.result.CommitMS = b.engine.Turns()
	if b.result.RestBytes, err = b.atRest(ctx); err != nil {
		return nil, fmt.Errorf("sizes of the topics: %w", err)
	}
	if err := b.rawLives(ctx); err != nil {
		return nil, fmt.Errorf("raw lives: %w", err)
	}
	if b.drained > 0 {
		b.result.LivesPerS = float64(b.o.Triggers) / (b.registering + b.drained).Seconds()
		b.result.OfRaw = b.result.LivesPerS / b.result.RawLivesPerS
	}
	return b.result, nil
}

// usage is what has been used so far: CPU time of this process and of the brokers, and bytes of
// produce requests.
type usage struct {
	own, brokers time.Duration
	wire         int64
}

func (b *engineRun) usage() (u usage, err error) {
	u.own, u.wire = CPUTime(), b.wire.bytes.Load()-b.commandWire.bytes.Load()
	for _, pid := range b.o.Brokers {
		cpu, err := processCPU(pid)
		if err != nil {
			return u, fmt.Errorf("CPU time of broker process %d: %w", pid, err)
		}
		u.brokers += cpu
	}
	return u, nil
}

// since stores what a life has used since then.
func (b *engineRun) since(then usage) error {
	now, err := b.usage()
	if err != nil {
		return err
	}
	lives := float64(b.o.Triggers)
	b.result.CPUSeconds = (now.own - then.own).Seconds()
	b.result.CPUPerLifeUS = b.result.CPUSeconds * 1e6 / lives
	b.result.BrokerCPUUS = float64((now.brokers - then.brokers).Microseconds()) / lives
	b.result.WireBytes = float64(now.wire-then.wire) / lives
	return nil
}

func (b *engineRun) connect() (err error) {
	b.payloads = payloadsOf(b.o.Payload)
	if b.produce, err = newProducer(b.engine, b.cfg, kgo.WithHooks(&b.commandWire)); err != nil {
		return err
	}
	b.consume, err = newConsumer(b.engine, b.cfg, "default")
	return err
}

// lead is the time between the start of registering and the first due time. It assumes a register
// rate that this machine is known to reach.
func (b *engineRun) lead() time.Duration {
	return 2*time.Second + time.Duration(b.o.Triggers)*time.Second/40_000
}

// register sends the registers and waits until the engine has decided all of them.
func (b *engineRun) register(ctx context.Context) error {
	start := time.Now()
	b.firstDue = start.Add(b.lead())
	b.lastDue = b.firstDue.Add(b.o.Window)
	if b.o.Rate > 0 {
		b.firstDue = start.Add(time.Second)
		b.lastDue = b.firstDue.Add(time.Duration(b.o.Triggers) * time.Second / time.Duration(b.o.Rate))
	}
	if err := produceAll(ctx, b.produce, b.o.Triggers, func(i int) *kgo.Record {
		if b.o.Rate > 0 && i%64 == 0 {
			sleepUntil(ctx, start.Add(time.Duration(i)*time.Second/time.Duration(b.o.Rate)))
		}
		return b.command(i)
	}); err != nil {
		return err
	}
	if err := awaitDecided(ctx, b.engine, int64(b.o.Triggers)); err != nil {
		return err
	}
	b.registering = time.Since(start)
	b.result.RegistersPerS = float64(b.o.Triggers) / b.registering.Seconds()
	b.result.BytesPerTrigger = b.storeBytes()
	return nil
}

// produceAll produces n records, and returns when all are acknowledged.
func produceAll(ctx context.Context, cl *kgo.Client, n int, record func(int) *kgo.Record) error {
	var failed firstError
	for i := range n {
		cl.Produce(ctx, record(i), failed.promise)
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed.get()
}

// raw produces the same registers to a topic that nobody reads, in one transaction. That is the
// most that the broker and this machine can do.
func (b *engineRun) raw(ctx context.Context) error {
	cl, err := newRawProducer(b.engine, kgo.TransactionalID("bench-raw-"+b.run))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm, topic := kadm.NewClient(cl), b.cfg.Topic("bench-raw")
	if _, err := adm.CreateTopic(ctx, int32(b.cfg.Topics.Partitions), -1, nil, topic); err != nil {
		return err
	}
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	b.firstDue = time.Now()
	start := time.Now()
	var last *kgo.Record
	if err := produceAll(ctx, cl, b.o.Triggers, func(i int) *kgo.Record {
		last = b.command(i)
		last.Topic = topic
		return last
	}); err != nil {
		return err
	}
	if err := producer.EndTransaction(ctx, cl, kgo.TryCommit, last); err != nil {
		return err
	}
	b.result.RawPerS = float64(b.o.Triggers) / time.Since(start).Seconds()
	_, err = adm.DeleteTopics(ctx, topic)
	return err
}

func (b *engineRun) command(i int) *kgo.Record {
	key := b.prefix() + strconv.Itoa(i)
	return &kgo.Record{
		Partition: topics.Partition([]byte(key), int32(b.cfg.Topics.Partitions)), Key: []byte(key),
		Value:   b.payloads.at(i),
		Headers: []kgo.RecordHeader{{Key: "wc-fire-at", Value: strconv.AppendInt(nil, b.due(i).UnixMilli(), 10)}},
	}
}

func (b *engineRun) prefix() string { return "bench-" + b.run + "-" }

// index returns which trigger of the run a key names.
func (b *engineRun) index(key []byte) (i int, ok bool) {
	n, found := strings.CutPrefix(string(key), b.prefix())
	i, err := strconv.Atoi(n)
	return i, found && err == nil
}

// due spreads the triggers over the window, in an order that differs from the order of their
// numbers.
func (b *engineRun) due(i int) time.Time {
	if b.o.Rate > 0 {
		return b.firstDue.Add(time.Duration(i) * time.Second / time.Duration(b.o.Rate))
	}
	spread := uint64(i) * 11400714819323198485 % uint64(max(b.o.Window.Milliseconds(), 1))
	return b.firstDue.Add(time.Duration(spread) * time.Millisecond)
}

func (b *engineRun) storeBytes() float64 {
	var bytes, pending int64
	for _, s := range b.engine.Partitions() {
		bytes, pending = bytes+s.StoreBytes, pending+s.Pending
	}
	return float64(bytes) / float64(max(pending, 1))
}

// read consumes every due event and checks it.
func (b *engineRun) read(ctx context.Context) error {
	late := make([]int64, 0, b.o.Triggers)
	seen := make([]bool, b.o.Triggers)
	var first, last time.Time
	for len(late) < b.o.Triggers {
		pctx, cancel := context.WithTimeout(ctx, patience+b.lead()+b.o.Window)
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
	b.result.Lost = b.o.Triggers - len(late)
	b.result.Lateness = lateOf(late)
	b.result.FiresPerS = float64(len(late)) / max(last.Sub(b.firstDue), time.Millisecond).Seconds()
	b.result.LastOutS = last.Sub(b.lastDue).Seconds()
	if b.o.Window == 0 && b.o.Rate == 0 {
		b.drained = last.Sub(b.firstDue)
	}
	return ctx.Err()
}

func (b *engineRun) judge(r *kgo.Record, now time.Time, seen []bool, late *[]int64) {
	i, ok := b.index(r.Key)
	if !ok || i < 0 || i >= len(seen) {
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
