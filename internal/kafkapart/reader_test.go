package kafkapart

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
)

// TestReadFrom reads what is committed and nothing else, up to the first open
// transaction, waits there, and finds a leader that has moved.
func TestReadFrom(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	s, state := NewReader(client()), TopicPartition{"state", 0}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	foreign := client(kgo.TransactionalID("foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(values ...string) {
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := foreign.ProduceSync(ctx, &kgo.Record{Topic: "state", Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(how kgo.TransactionEndTry) {
		if err := producer.EndTransaction(ctx, foreign, how); err != nil {
			t.Error(err)
		}
	}
	read := func(from int64) (values []string, next int64) {
		fs, next, err := s.ReadFrom(ctx, state, from, ReadCommitted, kgo.DefaultDecompressor())
		if err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
		return values, next
	}

	write("a", "b")
	end(kgo.TryCommit)
	write("lost")
	end(kgo.TryAbort)
	write("c")
	got, next := read(1)
	for next < 5 { // a broker may answer with less than there is
		var more []string
		more, next = read(next)
		got = append(got, more...)
	}
	if !slices.Equal(got, []string{"b"}) || next != 5 {
		t.Errorf("read %q up to %d, want b up to the open transaction at 5", got, next)
	}
	if err := c.MoveTopicPartition("state", 0, (LeaderOf(s.known["state"], 0).Leader+1)%3); err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 100)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		waits <- struct{}{}
		return nil, nil, false
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3 { // the old leader, the new one, and the new one again
			<-waits
		}
		end(kgo.TryCommit)
	}()
	if got, _ := read(next); !slices.Equal(got, []string{"c"}) {
		t.Errorf("read %q, want c", got)
	}
	<-ended

	if _, _, err := s.ReadFrom(ctx, state, 100, ReadCommitted, kgo.DefaultDecompressor()); !errors.Is(err,
		kerr.OffsetOutOfRange) {
		t.Errorf("read beyond the end: %v", err)
	}
	_, next = read(next)
	gone, cancelled := context.WithTimeout(ctx, 5*Pause)
	defer cancelled()
	if _, _, err := s.ReadFrom(gone, state, next, ReadCommitted, kgo.DefaultDecompressor()); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("read at the end: %v", err)
	}
}
