package producer_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/producer/producertest"
)

// newcomer is a client in its first transaction. Its first record has been
// handed to a sink; the filing of partitions is held up until release.
type newcomer struct {
	*kgo.Client
	cluster *kfake.Cluster
	first   *kgo.Record
	sent    chan error // of the first record
	release func()
}

func newNewcomer(t *testing.T, opts ...kgo.Opt) *newcomer {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	opt, held, release := producertest.HoldFiling()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("x"),
		kgo.DefaultProduceTopic("t"), opt)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	t.Cleanup(release) // before the client is closed
	n := &newcomer{
		Client: cl, cluster: c, first: kgo.StringRecord("first"), sent: make(chan error, 1),
		release: release,
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	cl.Produce(t.Context(), n.first, func(_ *kgo.Record, err error) { n.sent <- err })
	cl.Produce(t.Context(), kgo.StringRecord(producertest.Second), func(_ *kgo.Record, err error) {
		if err == nil {
			t.Error("the record without a partition was sent")
		}
	})
	<-held
	return n
}

// where is where the first record goes.
var where = &kgo.Record{Topic: "t"}

// TestCommitIsNoAbort: a commit waits until the client knows what it commits.
func TestCommitIsNoAbort(t *testing.T) {
	n := newNewcomer(t)
	if err := <-n.sent; err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- producer.EndTransaction(t.Context(), n.Client, kgo.TryCommit, where) }()
	select {
	case err := <-ended:
		t.Fatalf("ended before the partition was filed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !n.committed(t) {
		t.Error("the commit returned nil, and its record is not there")
	}
}

// TestCommitGivesUp: it ends with its context, and the transaction stays open.
func TestCommitGivesUp(t *testing.T) {
	n := newNewcomer(t)
	if err := <-n.sent; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := producer.EndTransaction(ctx, n.Client, kgo.TryCommit, where); err == nil {
		t.Error("committed what was not filed")
	}
	n.release()
	if err := producer.EndTransaction(t.Context(), n.Client, kgo.TryCommit, where); err != nil {
		t.Fatal(err)
	}
	if !n.committed(t) {
		t.Error("the commit returned nil, and its record is not there")
	}
}

// TestFlushEndsLingering: also that of a partition which is filed only later.
func TestFlushEndsLingering(t *testing.T) {
	n := newNewcomer(t, kgo.ProducerLinger(time.Minute))
	flushed := make(chan error, 1)
	go func() { flushed <- producer.Flush(t.Context(), n.Client, where) }()
	select {
	case err := <-flushed:
		t.Fatalf("flushed before the partition was filed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.release()
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	if err := <-n.sent; err != nil {
		t.Error(err)
	}
}

// The next two are why there is a Flush and an EndTransaction of ours: when one
// fails, kgo's will do.

func TestKgoTakesItForEmpty(t *testing.T) {
	n := newNewcomer(t)
	if err := <-n.sent; err != nil {
		t.Fatal(err)
	}
	err := n.EndTransaction(t.Context(), kgo.TryCommit)
	n.release()
	if err != nil || n.committed(t) {
		t.Errorf("kgo no longer returns nil for a commit that it made an abort: %v", err)
	}
}

func TestKgoLetsItLinger(t *testing.T) {
	n := newNewcomer(t, kgo.ProducerLinger(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	time.AfterFunc(50*time.Millisecond, n.release)
	if err := n.Flush(ctx); err == nil {
		t.Error("kgo's Flush no longer leaves a record lingering")
	}
}

// committed says whether the first record is.
func (n *newcomer) committed(t *testing.T) bool {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.cluster.ListenAddrs()...), kgo.DefaultProduceTopic("t"),
		kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, kgo.StringRecord("end")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	found := false
	for ctx.Err() == nil {
		for _, r := range cl.PollFetches(ctx).Records() {
			if string(r.Value) == "end" {
				return found
			}
			found = true
		}
	}
	t.Fatal(ctx.Err())
	return false
}
