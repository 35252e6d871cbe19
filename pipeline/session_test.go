package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/producer/producertest"
)

// newSession is a session in its first transaction, whose client has not filed
// yet where the first record goes, and does when it is released.
func newSession(t *testing.T, opts ...kgo.Opt) (s *session, release func()) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	opt, held, release := producertest.HoldFiling()
	opts = append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMaxAge(time.Hour), opt)
	s, err = openSession(testProcess(t, Options{
		TransactionTimeout: time.Minute, FetchMaxWait: time.Second,
		Kafka: opts,
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	t.Cleanup(release) // before the session is closed
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"first", producertest.Second} {
		s.produce(t.Context(), &kgo.Record{Topic: "state", Value: []byte(value)})
	}
	<-held
	return s, release
}

// TestFirstFlush: kgo's would let the first record linger.
func TestFirstFlush(t *testing.T) {
	s, release := newSession(t, kgo.ProducerLinger(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than a linger
	defer cancel()
	flushed := make(chan error, 1)
	go func() { flushed <- s.flush(ctx, none) }()
	time.Sleep(20 * time.Millisecond)
	release()
	if err := <-flushed; err == nil || ctx.Err() != nil {
		t.Errorf("flush: %v; of the two records only the second has failed", err)
	}
}

// TestFirstCommit: kgo's would be an abort.
func TestFirstCommit(t *testing.T) {
	s, release := newSession(t, kgo.ProducerLinger(0))
	ended := make(chan error, 1)
	go func() { ended <- s.commit(t.Context()) }()
	select {
	case err := <-ended:
		t.Fatalf("ended before the client knew what it commits: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFollowAtOnce: the first fetch asks for all that was planned. What it left
// out would wait until the broker answers it for want of records.
func TestFollowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 1000 { // kgo's chance to be off with some
			names = append(names, fmt.Sprintf("topic-%d", i))
		}
		network := &kfake.VirtualNetwork{}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.SeedTopics(1, names...),
			kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fetched := make(chan int, 1)
		c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			fetched <- len(req.(*kmsg.FetchRequest).Topics)
			return nil, nil, false
		})
		s, err := openSession(testProcess(t, Options{
			TransactionTimeout: time.Minute, FetchMaxWait: time.Second,
			Kafka: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(network.DialContext)},
		}), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		for _, name := range names {
			s.plan(name, 0, 0)
		}
		s.follow(t.Context())
		if got := <-fetched; got != len(names) {
			t.Errorf("the first fetch has %d topics of %d", got, len(names))
		}
	})
}

// testProcess is a process without an engine.
func testProcess(t *testing.T, o Options) *Process {
	t.Helper()
	batches, err := decompress.New(0)
	if err != nil {
		t.Fatal(err)
	}
	return &Process{Options: o, batches: batches}
}

// none of the topics may be spared.
func none(string) bool { return false }

// TestTransactionalID: whoever opens a partition, and whenever, takes the same id.
// It is what fences the owner before, also one of another version.
func TestTransactionalID(t *testing.T) {
	o := Options{Group: "waterclock"}
	for range 2 {
		if got, want := o.transactionalID(7), "waterclock-7"; got != want {
			t.Errorf("transactional.id %q, want %q", got, want)
		}
		time.Sleep(time.Millisecond)
	}
}
