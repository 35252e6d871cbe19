package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/topics"
)

// WebhookOptions configure MeasureWebhook.
type WebhookOptions struct {
	Events    int           // due events, all written before the worker starts
	Payload   int           // bytes per event
	Endpoints int           // local receivers, each with its own origin
	Answer    time.Duration // how long a receiver takes to answer
	Rate      int           // triggers per second, each due one second later, with an engine; 0: no engine
	Hanging   int           // the last of the endpoints, which never answer; only with a rate
}

// hangs reports whether the receiver of an event never answers.
func (o *WebhookOptions) hangs(event int) bool { return event%o.Endpoints >= o.Endpoints-o.Hanging }

// answered returns the number of events whose receivers answer.
func (o *WebhookOptions) answered() int {
	n := 0
	for i := range o.Events {
		if !o.hangs(i) {
			n++
		}
	}
	return n
}

// WebhookResult is the result of MeasureWebhook. CPU and memory are the worker's, over its whole
// life. Lost, doubled and late events count only for receivers that answer.
type WebhookResult struct {
	Machine
	Broker         string  `json:"broker"`
	Events         int     `json:"events"`
	Payload        int     `json:"payload"`
	Endpoints      int     `json:"endpoints"`
	CallbacksPerS  float64 `json:"callbacks_per_s"`
	CPUPerCallback float64 `json:"cpu_us_per_callback"`
	RSSBytes       int64   `json:"rss_bytes"`
	Doubled        int     `json:"doubled"`
	Lost           int     `json:"lost"`

	Rate     int       `json:"rate,omitempty"`
	Hanging  int       `json:"hanging,omitempty"`
	Lateness *Lateness `json:"lateness_ms,omitempty"` // with a rate: from the due time to the receiver
}

// MeasureWebhook writes due events of channel webhook, starts a process with only the role
// webhook, and counts what arrives at receivers in this process. No engine runs. With a rate, an
// engine in this process fires triggers that are registered at that rate instead.
func MeasureWebhook(ctx context.Context, s Setup, o WebhookOptions) (*WebhookResult, error) {
	b := &webhookRun{Setup: s, o: o, seen: make(map[string]bool, o.Events), closing: make(chan struct{})}
	defer b.close()
	if o.Rate > 0 {
		return b.atRate(ctx)
	}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	if err := b.launch(); err != nil {
		return nil, err
	}
	if err := b.await(ctx); err != nil {
		return nil, err
	}
	return b.result()
}

type webhookRun struct {
	Setup
	o       WebhookOptions
	kind    string
	dir     string
	broker  *broker.Broker
	kafka   []kgo.Opt
	servers []*http.Server
	urls    []string
	worker  *child

	firstDue    time.Time // only with a rate
	closing     chan struct{}
	calls       atomic.Int64
	hung        atomic.Int64 // calls that never get an answer
	mu          sync.Mutex
	seen        map[string]bool
	late        []int64 // µs
	first, last time.Time
}

// open starts the broker and the receivers, and creates the topics.
func (b *webhookRun) open(ctx context.Context) (err error) {
	c := b.Config
	if b.dir, err = os.MkdirTemp("", "waterclock-bench-"); err != nil {
		return err
	}
	c.DataDir, b.kind = b.dir, "kafka"
	c.Topics.Prefix = "waterclock-bench-" + node.NewID() + "."
	c.Group = c.Topics.Prefix + "engine"
	if b.Embedded {
		b.kind = "embedded"
		if b.broker, err = broker.Start(ctx, broker.Options{
			Dir: filepath.Join(b.dir, "broker"), Listen: "127.0.0.1:0", Sync: true, Logger: b.Logger,
		}); err != nil {
			return err
		}
		c.Brokers = []string{b.broker.Addr()}
	}
	if b.kafka, err = kafkaconn.Options(c, "waterclock-bench", nil); err != nil {
		return err
	}
	if err := b.makeTopics(ctx); err != nil {
		return err
	}
	return b.receiveAll()
}

func (b *webhookRun) receiveAll() error {
	for i := range b.o.Endpoints {
		answer := b.take
		if b.o.hangs(i) {
			answer = b.hang
		}
		if err := b.receive(answer); err != nil {
			return err
		}
	}
	return nil
}

