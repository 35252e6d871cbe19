package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

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
	s, err = openSession(&Options{TransactionTimeout: time.Minute, FetchMaxWait: time.Second, Kafka: opts}, 0)
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
