package pipelinetest

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/topics"
)

// Client is a client of the world's own, beyond all faults of nodes.
func (w *World) Client(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	cl, err := kgo.NewClient(append(w.reach(w.direct), append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(10 * time.Millisecond),
		// the longest that kgo takes: the days without nodes cost less
		kgo.MetadataMaxAge(time.Hour), kgo.ConnIdleTimeout(15 * time.Minute),
	}, opts...)...)...)
	if err != nil {
		w.T.Fatalf("client: %v", err)
	}
	return cl
}

// Kafka is how a program of the test's own reaches the brokers, beyond all faults
// of nodes.
func (w *World) Kafka() []kgo.Opt { return w.reach(w.direct) }

// reach is how the brokers are reached: through a gate, if there is one.
func (w *World) reach(g *gate) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(w.brokers...)}
	if g != nil {
		opts = append(opts, kgo.Dialer(g.dial))
	}
	return opts
}

// Producer is a Client that has its producer id already. kgo holds a mutex while
// it asks for one, and in a bubble no time passes for who waits at a mutex: two
// produces at once would wait for ever for an answer that is to come later.
func (w *World) Producer(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	w.T.Helper()
	cl := w.Client(opts...)
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// Produce appends a record, again and again until it is acknowledged: faults of
// the broker may fail a producer for good, then a new one takes over.
func (w *World) Produce(r *kgo.Record) {
	w.T.Helper()
	var err error
	if !w.await(func() bool {
		err = w.produce(r)
		return err == nil
	}) {
		w.T.Fatalf("%s to %s: never acknowledged: %v", r.Key, r.Topic, err)
	}
}

func (w *World) produce(r *kgo.Record) error {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w.mu.Lock()
	cl := w.client
	w.mu.Unlock()
	copied := *r
	err := cl.ProduceSync(ctx, &copied).FirstErr()
	if err == nil {
		*r = copied
		w.heed(r)
		return nil
	}
	if next, err := w.Producer(ctx); err == nil {
		w.mu.Lock()
		w.client = next
		w.mu.Unlock()
		cl.Close()
	}
	return err
}

// Send appends a command in JSON on its right partition and returns where.
func (w *World) Send(key, body string) *kgo.Record {
	w.T.Helper()
	return w.SendTo(w.Home(key), key, body)
}

// Home is the right partition of a key.
func (w *World) Home(key string) int32 { return topics.Partition([]byte(key), w.P) }

// SendTo appends a command on a partition of the caller's choice, as a producer
// with another hash would.
func (w *World) SendTo(partition int32, key, body string, headers ...kgo.RecordHeader) *kgo.Record {
	w.T.Helper()
	r := w.command(partition, key, body)
	r.Headers = headers
	w.Produce(r)
	return r
}

func (w *World) command(partition int32, key, body string) *kgo.Record {
	r := &kgo.Record{Topic: w.Names.Commands(), Partition: partition, Key: []byte(key)}
	if body != "" {
		r.Value = []byte(body)
	}
	return r
}

// SendAll appends many commands without waiting for each. It must not be used
// while the broker fails.
func (w *World) SendAll(n int, command func(i int) (key, body string)) {
	w.T.Helper()
	w.SendAllTo(-1, n, command)
}

// SendAllTo is SendAll on a partition of the caller's choice; -1 is each key's own.
func (w *World) SendAllTo(partition int32, n int, command func(i int) (key, body string)) {
	w.T.Helper()
	ctx := w.Context()
	var mu sync.Mutex
	var failed error
	for i := range n {
		key, body := command(i)
		on := partition
		if on < 0 {
			on = w.Home(key)
		}
		w.client.Produce(ctx, w.command(on, key, body), func(r *kgo.Record, err error) {
			if err == nil {
				w.heed(r)
				return
			}
			mu.Lock()
			failed = err
			mu.Unlock()
		})
	}
	if err := w.client.Flush(ctx); err != nil || failed != nil {
		w.T.Fatalf("send: %v %v", err, failed)
	}
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
	w.Produce(&kgo.Record{Topic: w.Names.Receipts(), Partition: w.Home(key), Key: []byte(key), Value: []byte(body)})
}

// Setting writes a record of topic control; its arguments are what topics'
// encoders return.
func (w *World) Setting(key, value []byte, err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatalf("setting %s: %v", key, err)
	}
	w.Produce(&kgo.Record{Topic: w.Names.Control(), Key: key, Value: value})
}

// Release activates a tz database.
func (w *World) Release(label string, zip []byte) {
	w.T.Helper()
	key, value, headers, err := topics.EncodeTZData(topics.TZData{Label: label, Zip: zip})
	if err != nil {
		w.T.Fatalf("tz release: %v", err)
	}
	w.Produce(&kgo.Record{Topic: w.Names.Control(), Key: key, Value: value, Headers: kafkarec.Headers(headers)})
}
