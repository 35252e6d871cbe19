package dangling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	ourproducer "github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

// TestWriteMarkers: requests of ours end what a kgo client has begun, in either
// way, and the client goes on with the epoch that it has.
func TestWriteMarkers(t *testing.T) {
	t.Run("kfake", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		writeMarkersOn(t, c.ListenAddrs())
	})
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("needs a JVM")
		}
		writeMarkersOn(t, strings.Split(services.Kafka(t).Bootstrap, ","))
	})
}

func writeMarkersOn(t *testing.T, brokers []string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic := fmt.Sprintf("t%x", rand.Uint32())
	kafka, id := []kgo.Opt{kgo.SeedBrokers(brokers...)}, topic+"-0"
	another := func() *kgo.Client { return producerOf(t, brokers, id) }
	write := func(cl *kgo.Client, partition int32, value string) {
		t.Helper()
		writeOpen(ctx, t, cl, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
	}
	asks := another()
	if _, err := kadm.NewClient(asks).CreateTopic(ctx, 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	all := []TopicPartition{{Topic: topic}, {Topic: topic, Partition: 1}, {Topic: topic + "-is-not-there"}}
	awaitLeaders(ctx, t, asks, all[:2]...)
	if last := Describe(ctx, asks, id); last.How != NeverBegun || last.Err != nil {
		t.Fatalf("before the first transaction: %+v", last)
	}
	var producer int64
	quiet := func(when string) {
		t.Helper()
		if left, err := leftOpen(ctx, asks, producer, all, time.Second); len(left.All()) > 0 || len(left.Unknown) > 0 ||
			err != nil {
			t.Fatalf("%s: %+v, %v", when, left, err)
		}
	}
	for _, commit := range []bool{true, false} {
		name := fmt.Sprint("commit ", commit)
		quiet("before " + name)
		s := another()
		write(s, 1, name)
		var err error
		if producer, _, err = s.ProducerID(ctx); err != nil {
			t.Fatal(err)
		}
		left, err := leftOpen(ctx, asks, producer, all, openWithin)
		if want := []TopicPartition{{Topic: topic, Partition: 1}}; !slices.Equal(left.Ours, want) ||
			len(left.Perhaps) > 0 || err != nil {
			t.Fatalf("%s: %+v, want %v (%v)", name, left, want, err)
		}
		if left, err := leftOpen(ctx, asks, producer+1, all, 0); len(left.All()) > 0 || err != nil {
			t.Errorf("%s: of another producer: %+v, %v", name, left, err)
		}
		if last := Describe(ctx, asks, id); last.How != Aborted || last.Producer != producer || last.Err != nil {
			t.Errorf("%s: under way: %+v", name, last)
		}
		for i, s := range []*kgo.Client{s, another()} { // the second has nothing to end
			producer, epoch, err := s.ProducerID(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if refused, err := writeMarkers(ctx, kafka, txn{id, producer, epoch},
				append(left.Ours, TopicPartition{Topic: topic + "-is-not-there"}), commit); len(refused) != 1 ||
				err != nil {
				t.Fatal(refused, err)
			}
			quiet("after " + name)
			if i == 1 { // it goes on
				write(s, 0, "after "+name)
				if err := ourproducer.EndTransaction(ctx, s, kgo.TryCommit); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	quiet("at the end")
	ends, _ := kafkapart.Ends(ctx, asks, all, kafkapart.ReadCommitted)
	if got := committedValues(ctx, t, brokers, ends); !slices.Equal(got,
		[]string{"after commit false", "after commit true", "commit true"}) {
		t.Errorf("committed are %q", got)
	}
}

// TestFindEnding: when nobody knows any more how a turn ended, it was complete if
// its progress lies in what is open of topic state.
func TestFindEnding(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	state := TopicPartition{Topic: "state"}
	for _, test := range []struct {
		name string
		keys []string
		open []TopicPartition
		want Ending
	}{
		{"with progress", []string{"k", string(topics.KeyProgress)}, []TopicPartition{state}, Committed},
		{"without", []string{"k", "l"}, []TopicPartition{state}, Aborted},
		{"nothing in state", nil, []TopicPartition{{Topic: "due"}}, Aborted},
	} {
		t.Run(test.name, func(t *testing.T) {
			cl := producerOf(t, c.ListenAddrs(), "g-0")
			var records []*kgo.Record
			for _, key := range test.keys {
				records = append(records, &kgo.Record{Topic: "state", Key: []byte(key)})
			}
			writeOpen(t.Context(), t, cl, records...)
			r := Resolver{Config{Client: cl, Reader: kafkapart.NewReader(cl), State: state}}
			if how, err := r.findEnding(t.Context(), test.open); how != test.want || err != nil {
				t.Errorf("%q, %v, want %q", how, err, test.want)
			}
			_ = cl.EndTransaction(t.Context(), kgo.TryAbort)
		})
	}
}

// TestFindEndingIsBounded: what a batch may take is bounded as the client bounds it.
func TestFindEndingIsBounded(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	errBound := errors.New("too much")
	cl := producerOf(t, c.ListenAddrs(), "g-0", kgo.WithDecompressor(refusing{errBound}),
		kgo.ProducerBatchCompression(kgo.GzipCompression()))
	writeOpen(t.Context(), t, cl, &kgo.Record{Topic: "state", Key: topics.KeyProgress, Value: make([]byte, 10_000)})
	state := TopicPartition{Topic: "state"}
	r := Resolver{Config{Client: cl, Reader: kafkapart.NewReader(cl), State: state}}
	if how, err := r.findEnding(t.Context(), []TopicPartition{state}); !errors.Is(err, errBound) {
		t.Errorf("%q, %v", how, err)
	}
	_ = cl.EndTransaction(t.Context(), kgo.TryAbort)
}

type refusing struct{ err error }

func (r refusing) Decompress([]byte, kgo.CompressionCodecType) ([]byte, error) { return nil, r.err }

// producerOf is a client with a transactional id.
func producerOf(t *testing.T, brokers []string, id string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(brokers...), kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// awaitLeaders waits until the partitions of a new topic answer: for a moment a broker says that it
// does not lead what it was just given.
func awaitLeaders(ctx context.Context, t *testing.T, cl *kgo.Client, all ...TopicPartition) {
	t.Helper()
	if err := kafkapart.Retry(ctx, kerr.IsRetriable, func() error {
		_, missing := kafkapart.Ends(ctx, cl, all, kafkapart.ReadCommitted)
		return errors.Join(slices.Collect(maps.Values(missing))...)
	}); err != nil {
		t.Fatal(err)
	}
}

// writeOpen writes records in a transaction, and leaves it open.
func writeOpen(ctx context.Context, t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committedValues are the committed values of partitions up to their ends,
// sorted.
func committedValues(ctx context.Context, t *testing.T, brokers []string,
	ends map[TopicPartition]int64,
) (got []string) {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{}
	for at := range ends {
		if from[at.Topic] == nil {
			from[at.Topic] = map[int32]kgo.Offset{}
		}
		from[at.Topic][at.Partition] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for len(ends) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		for _, r := range fs.Records() {
			if !r.Attrs.IsControl() {
				got = append(got, string(r.Value))
			}
			if at := (TopicPartition{Topic: r.Topic, Partition: r.Partition}); r.Offset+1 >= ends[at] {
				delete(ends, at)
			}
		}
	}
	slices.Sort(got)
	return got
}
