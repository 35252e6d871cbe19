package loadtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// BreakerOptions configure MeasureBreaker.
type BreakerOptions struct {
	Behind    int           // triggers of one tenant, due at one instant, whose endpoint always fails
	For       time.Duration // how long to measure after that instant
	Alone     time.Duration // how long to measure the other tenant alone
	Rate      int           // triggers of the other tenant per second, whose endpoints answer
	Endpoints int           // endpoints of the other tenant
	Payload   int           // bytes per trigger
}

// BreakerResult is the output of bench webhook --behind. Nothing is simulated: the engine, the
// worker and this process use the machine's clock.
type BreakerResult struct {
	Machine
	Broker    string  `json:"broker"`
	Clock     string  `json:"clock"` // always "real"
	Behind    int     `json:"behind"`
	ForS      float64 `json:"for_s"`
	Rate      int     `json:"rate"`
	Endpoints int     `json:"endpoints"`
	Payload   int     `json:"payload"`

	Alone       Lateness  `json:"alone_ms"`  // the other tenant's lateness from due time to receiver, measured alone
	Beside      Lateness  `json:"beside_ms"` // the same, while events wait behind the breaker
	P99ByMinute []float64 `json:"beside_p99_ms_by_minute"`
	Lost        int       `json:"lost"` // of the other tenant
	Doubled     int       `json:"doubled"`

	FiredBehind   int     `json:"fired_behind"` // triggers behind the breaker that fired
	ReEmissions   int64   `json:"re_emissions"` // postponed or retried due events
	MostEach      int     `json:"re_emissions_most"`
	MeanEach      float64 `json:"re_emissions_mean"`
	CallsToBroken int64   `json:"calls_to_broken"`

	EngineCPU       float64 `json:"engine_cpu_s"` // from the due instant on
	WorkerCPU       float64 `json:"worker_cpu_s"`
	EngineBusiest   float64 `json:"engine_cpu_cores_busiest_minute"`
	EngineLast      float64 `json:"engine_cpu_cores_last_minute"`
	EngineRSS       int64   `json:"engine_rss_peak_bytes"`
	WorkerRSS       int64   `json:"worker_rss_peak_bytes"`
	CPUPerReEmitted float64 `json:"engine_cpu_us_per_emission"` // counts the other tenant's emissions too
}

// MeasureBreaker measures calls to endpoints that answer: first alone, and then while another
// tenant's triggers wait behind the breaker of an endpoint that always fails. The engine and the
// worker run as separate processes.
func MeasureBreaker(ctx context.Context, s Setup, o BreakerOptions) (*BreakerResult, error) {
	b := &breakerRun{o: o, webhookRun: webhookRun{
		Setup: s, closing: make(chan struct{}), seen: map[string]bool{},
		o: WebhookOptions{Endpoints: o.Endpoints, Rate: o.Rate, Payload: o.Payload},
	}}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	b.result = &BreakerResult{
		Machine: s.machine(), Broker: b.kind, Clock: "real", Behind: o.Behind, ForS: o.For.Seconds(), Rate: o.Rate,
		Endpoints: o.Endpoints, Payload: o.Payload,
	}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	return b.result, nil
}

type breakerRun struct {
	webhookRun
	o       BreakerOptions
	broken  string // URL of the endpoint that fails
	fails   atomic.Int64
	engine  *child
	produce *kgo.Client
	result  *BreakerResult

	others struct { // the tenant whose endpoints answer
		sync.Mutex
		first time.Time // due time of number 0
		late  []int32   // µs by number, starting at 0 in each phase; -1 if it has not arrived
		twice int
	}
}

