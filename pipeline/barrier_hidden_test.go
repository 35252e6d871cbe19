package pipeline

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
)

// TestFindHidden: an input that ends in what no reader is given is read to its
// end, though nothing comes of it.
func TestFindHidden(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "commands"))
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
	o := testProcess(t, Options{TransactionTimeout: time.Minute, FetchMaxWait: time.Second, BarrierMaxHold: time.Minute, Kafka: []kgo.Opt{seeds}})
	o.asker = foreign
	s, err := openSession(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	p := &Partition{opts: o, kafka: s}
	in := &inputBarrier{topic: "commands", tolerated: -1}
	for range 3 {
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: "commands", Value: []byte("lost")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), foreign, kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	in.end = 6 // three records, three markers
	if err := p.findHidden(t.Context(), in); err != nil || !in.reached() {
		t.Errorf("read up to %d of %d, %v", in.at, in.end, err)
	}
}
