package gateway

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/singleflight"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// waitingCounts says how many due events wait on channels. Every open console asks it every ten seconds, so one answer
// serves all who ask within waitingAge, and at most one question to Kafka is under way.
type waitingCounts struct {
	group      func(channel string) string // of a channel's worker; nil: nobody knows
	kafka      *producer.Producer
	readWithin time.Duration
	now        func() time.Time

	flight singleflight.Group
	mu     sync.Mutex
	known  map[string]int64 // by channel
	at     time.Time        // when known was asked for
}

const waitingAge = 5 * time.Second

// add adds to each channel how many due events the group of its worker has not read. A channel whose group has read
// nothing, or that we may not ask about, stays without.
func (s *waitingCounts) add(ctx context.Context, all map[string]Channel) error {
	counts, err := s.counts(ctx, all)
	for name, n := range counts {
		if c, ok := all[name]; ok && c.Partitions > 0 {
			c.Waiting = &n
			all[name] = c
		}
	}
	return err
}

func (s *waitingCounts) counts(ctx context.Context, all map[string]Channel) (map[string]int64, error) {
	if known := s.recent(); known != nil {
		return known, nil
	}
	all = maps.Clone(all) // the caller may leave before the answer comes, and others wait for it
	answer := s.flight.DoChan("", func() (any, error) {
		if known := s.recent(); known != nil { // the question before has just ended
			return known, nil
		}
		return s.read(all)
	})
	select {
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Val.(map[string]int64), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// recent is what is known, or nil if that is too old.
func (s *waitingCounts) recent() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.now().Sub(s.at); age < 0 || age >= waitingAge {
		return nil
	}
	return s.known
}

// read asks Kafka.
func (s *waitingCounts) read(all map[string]Channel) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.readWithin)
	defer cancel()
	at, counts := s.now(), map[string]int64{}
	var names, groups []string
	for name, c := range all {
		if c.Partitions > 0 {
			names = append(names, c.Topic, topics.HighLane(c.Topic))
			groups = append(groups, s.group(name))
		}
	}
	if len(groups) > 0 {
		admin := kadm.NewClient(s.kafka.Client())
		ends, err := admin.ListCommittedOffsets(ctx, names...)
		if err != nil {
			return nil, err
		}
		read := admin.FetchManyOffsets(ctx, groups...)
		for name, c := range all {
			of := read[s.group(name)]
			if c.Partitions == 0 || of.Err != nil {
				continue
			}
			if n, known := unread(ends, of.Fetched, c.Topic, topics.HighLane(c.Topic)); known {
				counts[name] = n
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.at = counts, at
	return counts, nil
}

// unread counts the records between what a group has committed and the end. The marker of the
// last transaction is no due event, and a group that has read all commits the offset before it.
func unread(ends kadm.ListedOffsets, read kadm.OffsetResponses, names ...string) (n int64, known bool) {
	for _, topic := range names {
		for partition, at := range read[topic] {
			end, ok := ends.Lookup(topic, partition)
			if !ok || end.Err != nil || at.Err != nil || at.At < 0 {
				continue
			}
			known = true
			n += max(0, end.Offset-at.At-1)
		}
	}
	return n, known
}
