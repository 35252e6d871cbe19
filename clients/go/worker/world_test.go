package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience bounds how long a test waits.
const patience = 60 * time.Second

const (
	dueTopic     = "waterclock.due.print"
	receiptTopic = "waterclock.receipts"
	testGroup    = "waterclock.print"
)

// world is a cluster with the topics of channel print.
type world struct {
	t       testing.TB
	cluster *kfake.Cluster
	cl      *kgo.Client
	parts   int32
}

func newWorld(t testing.TB, parts int32) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &world{t: t, cluster: cluster, parts: parts}
	w.create(dueTopic)
	w.create(receiptTopic)
	if w.cl, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	return w
}

func (w *world) create(topic string) {
	w.t.Helper()
	stamped := map[string]string{"message.timestamp.type": "LogAppendTime"}
	if err := w.cluster.CreateTopic(topic, w.parts, stamped); err != nil {
		w.t.Fatal(err)
	}
}

// due is a due event to write.
type due struct {
	key, target string
	attempt     int
	postponed   int
	topic       string
	partition   int32
	value       string
	headers     map[string]string
}

func (d due) record() *kgo.Record {
	def := func(v *string, to string) {
		if *v == "" {
			*v = to
		}
	}
	target := d.target
	def(&d.topic, dueTopic)
	def(&target, d.key)
	r := &kgo.Record{Topic: d.topic, Partition: d.partition, Key: []byte(target), Value: []byte(d.value)}
	headers := [][2]string{
		{"ce_specversion", "1.0"},
		{"ce_id", d.id()},
		{"ce_source", "/waterclock/test"},
		{"ce_type", DueType},
		{"ce_subject", d.key},
		{"ce_time", "2026-11-20T14:00:00.000Z"},
		{"ce_wcfired", "2026-11-20T14:00:00.003Z"},
		{"ce_wcrevision", "1"},
		{"ce_wcattempt", strconv.Itoa(max(d.attempt, 1))},
		{"ce_wcstep", "0"},
	}
	if d.postponed > 0 {
		headers = append(headers, [2]string{"ce_wcpostponed", strconv.Itoa(d.postponed)})
	}
	for _, h := range headers {
		if v, ok := d.headers[h[0]]; ok {
			if h[1] = v; v == "-" {
				continue
			}
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	for name, v := range d.headers {
		if v != "-" && !hasHeader(headers, name) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
	}
	return r
}

func hasHeader(hs [][2]string, name string) bool {
	for _, h := range hs {
		if h[0] == name {
			return true
		}
	}
	return false
}

func (d due) id() string { return d.key + "@2026-11-20T14:00:00.000Z#0" }

func (w *world) write(dues ...due) {
	w.t.Helper()
	records := make([]*kgo.Record, len(dues))
	for i, d := range dues {
		records[i] = d.record()
	}
	if err := w.cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// run is a running worker.
type run struct {
	t    testing.TB
	stop context.CancelFunc
	done chan error
	net  *network
}

// start runs a worker. The end of the test drains it.
func (w *world) start(handle Handler, opts ...Option) *run {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &network{}
	r := &run{t: w.t, stop: cancel, done: make(chan error, 1), net: n}
	all := append([]Option{
		Brokers(w.cluster.ListenAddrs()...), CommitInterval(20 * time.Millisecond),
		Kafka(kgo.Dialer(n.dial), kgo.SessionTimeout(2*time.Second), kgo.HeartbeatInterval(200*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })),
		Logger(slog.New(slog.NewTextHandler(testLog{w.t}, nil))),
		func(o *options) { o.receiptBackoff = 50 * time.Millisecond },
	}, opts...)
	go func() { r.done <- Run(ctx, "print", handle, all...) }()
	w.t.Cleanup(func() {
		cancel()
		r.wait()
	})
	return r
}

// drain ends a worker and returns the result of Run.
func (r *run) drain() error {
	r.stop()
	return r.wait()
}

func (r *run) wait() error {
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(patience):
		r.t.Error("Run does not end")
		return nil
	}
}

// kill ends a worker like kill -9: nothing that it does later reaches the brokers.
func (r *run) kill() {
	r.net.cut()
	r.stop()
}

// logged collects log output.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// testLog writes to the test's log until the test has ended.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() != nil {
		return io.Discard.Write(b)
	}
	l.t.Logf("%s", b)
	return len(b), nil
}

// network is one worker's connection to the brokers. It can be cut.
type network struct {
	mu    sync.Mutex
	conns []net.Conn
	gone  bool
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return nil, fmt.Errorf("the network is cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = true
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = false
}

// written is a receipt as the topic has it.
type written struct {
	Receipt   map[string]any
	Key       string
	Partition int32
	Offset    int64
}

func (r written) text(name string) string { s, _ := r.Receipt[name].(string); return s }

// receipts waits until there are at least n receipts, and returns all of them.
func (w *world) receipts(n int) []written {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics(receiptTopic))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	var all []written
	for len(all) < n {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("%d receipts, want %d: %v", len(all), n, all)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			one := written{Key: string(r.Key), Partition: r.Partition, Offset: r.Offset}
			if err := json.Unmarshal(r.Value, &one.Receipt); err != nil {
				w.t.Errorf("receipt %q: %v", r.Value, err)
			}
			all = append(all, one)
		})
	}
	return all
}

// receiptCount returns the current number of receipts.
func (w *world) receiptCount() (n int) {
	w.t.Helper()
	for p := range w.parts {
		n += int(w.cluster.PartitionInfo(receiptTopic, p).HighWatermark)
	}
	return n
}

// committedAt returns the group's offset of a partition, or -1 if there is none.
func (w *world) committedAt(topic string, partition int32) int64 {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.cl).FetchOffsets(context.Background(), testGroup)
	if err != nil {
		return -1
	}
	at, ok := offsets.Lookup(topic, partition)
	if !ok {
		return -1
	}
	return at.At
}

// eventually waits until ok is true.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("not in %v: %s", patience, what)
}

// calls counts handler calls by ce_id and attempt.
type calls struct {
	mu   sync.Mutex
	seen []string
}

func (c *calls) note(e *DueEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, fmt.Sprintf("%s/%d", e.Key, e.Attempt))
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

// counting counts the calls of Metrics.
type counting struct {
	NoMetrics
	mu        sync.Mutex
	skipped   map[SkipReason]int
	garbled   map[string]int
	abandoned int
	failed    int
	commits   int
	load      Load
	most      Load
}

func newCounting() *counting {
	return &counting{skipped: map[SkipReason]int{}, garbled: map[string]int{}}
}

func (c *counting) Skipped(r SkipReason) { c.do(func() { c.skipped[r]++ }) }
func (c *counting) Garbled(h string)     { c.do(func() { c.garbled[h]++ }) }
func (c *counting) Abandoned()           { c.do(func() { c.abandoned++ }) }
func (c *counting) ReceiptFailed()       { c.do(func() { c.failed++ }) }
func (c *counting) CommitFailed()        { c.do(func() { c.commits++ }) }

func (c *counting) Load(l Load) {
	c.do(func() {
		c.load = l
		c.most.Buffered, c.most.Bytes = max(c.most.Buffered, l.Buffered), max(c.most.Bytes, l.Bytes)
		c.most.Paused = max(c.most.Paused, l.Paused)
	})
}

func (c *counting) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counting) get(f func(*counting) int) (n int) {
	c.do(func() { n = f(c) })
	return n
}
