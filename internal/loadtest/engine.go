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
	DelayMS         float64  `json:"broker_delay_ms,omitempty"`
	Duplicates      int      `json:"duplicates"`
	Lost            int      `json:"lost"`
	Early           int      `json:"early"`
	Machine         Machine  `json:"machine"`

	// TurnMS is what the time of a turn goes to, in the mean, from the first register to the last due record.
	TurnMS map[string]float64 `json:"turn_ms,omitempty"`

	// Requests counts what the engine's clients sent to brokers for a life, by Kafka's name of the request.
	Requests map[string]float64 `json:"requests_per_life,omitempty"`

	// RestBytes is the log size per life of each topic, in one replica.
	RestBytes map[string]float64 `json:"rest_bytes_per_life,omitempty"`

	// LateByTenth is the median lateness of each tenth of the run, by due time.
	LateByTenth []float64 `json:"late_p50_by_tenth_ms,omitempty"`
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
	wire        *requests     // of every client with the engine's options, including produce and consume
	own         requests      // of produce and consume
	parts       *turnParts    // of the turns since the first register
	stall       *stall        // ends the run when nothing moves
}

// MeasureEngine registers triggers, reads back every due event, and reports how fast and how late
// they were. Beside an error there may be a result: then only the raw lives are missing, or the
// topics could not be removed.
func MeasureEngine(ctx context.Context, s Setup, o EngineOptions) (r *EngineResult, err error) {
	allowPayload(s.Config, o.Payload)
	wire, watcher, parts := &requests{}, &stall{}, newTurnParts()
	s.step = parts.step
	watcher.begin(fmt.Sprintf("open %d partitions", s.Config.Topics.Partitions), openWithin)
	err = watcher.watch(ctx, func(ctx context.Context) error {
		return s.besideEngine(ctx, o.Sync, func(ctx context.Context, e *node.Engine, broker string) error {
			b := &engineRun{
				engine: e, cfg: s.Config, o: o, run: node.NewID(), wire: wire, stall: watcher, parts: parts,
				result: &EngineResult{
					Triggers: o.Triggers, Payload: o.Payload, Window: o.Window.String(), Rate: o.Rate,
					Partitions: s.Config.Topics.Partitions, Broker: broker, Machine: s.machine(),
					DelayMS: float64(s.Delay.Microseconds()) / 1000,
				},
			}
			r, err = b.measure(ctx)
			return err
		}, kgo.WithHooks(wire))
	})
	return r, err
}

// openWithin bounds how long the partitions may take to open.
const openWithin = 5 * time.Minute

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
	b.parts.begin()
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
	b.result.TurnMS = b.parts.each()
	b.result.Turns, b.result.CommitMS = b.engine.Turns()
	if b.result.RestBytes, err = b.atRest(ctx); err != nil {
		return nil, fmt.Errorf("sizes of the topics: %w", err)
	}
	if err := b.rawLives(ctx); err != nil {
		return b.result, fmt.Errorf("raw lives: %w", err)
	}
	if b.drained > 0 {
		b.result.LivesPerS = float64(b.o.Triggers) / (b.registering + b.drained).Seconds()
		b.result.OfRaw = b.result.LivesPerS / b.result.RawLivesPerS
	}
	return b.result, nil
}

// usage is what has been used so far: CPU time of this process and of the brokers, and what the
// engine's clients have sent.
type usage struct {
	own, brokers time.Duration
	engine       sent
}

func (b *engineRun) usage() (u usage, err error) {
	u.own, u.engine = CPUTime(), b.wire.sent().minus(b.own.sent())
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
	engine := now.engine.minus(then.engine)
	b.result.WireBytes = float64(engine.produced) / lives
	b.result.Requests = engine.perLife(lives)
	return nil
}

func (b *engineRun) connect() (err error) {
	b.payloads = payloadsOf(b.o.Payload)
	if b.produce, err = newProducer(b.engine, b.cfg, kgo.WithHooks(&b.own, b.stall)); err != nil {
		return err
	}
	b.consume, err = newConsumer(b.engine.Kafka(), b.cfg, "default", kgo.WithHooks(&b.own, b.stall))
	return err
}

// lead is the time between the start of registering and the first due time. It assumes a register
// rate that this machine is known to reach.
func (b *engineRun) lead() time.Duration {
	return 2*time.Second + time.Duration(b.o.Triggers)*time.Second/40_000
}