// open starts the broker, the receivers, the engine and the worker.
func (b *breakerRun) open(ctx context.Context) (err error) {
	allowPayload(b.Config, b.o.Payload)
	if err := b.webhookRun.open(ctx); err != nil {
		return err
	}
	for _, s := range b.servers {
		s.Handler = http.HandlerFunc(b.arrive)
	}
	if err := b.receive(func(w http.ResponseWriter, _ *http.Request) {
		b.fails.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}); err != nil {
		return err
	}
	b.broken = b.urls[len(b.urls)-1]
	c := b.Config
	if b.engine, err = startChild("serve", append(b.settings(),
		"--roles", "engine", "--data-dir", filepath.Join(b.dir, "engine"),
		"--limits-payload", c.Limits.Payload.String())); err != nil {
		return err
	}
	if err := b.engine.awaitReady(ctx, 2*time.Minute); err != nil {
		return err
	}
	if err := b.launch(); err != nil {
		return err
	}
	b.produce, err = kgo.NewClient(append(b.kafka, kgo.DefaultProduceTopic(c.Topic("commands")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(200_000),
		kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	return err
}

func (b *breakerRun) close() {
	if b.produce != nil {
		b.produce.Close()
	}
	b.engine.stop()
	b.webhookRun.close()
}

// measure runs the two phases. In each, the other tenant's triggers are due one after the other.
// The next phase begins when all have arrived.
func (b *breakerRun) measure(ctx context.Context) error {
	if _, err := b.phase(ctx, "warm", max(b.o.Rate*2, 4*b.Config.Topics.Partitions), time.Now()); err != nil {
		return err
	}
	alone, err := b.phase(ctx, "alone", b.numberIn(b.o.Alone), time.Now().Add(time.Second))
	if err != nil {
		return err
	}
	b.result.Alone = distribution(alone)
	due, err := b.registerBehind(ctx)
	if err != nil {
		return err
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	var engine, worker usageSamples
	var sampled sync.WaitGroup
	process := b.worker
	sampled.Go(func() {
		sleepUntil(sampling, due)
		engine = b.engine.sample(sampling, time.Second)
	})
	sampled.Go(func() {
		sleepUntil(sampling, due)
		worker = process.sample(sampling, time.Second)
	})
	// From here on, the other tenant's triggers are registered, each one second before it is due.
	beside, err := b.phase(ctx, "beside", b.numberIn(b.o.For), due)
	stop()
	sampled.Wait()
	if err != nil {
		return err
	}
	if len(engine.cpu) == 0 || len(worker.cpu) == 0 {
		return errors.New("it ended before any trigger was due")
	}
	b.result.CallsToBroken = b.fails.Load()
	b.engine.stop()
	b.judgeOthers(beside)
	b.judgeUsage(engine, worker)
	return b.countEmissions(ctx)
}

func (b *breakerRun) numberIn(d time.Duration) int { return max(1, int(d.Seconds()*float64(b.o.Rate))) }

// arrive is the handler of the endpoints that answer.
func (b *breakerRun) arrive(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.WriteHeader(http.StatusNoContent)
	id := r.Header.Get("X-Trigger-Id")
	i, err := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	o := &b.others
	o.Lock()
	defer o.Unlock()
	if err != nil || i < 0 || i >= len(o.late) {
		return
	}
	if o.late[i] >= 0 {
		o.twice++
		return
	}
	o.late[i] = int32(max(0, now.Sub(b.dueOf(i)).Microseconds()))
	b.calls.Add(1)
}

// dueOf returns the due time of a number in the current phase.
func (b *breakerRun) dueOf(i int) time.Time {
	return b.others.first.Add(time.Duration(i) * time.Second / time.Duration(b.o.Rate)).Truncate(time.Millisecond)
}

// phase registers n triggers of the other tenant at its rate, due from first on. It returns the
// lateness of each, or -1 if it did not arrive.
func (b *breakerRun) phase(ctx context.Context, name string, n int, first time.Time) ([]int32, error) {
	o := &b.others
	o.Lock()
	o.first, o.late, o.twice = first, slices.Repeat([]int32{-1}, n), 0
	o.Unlock()
	b.calls.Store(0)
	payloads := payloadsOf(b.o.Payload)
	if err := produceAll(ctx, b.produce, n, func(i int) *kgo.Record {
		if i%16 == 0 {
			sleepUntil(ctx, b.dueOf(i).Add(-time.Second))
		}
		return b.register("other/"+name+"-"+strconv.Itoa(i), b.urls[i%b.o.Endpoints], b.dueOf(i),
			payloads.at(i))
	}); err != nil {
		return nil, err
	}
	still, before := time.Now(), int64(0)
	for now := b.calls.Load(); now < int64(n) && time.Since(still) < patience; now = b.calls.Load() {
		if now != before {
			still, before = time.Now(), now
		}
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if b.calls.Load() == 0 {
		return nil, errors.New("the worker makes no calls; see its log")
	}
	o.Lock()
	defer o.Unlock()
	late := o.late
	o.late = nil // later arrivals belong to no phase
	return late, nil
}

func (b *breakerRun) register(key, url string, due time.Time, payload []byte) *kgo.Record {
	return &kgo.Record{
		Partition: topics.Partition([]byte(key), int32(b.Config.Topics.Partitions)), Key: []byte(key), Value: payload,
		Headers: []kgo.RecordHeader{
			{Key: "wc-fire-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
			{Key: "wc-channel", Value: []byte("webhook")},
			{Key: "wc-callback-url", Value: []byte(url + "/bench")},
		},
	}
}

const behindPrefix = "behind/b-"

// registerBehind registers the triggers that will wait behind the breaker, and returns their due
// time. That is late enough for the engine to decide all of them first.
func (b *breakerRun) registerBehind(ctx context.Context) (time.Time, error) {
	due := time.Now().Add(15*time.Second + time.Duration(b.o.Behind)*time.Second/10_000).Truncate(time.Second)
	payloads := payloadsOf(b.o.Payload)
	if err := produceAll(ctx, b.produce, b.o.Behind, func(i int) *kgo.Record {
		return b.register(behindPrefix+strconv.Itoa(i), b.broken, due, payloads.at(i))
	}); err != nil {
		return due, err
	}
	for {
		pending, err := b.pending(ctx)
		switch {
		case err != nil:
			return due, err
		case pending >= b.o.Behind:
			return due, nil
		case time.Until(due) < 2*time.Second: // the other tenant's triggers are registered one second ahead
			return due, fmt.Errorf("registering took too long: %d of %d are pending; try a smaller --behind",
				pending, b.o.Behind)
		}
		sleepUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
}

// pending reads the gauge of pending triggers from the engine.
func (b *breakerRun) pending(ctx context.Context) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.engine.url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "waterclock_pending_triggers{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		n += int(v)
	}
	return n, lines.Err()
}

// distribution computes the lateness of those that arrived.
func distribution(late []int32) Lateness {
	all := make([]int64, 0, len(late))
	for _, l := range late {
		if l >= 0 {
			all = append(all, int64(l))
		}
	}
	return lateOf(all)
}

func (b *breakerRun) judgeOthers(late []int32) {
	r := b.result
	r.Beside, r.Doubled = distribution(late), b.others.twice
	for _, l := range late {
		if l < 0 {
			r.Lost++
		}
	}
	for minute := range slices.Chunk(late, 60*b.o.Rate) {
		r.P99ByMinute = append(r.P99ByMinute, distribution(minute).P99)
	}
}

func (b *breakerRun) judgeUsage(engine, worker usageSamples) {
	r := b.result
	last := func(u usageSamples) time.Duration { return u.cpu[len(u.cpu)-1] }
	r.EngineCPU, r.EngineRSS = (last(engine) - engine.cpu[0]).Seconds(), slices.Max(engine.rss)
	r.WorkerCPU, r.WorkerRSS = (last(worker) - worker.cpu[0]).Seconds(), slices.Max(worker.rss)
	minute := min(60, len(engine.cpu)-1)
	if minute > 0 {
		r.EngineBusiest = engine.busiest(minute).Seconds() / float64(minute)
		r.EngineLast = (last(engine) - engine.cpu[len(engine.cpu)-1-minute]).Seconds() / float64(minute)
	}
}

// countEmissions reads the due topic from its beginning to its end.
func (b *breakerRun) countEmissions(ctx context.Context) error {
	cl, err := newConsumer(b.kafka, b.Config, "webhook", kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	emitted, all := make([]uint16, b.o.Behind), int64(0)
	// The engine has stopped, so nothing is appended any more.
	for idle := time.Now(); time.Since(idle) < 5*time.Second; {
		within, cancel := context.WithTimeout(ctx, time.Second)
		fs := cl.PollFetches(within)
		cancel()
		for it := fs.RecordIter(); !it.Done(); {
			rec := it.Next()
			all++
			number, behind := strings.CutPrefix(string(rec.Key), behindPrefix)
			if i, err := strconv.Atoi(number); behind && err == nil && i < len(emitted) {
				emitted[i]++
			}
		}
		if fs.NumRecords() > 0 {
			idle = time.Now()
		}
	}
	r := b.result
	for _, n := range emitted {
		if n == 0 {
			continue
		}
		r.FiredBehind++
		r.ReEmissions += int64(n) - 1
		r.MostEach = max(r.MostEach, int(n)-1)
	}
	r.MeanEach = float64(r.ReEmissions) / float64(max(r.FiredBehind, 1))
	r.CPUPerReEmitted = r.EngineCPU * 1e6 / float64(max(all, 1))
	return ctx.Err()
}
