package gateway

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/topics"
)

// waits adds to each channel how many due events the group of its worker has not read. A
// channel whose group has read nothing, or that we may not ask about, stays without.
func (s *channelAdmin) waits(ctx context.Context, all map[string]Channel) error {
	var names, groups []string
	for name, c := range all {
		if c.Partitions > 0 {
			names = append(names, c.Topic, topics.HighLane(c.Topic))
			groups = append(groups, s.workerGroup(name))
		}
	}
	if len(groups) == 0 {
		return nil
	}
	admin := kadm.NewClient(s.kafka.Client())
	ends, err := admin.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return err
	}
	read := admin.FetchManyOffsets(ctx, groups...)
	for name, c := range all {
		of := read[s.workerGroup(name)]
		if c.Partitions == 0 || of.Err != nil {
			continue
		}
		if n, known := unread(ends, of.Fetched, c.Topic, topics.HighLane(c.Topic)); known {
			c.Waiting = &n
			all[name] = c
		}
	}
	return nil
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
