package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// readers says whether some consumer group reads a channel's due topic. It is for a
// note, so it never holds a write up: Kafka is asked beside it, and what is not
// known when the answer goes out is not said.
type readers struct {
	kafka *producer.Producer

	mu     sync.Mutex
	topics map[string]bool // nil: not known
	asked  time.Time
	asking chan struct{} // closed when the answer is there; nil: nobody asks
}

// Bounds of what is known: for how long, and how long one question may take.
const (
	readersFor    = 30 * time.Second // of a topic that is read
	nobodyFor     = 2 * time.Second  // of one that is not: its worker may be starting
	readersWithin = 2 * time.Second
	// readersWait is how long a note may wait for the first answer. The write is
	// durable and decided by then.
	readersWait = 250 * time.Millisecond
)

// ask lets Kafka be asked about a topic unless that is known.
func (r *readers) ask(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := nobodyFor
	if r.reads(topic) {
		fresh = readersFor
	}
	if r.asking != nil || time.Since(r.asked) < fresh {
		return
	}
	done := make(chan struct{})
	r.asking = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), readersWithin)
		defer cancel()
		read, err := kafkapart.TopicsRead(ctx, r.kafka.Client())
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked, r.asking = time.Now(), nil
		if r.topics = read; err != nil {
			r.topics = nil
		}
	}()
}

// reads needs the lock.
func (r *readers) reads(topic string) bool {
	return r.topics[topic] || r.topics[topics.HighLane(topic)]
}

// nobody says that it is known that no group reads a topic.
func (r *readers) nobody(topic string) bool {
	r.mu.Lock()
	asking, read := r.asking, r.reads(topic)
	r.mu.Unlock()
	if asking != nil && !read {
		select {
		case <-asking:
		case <-time.After(readersWait):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics != nil && r.asking == nil && !r.reads(topic)
}
