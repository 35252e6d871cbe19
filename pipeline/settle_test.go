package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

// TestEndAgain: requests of ours end what a kgo client has begun, in either
// way, and the client goes on with the epoch that it has.
func TestEndAgain(t *testing.T) {
	t.Run("kfake", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		endAgainOn(t, c.ListenAddrs())
	})
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("needs a JVM")
		}
		endAgainOn(t, strings.Split(services.Kafka(t).Bootstrap, ","))
	})
}

func endAgainOn(t *testing.T, brokers []string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic := fmt.Sprintf("t%x", rand.Uint32())
	o := &Options{Group: topic, TransactionTimeout: time.Minute, FetchMaxWait: time.Second, Kafka: []kgo.Opt{kgo.SeedBrokers(brokers...)}}
	another := func() *session {
		t.Helper()
		s, err := openSession(o, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.close)
		return s
	}
	write := func(s *session, partition int32, value string) {
		t.Helper()
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
		s.produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
		if err := s.flush(ctx, none); err != nil {
			t.Fatal(err)
		}
	}
	asks := another()
	if _, err := kadm.NewClient(asks.cl).CreateTopic(ctx, 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	id := o.transactionalID(0)
	if last := asks.lastEnding(ctx, id); last.how != neverBegun || last.err != nil {
		t.Fatalf("before the first transaction: %+v", last)
	}
	places := []kafkapart.TopicPartition{{Topic: topic}, {Topic: topic, Partition: 1}, {Topic: topic + "-is-not-there"}}
	var producer int64
	quiet := func(when string) {
		t.Helper()
		if left, err := asks.leftOpen(ctx, producer, places, time.Second); len(left.all()) > 0 || len(left.unknown) > 0 || err != nil {
			t.Fatalf("%s: %+v, %v", when, left, err)
		}
	}
	for _, commit := range []bool{true, false} {
		name := fmt.Sprint("commit ", commit)
		quiet("before " + name)
		s := another()
		write(s, 1, name)
		var epoch int16
		var err error
		if producer, epoch, err = s.cl.ProducerID(ctx); err != nil {
			t.Fatal(err)
		}
		left, err := asks.leftOpen(ctx, producer, places, openWithin)
		if want := []kafkapart.TopicPartition{{Topic: topic, Partition: 1}}; !slices.Equal(left.ours, want) || len(left.perhaps) > 0 || err != nil {
			t.Fatalf("%s: %+v, want %v (%v)", name, left, want, err)
		}
		if left, err := asks.leftOpen(ctx, producer+1, places, 0); len(left.all()) > 0 || err != nil {
			t.Errorf("%s: of another producer: %+v, %v", name, left, err)
		}
		if last := asks.lastEnding(ctx, id); last.how != aborted || last.producer != producer || last.err != nil {
			t.Errorf("%s: under way: %+v", name, last)
		}
		for _, s := range []*session{s, another()} { // the second has nothing to end
			if producer, epoch, err = s.cl.ProducerID(ctx); err != nil {
				t.Fatal(err)
			}
			if refused, err := endAgain(ctx, o, id, producer, epoch, append(left.ours, kafkapart.TopicPartition{Topic: topic + "-is-not-there"}), commit); len(refused) != 1 || err != nil {
				t.Fatal(refused, err)
			}
			quiet("after " + name)
			if s.new == nil { // it goes on
				write(s, 0, "after "+name)
				if err := s.commit(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	quiet("at the end")
	ends, _ := kafkapart.Ends(ctx, asks.cl, places, kafkapart.ReadCommitted)
	if got := committedValues(ctx, t, brokers, ends); !slices.Equal(got, []string{"after commit false", "after commit true", "commit true"}) {
		t.Errorf("committed are %q", got)
	}
}

// TestTellEnding: when nobody remembers how a turn ended, it was complete if
// its progress lies in what is open of topic state.
func TestTellEnding(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	asker, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asker.Close)
	state := []kafkapart.TopicPartition{{Topic: "state"}}
	for _, test := range []struct {
		name string
		keys []string
		open []kafkapart.TopicPartition
		want ending
	}{
		{"with progress", []string{"k", string(topics.KeyProgress)}, state, committed},
		{"without", []string{"k", "l"}, state, aborted},
		{"nothing in state", nil, []kafkapart.TopicPartition{{Topic: "due"}}, aborted},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &Options{Group: "g", TransactionTimeout: time.Minute, FetchMaxWait: time.Second, asker: asker, Kafka: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}}
			s, err := openSession(o, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if err := s.begin(); err != nil {
				t.Fatal(err)
			}
			for _, key := range test.keys {
				s.produce(t.Context(), &kgo.Record{Topic: "state", Key: []byte(key)})
			}
			if err := s.flush(t.Context(), none); err != nil {
				t.Fatal(err)
			}
			p := &Partition{opts: o, names: ownNames{state: "state"}, kafka: s}
			if how, err := p.tellEnding(t.Context(), test.open); how != test.want || err != nil {
				t.Errorf("%q, %v, want %q", how, err, test.want)
			}
			s.abort(t.Context())
		})
	}
}

// committedValues are the committed values of partitions up to their ends,
// sorted.
func committedValues(ctx context.Context, t *testing.T, brokers []string, ends map[kafkapart.TopicPartition]int64) (got []string) {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{}
	for at := range ends {
		if from[at.Topic] == nil {
			from[at.Topic] = map[int32]kgo.Offset{}
		}
		from[at.Topic][at.Partition] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
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
			if at := (kafkapart.TopicPartition{Topic: r.Topic, Partition: r.Partition}); r.Offset+1 >= ends[at] {
				delete(ends, at)
			}
		}
	}
	slices.Sort(got)
	return got
}
