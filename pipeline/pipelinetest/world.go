// Package pipelinetest is the world the engine's tests run in: a broker, the
// topics, engines that come and go, and readers of what they wrote.
package pipelinetest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Options of a world.
type Options struct {
	Partitions int32 // 0 means 2
	Brokers    []string
	Prefix     string // of topics; "" means waterclock.
	Change     func(*pipeline.Options)
	Quiet      bool
}

// World is one cluster with Waterclock's topics on it.
type World struct {
	T     testing.TB
	Names topics.Names
	P     int32

	opts    Options
	brokers []string
	dir     string
	client  *kgo.Client
	mu      sync.Mutex
	engines map[string]*Node
}

// Node is one engine of a world.
type Node struct {
	*pipeline.Engine
	cancel context.CancelFunc
	done   chan error
}

// New makes a world, on an in-process broker unless Options names others.
func New(t testing.TB, o Options) *World {
	t.Helper()
	if o.Partitions == 0 {
		o.Partitions = 2
	}
	if o.Prefix == "" {
		o.Prefix = "waterclock."
	}
	w := &World{T: t, P: o.Partitions, Names: topics.Names{Prefix: o.Prefix}, opts: o, brokers: o.Brokers, dir: t.TempDir(), engines: map[string]*Node{}}
	if len(w.brokers) == 0 {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}))
		if err != nil {
			t.Fatalf("kfake: %v", err)
		}
		t.Cleanup(c.Close)
		w.brokers = c.ListenAddrs()
	}
	var err error
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	t.Cleanup(w.client.Close)
	t.Cleanup(w.StopAll)
	w.createTopics()
	return w
}

func (w *World) createTopics() {
	adm := kadm.NewClient(w.client)
	for _, topic := range topics.Catalogue(w.Names, w.P, 1, []string{"default", "orders"}) {
		configs := map[string]*string{}
		for k, v := range topic.Configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(w.Context(), topic.Partitions, 1, configs, topic.Name); err != nil {
			w.T.Fatalf("create %s: %v", topic.Name, err)
		}
	}
}

// Configure sets a topic's setting.
func (w *World) Configure(topic, name, value string) {
	w.T.Helper()
	_, err := kadm.NewClient(w.client).AlterTopicConfigs(w.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		w.T.Fatalf("%s of %s: %v", name, topic, err)
	}
}

// Context ends with the test's patience.
func (w *World) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	w.T.Cleanup(cancel)
	return ctx
}

