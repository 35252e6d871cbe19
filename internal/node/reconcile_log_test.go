package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// logOf asks a broker like the engine.
type logOf struct{ cl *kgo.Client }

func (l logOf) OffsetAt(ctx context.Context, topic string, partition int32, at trigger.Instant) (int64, error) {
	timestamp := int64(at)
	if at == 0 {
		timestamp = kafkapart.Earliest
	}
	return kafkapart.ListOffset(ctx, l.cl, topic, partition, kafkapart.ReadCommitted, timestamp)
}

func (l logOf) EndOf(ctx context.Context, topic string, partition int32) (int64, error) {
	return kafkapart.ListOffset(ctx, l.cl, topic, partition, kafkapart.ReadCommitted, kafkapart.Latest)
}

// withTopic starts a broker with one topic, and returns the options of its clients.
func withTopic(t *testing.T, topic string) (*kgo.Client, []kgo.Opt) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	opts := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	cl, err := kgo.NewClient(append(opts[:1:1], kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl, opts
}

// A due event is found by its instant, among other due events and records that are not due
// events. If the topic has deleted it, or no longer exists, that is not an error, because nothing
// can repair it.
func TestReadDue(t *testing.T) {
	const topic = "waterclock.due.push"
	cl, opts := withTopic(t, topic)
	begin := trigger.At(time.Date(2026, 11, 25, 7, 30, 0, 0, time.UTC))
	produce := func(at trigger.Instant, key string) {
		t.Helper()
		_, value, headers := topics.DueRecord(&trigger.Fire{
			Key: trigger.Key(key), Occurrence: "x", Attempt: 1, Nominal: at, Fired: at,
			Spec: &trigger.Spec{UserID: "ada", Payload: []byte(`{"title":"` + key + `"}`)},
		}, topics.DueEnv{Cluster: "test"})
		rec := &kgo.Record{Topic: topic, Key: []byte(key), Value: value, Timestamp: at.Time()}
		for _, h := range headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const n = 30
	at := func(i int) trigger.Instant { return begin.Add(time.Duration(i) * 10 * time.Second) }
	for i := range n {
		produce(at(i), fmt.Sprint("k", i))
		stranger := &kgo.Record{Topic: topic, Value: []byte("?"), Timestamp: at(i).Time()}
		if err := cl.ProduceSync(t.Context(), stranger).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(of, key string, fired trigger.Instant) (sinks.ContentRecord, bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		r, ok, err := readDue(ctx, logOf{cl}, opts, sinks.DueAt{
			TopicPartition: sinks.TopicPartition{Topic: of}, Fired: fired, ID: key + "@x",
		})
		if err != nil {
			t.Fatalf("%s of %s: %v", key, of, err)
		}
		return r, ok
	}
	for i := range n {
		key := fmt.Sprint("k", i)
		if r, ok := read(topic, key, at(i)); !ok || r.Trigger != key || r.Content.Title != key {
			t.Errorf("%s: %v %+v", key, ok, r)
		}
	}
	if r, ok := read(topic, "k20", at(20).Add(-2*dueWithin)); ok {
		t.Errorf("two minutes off it is found: %+v", r)
	}
	if r, ok := read(topic, "nobody", at(n-1)); ok {
		t.Errorf("what was never there is found: %+v", r)
	}
	if r, ok := read(topic, "k3", at(n).Add(time.Hour)); ok {
		t.Errorf("behind the end it is found: %+v", r)
	}
	if r, ok := read("waterclock.due.gone", "k3", at(3)); ok {
		t.Errorf("in a topic that is gone it is found: %+v", r)
	}
	drop(t, cl, topic, 2*(n/2))
	if r, ok := read(topic, "k3", at(3)); ok {
		t.Errorf("what the topic has dropped is found: %+v", r)
	}
	if _, ok := read(topic, "k20", at(20)); !ok {
		t.Error("what the topic has kept is not found")
	}
}

// drop deletes a topic's records before an offset, like retention.
func drop(t *testing.T, cl *kgo.Client, topic string, before int64) {
	t.Helper()
	to := kadm.Offsets{}
	to.Add(kadm.Offset{Topic: topic, Partition: 0, At: before})
	answers, err := kadm.NewClient(cl).DeleteRecords(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	answers.Each(func(r kadm.DeleteRecordsResponse) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	})
}

// A trigger without events in the history is a leak, unless it last changed before both the
// history and topic events begin. Then it counts in rows_before_history.
func TestRowsBeforeHistory(t *testing.T) {
	topic := topics.Names{}.Events()
	cl, _ := withTopic(t, topic)
	begin := trigger.At(time.Date(2026, 11, 25, 7, 30, 0, 0, time.UTC))
	at := func(i int) trigger.Instant { return begin.Add(time.Duration(i) * time.Minute) }
	for i := range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: topic, Value: []byte("{}"), Timestamp: at(i).Time(),
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(reach trigger.Instant, changed ...int) (leaks, earlier int64) {
		t.Helper()
		c := &rowCheck{
			n: &node{log: slog.New(slog.DiscardHandler)}, log: logOf{cl}, out: &peer.Reconciled{}, reach: reach,
			dry: true,
		}
		for _, i := range changed {
			c.missing = append(c.missing, sinks.Known{Key: trigger.Key(fmt.Sprint("k", i)), At: at(i)})
		}
		if err := c.reportMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		if int64(len(c.out.Leaks)) != c.out.Found {
			t.Errorf("%d leaks are listed, %d found", len(c.out.Leaks), c.out.Found)
		}
		return c.out.Found, c.out.Earlier
	}
	for _, c := range []struct {
		name           string
		dropped        int64
		reach          trigger.Instant
		changed        []int
		leaks, earlier int64
	}{
		{"the topic has everything", 0, 0, []int{-5, 1, 9}, 3, 0},
		{"the topic begins later", 4, 0, []int{1, 3, 5, 9}, 2, 2},
		{"the history reaches further back than the topic", 4, at(2), []int{1, 3, 5}, 2, 1},
		{"the topic is empty", 10, 0, []int{1, 9}, 0, 2},
	} {
		if c.dropped > 0 {
			drop(t, cl, topic, c.dropped)
		}
		leaks, earlier := check(c.reach, c.changed...)
		if leaks != c.leaks || earlier != c.earlier {
			t.Errorf("%s: %d leaks and %d before the history, want %d and %d", c.name, leaks, earlier, c.leaks,
				c.earlier)
		}
	}
	broken := errors.New("no broker")
	c := &rowCheck{n: &node{}, log: noLog{broken}, out: &peer.Reconciled{}, missing: []sinks.Known{{Key: "k"}}}
	if err := c.reportMissing(t.Context()); !errors.Is(err, broken) || c.out.Found+c.out.Earlier != 0 {
		t.Errorf("without a broker: %v, %+v", err, c.out)
	}
}

// noLog returns an error for every request.
type noLog struct{ err error }

func (l noLog) OffsetAt(context.Context, string, int32, trigger.Instant) (int64, error) {
	return 0, l.err
}
func (l noLog) EndOf(context.Context, string, int32) (int64, error) { return 0, l.err }