func (b *webhookRun) makeTopics(ctx context.Context) error {
	cl, err := kgo.NewClient(b.kafka...)
	if err != nil {
		return err
	}
	defer cl.Close()
	want := kafkaconn.Wanted(b.Config, "webhook")
	plan, _, err := kafkaconn.Plan(ctx, cl, want)
	if err != nil {
		return err
	}
	return kafkaconn.Apply(ctx, cl, want, plan, nil)
}

// receive starts one receiver.
func (b *webhookRun) receive(answer http.HandlerFunc) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: 10 * time.Second}
	b.servers = append(b.servers, server)
	b.urls = append(b.urls, "http://"+ln.Addr().String())
	go func() { _ = server.Serve(ln) }() // returns after Close
	return nil
}

// hang accepts a request and never answers.
func (b *webhookRun) hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.hung.Add(1)
	select {
	case <-r.Context().Done():
	case <-b.closing:
	}
}

func (b *webhookRun) take(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, r.Body)
	if b.o.Answer > 0 {
		time.Sleep(b.o.Answer)
	}
	w.WriteHeader(http.StatusNoContent)
	b.calls.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if id := r.Header.Get("webhook-id"); !b.seen[id] {
		b.seen[id] = true
		event := strings.TrimPrefix(r.Header.Get("X-Trigger-Id"), b.key(""))
		if i, err := strconv.Atoi(event); err == nil && b.o.Rate > 0 {
			b.late = append(b.late, now.Sub(b.due(i)).Microseconds())
		}
	}
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// fill writes the due events like an engine.
func (b *webhookRun) fill(ctx context.Context) error {
	cl, err := kgo.NewClient(append(b.kafka, kgo.MaxBufferedRecords(100_000), kgo.ProducerLinger(5*time.Millisecond),
		kgo.DefaultProduceTopic(b.Config.Channel("webhook").Topic))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	payloads := payloadsOf(b.o.Payload)
	event := func(i int) *kgo.Record { return b.event(i, payloads.at(i)) }
	if err := produceAll(ctx, cl, b.o.Events, event); err != nil {
		return fmt.Errorf("write due events: %w", err)
	}
	return nil
}

func (b *webhookRun) event(i int, payload []byte) *kgo.Record {
	key := b.key(strconv.Itoa(i))
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	r := &kgo.Record{Key: []byte(key), Value: payload}
	for _, h := range [][2]string{
		{"ce_specversion", "1.0"},
		{"ce_id", key + "@" + now + "#0"},
		{"ce_source", "/waterclock/bench"},
		{"ce_type", topics.DueType},
		{"ce_subject", key},
		{"ce_time", now},
		{"ce_wcfired", now},
		{"ce_wcrevision", "1"},
		{"ce_wcattempt", "1"},
		{"ce_wcstep", "0"},
		{"wcx-callback", `{"url":"` + b.urls[i%len(b.urls)] + `/bench"}`},
	} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

// launch starts the worker as a separate process, so that its CPU time can be measured.
func (b *webhookRun) launch() (err error) {
	args := append([]string{"--roles", "webhook", "--data-dir", filepath.Join(b.dir, "worker")}, b.settings()...)
	if b.o.Rate == 0 { // without an engine, nothing resends what a full endpoint postpones
		args = append(args, "--set", "webhook.endpoint_waiting=10000")
	}
	b.worker, err = startChild("serve", args, "WATERCLOCK_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	return err
}

// settings returns the command-line settings of our child processes.
func (b *webhookRun) settings() []string {
	c := b.Config
	return []string{
		"--brokers", strings.Join(c.Brokers, ","),
		"--set", "topics.prefix=" + c.Topics.Prefix, "--set", "group=" + c.Group,
		"--set", "topics.partitions=" + strconv.Itoa(c.Topics.Partitions),
		"--set", "webhook.allow=" + strings.Join(b.urls, ","),
	}
}

// await waits until every event has caused a callback, or none arrive any more.
func (b *webhookRun) await(ctx context.Context) error {
	var before int64
	still := time.Now()
	for ctx.Err() == nil {
		now := b.calls.Load()
		if now >= int64(b.o.answered()) {
			return nil
		}
		if now != before {
			before, still = now, time.Now()
		} else if time.Since(still) > patience {
			if now == 0 {
				return errors.New("the worker makes no calls; see its log")
			}
			return nil
		}
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
	}
	return ctx.Err()
}

func (b *webhookRun) result() (*WebhookResult, error) {
	_ = b.worker.cmd.Process.Signal(syscall.SIGTERM)
	if err := b.worker.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("the worker: %w", err)
	}
	state := b.worker.cmd.ProcessState
	b.worker = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := int(b.calls.Load())
	r := &WebhookResult{
		Machine: b.machine(), Broker: b.kind, Events: b.o.Events, Payload: b.o.Payload, Endpoints: b.o.Endpoints,
		CallbacksPerS:  float64(calls) / max(b.last.Sub(b.first).Seconds(), 1e-3),
		CPUPerCallback: float64((state.UserTime() + state.SystemTime()).Microseconds()) / float64(max(calls, 1)),
		Doubled:        calls - len(b.seen), Lost: b.o.answered() - len(b.seen), Rate: b.o.Rate, Hanging: b.o.Hanging,
	}
	if b.o.Rate > 0 {
		late := lateOf(b.late)
		r.Lateness = &late
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		r.RSSBytes = u.Maxrss * 1024
	}
	return r, nil
}

// atRate starts an engine, registers triggers, and waits until all that can be delivered have
// arrived.
func (b *webhookRun) atRate(ctx context.Context) (r *WebhookResult, err error) {
	c := b.Config
	if err := b.receiveAll(); err != nil {
		return nil, err
	}
	c.Webhook.Allow = append(c.Webhook.Allow, b.urls...)
	allowPayload(c, b.o.Payload)
	err = b.besideEngine(ctx, true, func(ctx context.Context, e *node.Engine, kind string) error {
		b.kind, b.dir = kind, c.DataDir
		if err := b.launch(); err != nil {
			return err
		}
		if err := b.warm(ctx, e); err != nil {
			return err
		}
		if err := b.register(ctx, e); err != nil {
			return err
		}
		if err := b.await(ctx); err != nil {
			return err
		}
		r, err = b.result()
		return err
	})
	b.dir = "" // the directory was the engine's, and is deleted
	return r, err
}

// warm waits for a first callback, which shows that the worker has the partitions.
func (b *webhookRun) warm(ctx context.Context, e *node.Engine) error {
	cl, err := newProducer(e, b.Config)
	if err != nil {
		return err
	}
	defer cl.Close()
	n := 4 * b.Config.Topics.Partitions
	if err := produceAll(ctx, cl, n, func(i int) *kgo.Record {
		return b.command("warm-"+strconv.Itoa(i), b.urls[0], time.Now(), []byte("{}"))
	}); err != nil {
		return err
	}
	for begun := time.Now(); b.calls.Load() < int64(n); {
		if time.Since(begun) > patience {
			return errors.New("the worker makes no calls; see its log")
		}
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.seen)
	b.calls.Store(0)
	b.first = time.Time{}
	return nil
}

// register sends the triggers at the rate, each due one second later.
func (b *webhookRun) register(ctx context.Context, e *node.Engine) error {
	cl, err := newProducer(e, b.Config)
	if err != nil {
		return err
	}
	defer cl.Close()
	payloads := payloadsOf(b.o.Payload)
	start := time.Now()
	b.mu.Lock()
	b.firstDue = start.Add(time.Second)
	b.mu.Unlock()
	return produceAll(ctx, cl, b.o.Events, func(i int) *kgo.Record {
		if i%16 == 0 {
			sleepUntil(ctx, b.due(i).Add(-time.Second))
		}
		return b.command(strconv.Itoa(i), b.urls[i%len(b.urls)], b.due(i), payloads.at(i))
	})
}

// due returns the due time of an event's trigger.
func (b *webhookRun) due(i int) time.Time {
	return b.firstDue.Add(time.Duration(i) * time.Second / time.Duration(b.o.Rate)).Truncate(time.Millisecond)
}

func (b *webhookRun) key(event string) string { return "bench-" + event }

func (b *webhookRun) command(event, url string, due time.Time, payload []byte) *kgo.Record {
	key := []byte(b.key(event))
	return &kgo.Record{
		Partition: topics.Partition(key, int32(b.Config.Topics.Partitions)), Key: key, Value: payload,
		Headers: []kgo.RecordHeader{
			{Key: "wc-fire-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
			{Key: "wc-channel", Value: []byte("webhook")},
			{Key: "wc-callback-url", Value: []byte(url + "/bench")},
		},
	}
}

func (b *webhookRun) close() {
	if b.worker != nil && b.worker.cmd.Process != nil {
		_ = b.worker.cmd.Process.Kill()
		_ = b.worker.cmd.Wait()
	}
	close(b.closing)
	for _, s := range b.servers {
		s.Close()
	}
	if b.broker != nil {
		b.broker.Close()
	}
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
