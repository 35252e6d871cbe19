package kafkapart

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// A list over 256 partitions of three brokers asks each of them a few times, and not 256 times.
// A leader that has moved is found.
func TestEndReaderAsksTogether(t *testing.T) {
	const partitions = 256
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(partitions, "commands"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var requests atomic.Int64
	c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		requests.Add(1)
		return nil, nil, false
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for p := range int32(partitions) {
		for range p % 3 {
			cl.Produce(t.Context(), &kgo.Record{Topic: "commands", Partition: p, Value: []byte("x")}, nil)
		}
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := NewEndReader(cl, "commands", ReadCommitted)
	list := func(when string, most int64) {
		t.Helper()
		requests.Store(0)
		var all errgroup.Group
		all.SetLimit(32) // as the pages of a list are asked for
		for p := range int32(partitions) {
			all.Go(func() error {
				if end, err := r.End(t.Context(), p); err != nil || end != int64(p%3) {
					return fmt.Errorf("partition %d ends at %d, %w", p, end, err)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if n := requests.Load(); n > most {
			t.Errorf("%s: %d requests, want at most %d", when, n, most)
		}
		t.Logf("%s: %d requests", when, requests.Load())
	}
	list("first", partitions/2)
	list("again", partitions/2)
	if err := c.MoveTopicPartition("commands", 7, (c.LeaderFor("commands", 7)+1)%3); err != nil {
		t.Fatal(err)
	}
	list("after a leader has moved", partitions/2)
}

// Whoever asks while a question is under way is answered by the next one, which is put after that.
// Who gives up ends nobody else's question.
func TestEndReaderAsksAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan map[int32]int32)
		answers := make(chan map[int32]int64)
		r := newEndReader(
			func(int32) (leader, epoch int32, known bool) { return 1, 5, true },
			func(_ int32, epochs map[int32]int32) map[int32]int64 { asked <- epochs; return <-answers },
			func(context.Context, int32) (int64, error) { return 0, errors.New("asked alone") },
		)
		type answer struct {
			end int64
			err error
		}
		call := func(ctx context.Context, p int32) chan answer {
			got := make(chan answer, 1)
			go func() { end, err := r.End(ctx, p); got <- answer{end, err} }()
			synctest.Wait()
			return got
		}
		gone, giveUp := context.WithCancel(t.Context())
		first := call(gone, 7)
		if q := <-asked; len(q) != 1 || q[7] != 5 {
			t.Fatalf("asked for %v", q)
		}
		giveUp()
		if a := <-first; !errors.Is(a.err, context.Canceled) {
			t.Errorf("given up: %+v", a)
		}
		second, third, refused := call(t.Context(), 7), call(t.Context(), 8), call(t.Context(), 9)
		answers <- map[int32]int64{7: 100} // of before the second call
		if q := <-asked; len(q) != 3 {
			t.Errorf("asked for %v, want partitions 7, 8 and 9 together", q)
		}
		answers <- map[int32]int64{7: 101, 8: 3}
		if a := <-second; a.end != 101 || a.err != nil {
			t.Errorf("an end of before the call: %+v", a)
		}
		if a := <-third; a.end != 3 || a.err != nil {
			t.Errorf("partition 8: %+v", a)
		}
		if a := <-refused; a.err == nil || a.err.Error() != "asked alone" {
			t.Errorf("what the leader refused is not asked alone: %+v", a)
		}
	})
}
