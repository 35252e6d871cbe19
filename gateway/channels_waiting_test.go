package gateway

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// TestChannelsSayWhatWaits: of a channel whose worker's group has committed offsets, a list says how many due events
// it has not read. The markers of transactions do not make a group look behind that has read all.
func TestChannelsSayWhatWaits(t *testing.T) {
	now := &clock{at: time.Now()}
	w := newWorld(t, func(o *Options) {
		o.Now, o.WorkerGroup = now.read, func(channel string) string { return "g." + channel }
	})
	topic := topics.Names{}.Due("made")
	w.createTopic(topic)
	w.createTopic(topics.HighLane(topic))
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.TransactionalID("engine"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	write := func(topic string, n int) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range n {
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte("due")}, nil)
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(topic string, at int64) {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: at})
		if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g.made", offsets); err != nil {
			t.Fatal(err)
		}
	}
	requires := func(want string) {
		t.Helper()
		now.add(sharedAge)
		list := w.must(http.StatusOK, "GET", "/v1/channels", "").body
		_, of, _ := strings.Cut(list, `"name":"made"`)
		of, _, _ = strings.Cut(of, "}")
		if _, got, _ := strings.Cut(of, `"waiting":`); got != want {
			t.Errorf("%q wait, want %q: %s", got, want, of)
		}
	}
	write(topic, 3)
	requires("")
	commit(topic, 1)
	requires("2")
	commit(topic, 3)
	requires("0")
	write(topics.HighLane(topic), 5)
	commit(topics.HighLane(topic), 0)
	requires("5")
}

// TestChannelsAskKafkaOnce: of twenty consoles that ask at one time, and of each that asks within five seconds, one
// puts the question to Kafka.
func TestChannelsAskKafkaOnce(t *testing.T) {
	now := &clock{at: time.Now()}
	w := newWorld(t, func(o *Options) {
		o.Now, o.WorkerGroup = now.read, func(channel string) string { return "g." + channel }
	})
	w.createTopic(topics.Names{}.Due("made"))
	var asked, topicsAsked atomic.Int64
	w.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	w.cluster.ControlKey(int16(kmsg.Metadata), func(q kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		if q.(*kmsg.MetadataRequest).Topics == nil { // of all topics: a client of its own asks for those it knows
			topicsAsked.Add(1)
		}
		return nil, nil, false
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { w.call("GET", "/v1/channels", "") })
	}
	all.Wait()
	now.add(sharedAge - time.Millisecond)
	w.must(http.StatusOK, "GET", "/v1/channels", "")
	if n := asked.Load(); n != 1 {
		t.Errorf("Kafka was asked %d times", n)
	}
	if n := topicsAsked.Load(); n != 1 {
		t.Errorf("Kafka was asked %d times for its topics", n)
	}
	now.add(answerAge)
	w.must(http.StatusOK, "GET", "/v1/channels", "")
	if n := asked.Load(); n != 2 {
		t.Errorf("after %v Kafka was asked %d times", sharedAge+answerAge, n)
	}
}