// Start runs an engine. The name is also its disk: the same name again finds
// what the last one left.
func (w *World) Start(name string, change ...func(*pipeline.Options)) *Node {
	w.T.Helper()
	o := pipeline.Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers(w.brokers...)}, Names: w.Names, Partitions: w.P, Group: w.Names.Prefix + "engine",
		Dir: filepath.Join(w.dir, name), Channels: Channels{Names: w.Names}, ManageTopics: true, Replication: 1,
		EventsPayload: true, FetchMaxWait: time.Second, SessionTimeout: 6 * time.Second,
	}
	o.Machine.Timetable = &trigger.Timetable{Zones: calendar.Embedded()}
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	if !w.opts.Quiet {
		o.Logger = slog.New(slog.NewTextHandler(testWriter{w.T}, nil)).With("node", name)
	}
	if w.opts.Change != nil {
		w.opts.Change(&o)
	}
	for _, c := range change {
		c(&o)
	}
	e, err := pipeline.New(o)
	if err != nil {
		w.T.Fatalf("engine %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{Engine: e, cancel: cancel, done: make(chan error, 1)}
	go func() { n.done <- e.Run(ctx) }()
	w.mu.Lock()
	w.engines[name] = n
	w.mu.Unlock()
	return n
}

// Stop ends an engine cleanly.
func (n *Node) Stop() error {
	n.cancel()
	err := <-n.done
	n.done <- err
	return err
}

// StopAll ends every engine.
func (w *World) StopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.engines {
		_ = n.Stop()
		delete(w.engines, name)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

// Channels are the settings of the tests: every channel exists and has no
// receipts, unless its name begins with r-.
type Channels struct{ Names topics.Names }

func (c Channels) Known(string) bool    { return false }
func (c Channels) AutoCreate() bool     { return true }
func (c Channels) Configured() []string { return nil }
func (c Channels) Settings(name string) pipeline.ChannelSettings {
	s := pipeline.ChannelSettings{}
	s.Topic = c.Names.Due(name)
	s.ReceiptTimeout, s.Retry = time.Hour, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	s.Receipts = len(name) > 2 && name[:2] == "r-"
	return s
}

// Send appends a command in JSON on its right partition and returns where.
func (w *World) Send(key, body string) *kgo.Record {
	w.T.Helper()
	return w.SendTo(topics.Partition([]byte(key), w.P), key, body)
}

// SendTo appends a command on a partition of the caller's choice.
func (w *World) SendTo(partition int32, key, body string, headers ...kgo.RecordHeader) *kgo.Record {
	w.T.Helper()
	r := &kgo.Record{Topic: w.Names.Commands(), Partition: partition, Key: []byte(key), Headers: headers}
	if body != "" {
		r.Value = []byte(body)
	}
	if err := w.client.ProduceSync(w.Context(), r).FirstErr(); err != nil {
		w.T.Fatalf("send %s: %v", key, err)
	}
	return r
}

// SendBatch appends a batch as it is, and returns its first offset.
func (w *World) SendBatch(topic string, partition int32, batch []byte) int64 {
	w.T.Helper()
	at, err := rawbatch.Send(w.Context(), w.client, topic, partition, batch)
	if err != nil {
		w.T.Fatalf("send a batch of %d bytes: %v", len(batch), err)
	}
	return at
}

// Receipt appends a receipt on its right partition.
func (w *World) Receipt(key, body string) {
	w.T.Helper()
	r := &kgo.Record{Topic: w.Names.Receipts(), Partition: topics.Partition([]byte(key), w.P), Key: []byte(key), Value: []byte(body)}
	if err := w.client.ProduceSync(w.Context(), r).FirstErr(); err != nil {
		w.T.Fatalf("receipt of %s: %v", key, err)
	}
}

// SendAll appends many commands, without waiting for each.
func (w *World) SendAll(n int, command func(i int) (key, body string)) {
	w.T.Helper()
	ctx := w.Context()
	var mu sync.Mutex
	var failed error
	for i := range n {
		key, body := command(i)
		r := &kgo.Record{Topic: w.Names.Commands(), Partition: topics.Partition([]byte(key), w.P), Key: []byte(key), Value: []byte(body)}
		w.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	if err := w.client.Flush(ctx); err != nil || failed != nil {
		w.T.Fatalf("send: %v %v", err, failed)
	}
}

// Tail reads a topic from its beginning, committed records only.
func (w *World) Tail(topic string) *Tail {
	w.T.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		w.T.Fatalf("tail %s: %v", topic, err)
	}
	w.T.Cleanup(cl.Close)
	return &Tail{w: w, cl: cl, topic: topic}
}

// Tail is a reader of one topic.
type Tail struct {
	w     *World
	cl    *kgo.Client
	topic string
	held  []*kgo.Record
}

// Next waits for the next record.
func (t *Tail) Next() *kgo.Record {
	t.w.T.Helper()
	return t.Take(1)[0]
}

// Take waits for the next n records.
func (t *Tail) Take(n int) []*kgo.Record {
	t.w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for len(t.held) < n {
		fs := t.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.w.T.Fatalf("waiting for %d records of %s: have %d", n, t.topic, len(t.held))
		}
		t.held = append(t.held, fs.Records()...)
	}
	out := t.held[:n:n]
	t.held = t.held[n:]
	return out
}

// Quiet fails if another record comes within d.
func (t *Tail) Quiet(d time.Duration) {
	t.w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for ctx.Err() == nil {
		t.held = append(t.held, t.cl.PollFetches(ctx).Records()...)
		if len(t.held) > 0 {
			t.w.T.Fatalf("unexpected record on %s: %s", t.topic, t.held[0].Key)
		}
	}
}

// Event waits for the next event of a type about a key.
func (t *Tail) Event(key string, typ trigger.FactType) topics.Event {
	t.w.T.Helper()
	for {
		e, err := topics.DecodeEvent(t.Next().Value)
		if err != nil {
			t.w.T.Fatalf("event: %v", err)
		}
		if e.Trigger == key && e.Type == string(typ) {
			return e
		}
	}
}

// Header is the value of a record's header, "" without it.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// WaitReady waits until a node owns all partitions and they fire.
func (w *World) WaitReady(n *Node) {
	w.T.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		ready := 0
		for _, s := range n.Partitions() {
			if s.Ready {
				ready++
			}
		}
		if ready == int(w.P) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.T.Fatal("the engine did not get ready: " + fmt.Sprint(n.Partitions()))
}

// Setting writes a record of topic control; its arguments are what topics'
// encoders return.
func (w *World) Setting(key, value []byte, err error) {
	w.T.Helper()
	if err == nil {
		err = w.client.ProduceSync(w.Context(), &kgo.Record{Topic: w.Names.Control(), Key: key, Value: value}).FirstErr()
	}
	if err != nil {
		w.T.Fatalf("setting %s: %v", key, err)
	}
}

// Release activates a tz database.
func (w *World) Release(label string, zip []byte) {
	w.T.Helper()
	key, value, headers, err := topics.EncodeTZData(topics.TZData{Label: label, Zip: zip})
	r := &kgo.Record{Topic: w.Names.Control(), Key: key, Value: value}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if err == nil {
		err = w.client.ProduceSync(w.Context(), r).FirstErr()
	}
	if err != nil {
		w.T.Fatalf("tz release: %v", err)
	}
}

// Eventually waits for something that has no record to wait for.
func (w *World) Eventually(what string, holds func() bool) {
	w.T.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.T.Fatalf("in vain: %s", what)
}
