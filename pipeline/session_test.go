package pipeline

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newSession is a session in its first transaction, whose client has not filed
// yet where the first record goes, and does when it is released: until a second
// record has been refused a partition.
func newSession(t *testing.T, opts ...kgo.Opt) (s *session, release func()) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	choosing, released := make(chan struct{}), make(chan struct{})
	choose := func(r *kgo.Record, _ int) int {
		if string(r.Value) == "second" {
			close(choosing)
			<-released
			return -1
		}
		return 0
	}
	opts = append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.MetadataMaxAge(time.Hour),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int { return choose })))
	s, err = openSession(&Options{TransactionTimeout: time.Minute, FetchMaxWait: time.Second, Kafka: opts}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"first", "second"} {
		s.produce(t.Context(), &kgo.Record{Topic: "state", Value: []byte(value)})
	}
	<-choosing
	return s, release
}

// TestFirstFlush: kgo's would let the first record linger.
func TestFirstFlush(t *testing.T) {
	s, release := newSession(t, kgo.ProducerLinger(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than a linger
	defer cancel()
	flushed := make(chan error, 1)
	go func() { flushed <- s.flush(ctx) }()
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
