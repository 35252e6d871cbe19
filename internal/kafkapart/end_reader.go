package kafkapart

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// EndReader asks leaders where the partitions of one topic end. A leader has one question at a time.
// Whoever asks meanwhile shares the next one, so that a list over many partitions, or many readers,
// cost a few requests. It may be used concurrently.
type EndReader struct {
	leader func(partition int32) (leader, epoch int32, known bool)
	ask    func(leader int32, epochs map[int32]int32) map[int32]int64
	alone  func(ctx context.Context, partition int32) (int64, error)

	mu      sync.Mutex
	leaders map[int32]*leaderQuestions
}

// leaderQuestions are those to one leader.
type leaderQuestions struct {
	asking bool
	next   *endQuestion // not sent yet; nil: there is none
}

// endQuestion is one request. Its answers may be read once done is closed.
type endQuestion struct {
	epochs map[int32]int32 // by partition: the leader's epoch, as the client knows it
	done   chan struct{}
	ends   map[int32]int64 // without those that the leader has refused
}

// NewEndReader makes a reader of the ends that an isolation level sees.
func NewEndReader(cl *kgo.Client, topic string, isolation Isolation) *EndReader {
	return newEndReader(
		func(partition int32) (leader, epoch int32, known bool) {
			leader, epoch, err := cl.PartitionLeader(topic, partition)
			return leader, epoch, err == nil && leader >= 0
		},
		func(leader int32, epochs map[int32]int32) map[int32]int64 {
			return askEnds(cl, leader, topic, epochs, isolation)
		},
		func(ctx context.Context, partition int32) (int64, error) {
			return ListOffset(ctx, cl, topic, partition, isolation, Latest)
		},
	)
}

func newEndReader(
	leader func(partition int32) (leader, epoch int32, known bool),
	ask func(leader int32, epochs map[int32]int32) map[int32]int64,
	alone func(ctx context.Context, partition int32) (int64, error),
) *EndReader {
	return &EndReader{leader: leader, ask: ask, alone: alone, leaders: map[int32]*leaderQuestions{}}
}

// End returns where a partition ends. The leader is asked after the call began. Where the client
// does not know the leader, or the leader refuses, the partition is asked for alone (ListOffset).
func (r *EndReader) End(ctx context.Context, partition int32) (int64, error) {
	if leader, epoch, known := r.leader(partition); known {
		q := r.join(leader, partition, epoch)
		select {
		case <-q.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if end, ok := q.ends[partition]; ok {
			return end, nil
		}
	}
	return r.alone(ctx, partition)
}

// join puts a partition into the next question to a leader.
func (r *EndReader) join(leader, partition, epoch int32) *endQuestion {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leaders[leader]
	if l == nil {
		l = &leaderQuestions{}
		r.leaders[leader] = l
	}
	if l.next == nil {
		l.next = &endQuestion{epochs: map[int32]int32{}, done: make(chan struct{})}
	}
	q := l.next
	q.epochs[partition] = max(q.epochs[partition], epoch)
	if !l.asking {
		l.asking = true
		go r.askAll(leader, l)
	}
	return q
}

// askAll asks a leader until nobody has another question.
func (r *EndReader) askAll(leader int32, l *leaderQuestions) {
	for {
		r.mu.Lock()
		q := l.next
		if l.next = nil; q == nil {
			l.asking = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		q.ends = r.ask(leader, q.epochs)
		close(q.done)
	}
}

// askEnds sends one question. No reader's context ends it, because it is shared: kgo's timeouts do.
// The leader epochs go with it, so that no leader answers that the client knows to be deposed.
func askEnds(cl *kgo.Client, leader int32, topic string, epochs map[int32]int32, isolation Isolation) map[int32]int64 {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, int8(isolation)
	asked := offsetsOf(topic, Latest, slices.Sorted(maps.Keys(epochs))...)
	for i := range asked.Partitions {
		p := &asked.Partitions[i]
		p.CurrentLeaderEpoch = epochs[p.Partition]
	}
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(context.Background(), cl.Broker(int(leader)))
	if err != nil {
		return nil // each is asked for alone, which finds out why
	}
	ends := make(map[int32]int64, len(epochs))
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if end, err := endOf(cl, topic, p); t.Topic == topic && err == nil {
				ends[p.Partition] = end
			}
		}
	}
	return ends
}
