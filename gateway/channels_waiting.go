package gateway

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// waitingCounts says how many due events wait on channels.
type waitingCounts struct {
	group func(channel string) string // of a channel's worker; nil: nobody knows
	kafka *producer.Producer
	known *shared[map[string]int64] // by channel
}

// counts is how many due events of each channel the group of its worker has not read. A channel whose group has read
// nothing, or that we may not ask about, is left out. Nobody may change all afterwards.
func (s *waitingCounts) counts(ctx context.Context, all map[string]Channel) (map[string]int64, error) {
	return s.known.get(ctx, func(ctx context.Context) (map[string]int64, error) { return s.read(ctx, all) })
}

// read asks Kafka.
func (s *waitingCounts) read(ctx context.Context, all map[string]Channel) (map[string]int64, error) {
	counts := map[string]int64{}
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
