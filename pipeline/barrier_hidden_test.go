package pipeline

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestFindHidden: an input that ends in what no reader is given is read to its
// end, though nothing comes of it.
func TestFindHidden(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Commands(), names.Receipts()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	foreign, err := kgo.NewClient(seeds, kgo.TransactionalID("foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	o := testProcess(t, Options{
		TransactionTimeout: time.Minute, FetchMaxWait: time.Second, BarrierMaxHold: time.Minute,
		Kafka: []kgo.Opt{seeds},
	})
	o.asker = foreign
	s, err := openSession(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	o.Names, o.Now = names, time.Now
	in := &consumer{opts: o, kafka: s, clock: &brokerClock{clock: clock{limit: o.MaxClockOffset}, opts: o}}
	in.barrier = barrier.New(barrier.Start{Topic: names.Commands()}, barrier.Start{Topic: names.Receipts()},
		time.Minute, time.Now().Add(-time.Minute))
	for range 3 { // three records, three markers
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: names.Commands(), Value: []byte("lost")}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), foreign, kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	r := in.barrier.Begin(trigger.At(time.Now()), barrier.Demand{})
	for q := r.Next(time.Now()); q.Ask != barrier.Nothing; q = r.Next(time.Now()) {
		if err := in.answerBarrier(t.Context(), &r, q); err != nil {
			t.Fatal(err)
		}
	}
	if cmds := &in.barrier.Commands; cmds.At() != 6 || !cmds.Reached() {
		t.Errorf("read up to %d of 6", in.barrier.Commands.At())
	}
}
