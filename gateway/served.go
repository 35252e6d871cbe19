package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// readers finds out whether a consumer group reads a channel's due topic. This is for a
// note, so it never delays a write: Kafka is asked in the background. What is not known
// when the answer is sent is left out.
type readers struct {
	kafka  *producer.Producer
	except []string // groups that read due topics and answer nothing

	mu     sync.Mutex
	topics map[string]bool // nil: not known
	asked  time.Time
	asking chan struct{} // closed when the answer has come; nil: no question is open
}

// These bound how long an answer is kept, and how long a question may take.
const (
	readersFor    = 30 * time.Second // for a topic that is read
	nobodyFor     = 2 * time.Second  // for one that is not: its worker may be starting
	readersWithin = 2 * time.Second
	// readersWait is how long a note may wait for the first answer. By then the write is
	// durable and decided.
	readersWait = 250 * time.Millisecond
)

// ask asks Kafka about a topic, unless the answer is known.
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
		read, err := kafkapart.TopicsRead(ctx, r.kafka.Client(), r.except...)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked, r.asking = time.Now(), nil
		if r.topics = read; err != nil {
			r.topics = nil
		}
	}()
}

// reads must be called with the lock held.
func (r *readers) reads(topic string) bool {
	return r.topics[topic] || r.topics[topics.HighLane(topic)]
}

// nobody reports whether it is known that no group reads a topic.
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