// atRate is the time that n registers take at the rate of the run; 0 without a rate.
func (b *engineRun) atRate(n int) time.Duration {
	if b.o.Rate == 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(b.o.Rate)
}

// register sends the registers and waits until the engine has decided all of them.
func (b *engineRun) register(ctx context.Context) error {
	b.stall.begin("produce the registers", patience+b.atRate(64)) // they go out 64 at a time
	start := time.Now()
	b.firstDue = start.Add(b.lead())
	b.lastDue = b.firstDue.Add(b.o.Window)
	if b.o.Rate > 0 {
		b.firstDue = start.Add(time.Second)
		b.lastDue = b.firstDue.Add(b.atRate(b.o.Triggers))
	}
	if err := produceAll(ctx, b.produce, b.o.Triggers, func(i int) *kgo.Record {
		if b.o.Rate > 0 && i%64 == 0 {
			sleepUntil(ctx, start.Add(b.atRate(i)))
		}
		return b.command(i)
	}); err != nil {
		return err
	}
	b.stall.rest()
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
	b.stall.begin("raw produce", patience)
	cl, err := newRawProducer(b.engine, kgo.TransactionalID("bench-raw-"+b.run), kgo.WithHooks(b.stall))
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
		return b.firstDue.Add(b.atRate(i))
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

// readPatience is how long no due event may be read before the missing ones count as lost.
func (b *engineRun) readPatience() time.Duration { return patience + b.lead() + b.o.Window }

// read consumes every due event and checks it.
func (b *engineRun) read(ctx context.Context) error {
	late := make([]int64, b.o.Triggers) // by index; of those that were seen
	seen := make([]bool, b.o.Triggers)
	var first, last time.Time
	moved := time.Now()
	n := 0
	for n < b.o.Triggers {
		fs := pollFor(ctx, b.consume, b.readPatience())
		if fs.NumRecords() == 0 {
			if ctx.Err() != nil || time.Since(moved) >= b.readPatience() {
				break
			}
			sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) // an error of a partition, which kgo tries again
			continue
		}
		last = time.Now()
		moved = last
		if first.IsZero() {
			first = last
		}
		for it := fs.RecordIter(); !it.Done(); {
			if b.judge(it.Next(), last, seen, late) {
				n++
			}
		}
	}
	b.result.RSSBytes = peakRSS() // before the memory for what follows
	b.result.Lost = b.o.Triggers - n
	b.result.LateByTenth = b.byTenth(seen, late)
	b.result.Lateness = lateOf(only(seen, late))
	b.result.FiresPerS = float64(n) / max(last.Sub(b.firstDue), time.Millisecond).Seconds()
	b.result.LastOutS = last.Sub(b.lastDue).Seconds()
	if b.o.Window == 0 && b.o.Rate == 0 {
		b.drained = last.Sub(b.firstDue)
	}
	return ctx.Err()
}

// judge checks a due event, and reports whether it is the first one of its trigger.
func (b *engineRun) judge(r *kgo.Record, now time.Time, seen []bool, late []int64) bool {
	i, ok := b.index(r.Key)
	if !ok || i < 0 || i >= len(seen) {
		return false
	}
	if seen[i] {
		b.result.Duplicates++
		return false
	}
	seen[i] = true
	due := trigger.At(b.due(i))
	if trigger.At(r.Timestamp) < due {
		b.result.Early++
	}
	late[i] = now.UnixMicro() - int64(due)*1000
	return true
}

// byTenth returns the median lateness of each tenth of the run, by due time. A broker that cannot keep
// up makes each tenth later than the one before; a pause, or a cold start, makes some of them late.
func (b *engineRun) byTenth(seen []bool, late []int64) (medians []float64) {
	span := b.lastDue.Sub(b.firstDue)
	if span < time.Second {
		return nil // all are due at one instant
	}
	var tenths [10][]int64
	for i, ok := range seen {
		if ok {
			at := min(int(b.due(i).Sub(b.firstDue)*10/span), 9)
			tenths[at] = append(tenths[at], late[i])
		}
	}
	for _, tenth := range tenths {
		medians = append(medians, lateOf(tenth).P50)
	}
	return medians
}

// only returns the values of those that were seen.
func only(seen []bool, late []int64) (values []int64) {
	for i, ok := range seen {
		if ok {
			values = append(values, late[i])
		}
	}
	return values
}
