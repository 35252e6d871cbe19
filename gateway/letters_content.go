package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// letterContents reads dead letters from their topic, for one redrive. Of each
// partition it keeps what was fetched behind the last that was asked for: a
// redrive asks in the order in which they stand.
type letterContents struct {
	from  *topicReader
	ahead map[int32][]*kgo.Record
}

// all returns the records of letters; one that the topic has dropped is nil.
func (c *letterContents) all(ctx context.Context, letters []topics.Letter) ([]*kgo.Record, error) {
	order := make([]int, len(letters))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(letters[a].Partition, letters[b].Partition),
			cmp.Compare(letters[a].Offset, letters[b].Offset))
	})
	out := make([]*kgo.Record, len(letters))
	for _, i := range order {
		var err error
		if out[i], err = c.one(ctx, letters[i].Partition, letters[i].Offset); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// one is the record at a place.
func (c *letterContents) one(ctx context.Context, partition int32, offset int64) (*kgo.Record, error) {
	for fetched := false; ; fetched = true {
		list := c.ahead[partition]
		i, found := slices.BinarySearchFunc(list, offset, func(r *kgo.Record, at int64) int {
			return cmp.Compare(r.Offset, at)
		})
		if found {
			r := list[i]
			c.ahead[partition] = list[i+1:]
			return r, nil
		}
		if fetched || i > 0 && i < len(list) {
			return nil, nil // what stands around it is here
		}
		records, _, err := c.from.fetch(ctx, partition, offset)
		if err != nil {
			if gone, e := c.dropped(ctx, partition, offset); gone || e != nil {
				return nil, e
			}
			return nil, err
		}
		c.ahead[partition] = slices.DeleteFunc(records, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
	}
}

// dropped says that the topic begins behind an offset.
func (c *letterContents) dropped(ctx context.Context, partition int32, offset int64) (bool, error) {
	first, err := startOf(ctx, c.from.kafka.Client(), c.from.topic, partition)
	return first > offset, err
}

// scanLetters finds the newest letter of each ce_id of a trigger on its partition,
// for who has no history: what was appended since a time.
func (s *deadLetters) scanLetters(ctx context.Context, key trigger.Key, since trigger.Instant) (
	[]topics.Letter, error,
) {
	partition := topics.Partition([]byte(key), s.partitions)
	cl := s.kafka.Client()
	from, err := offsetSince(ctx, cl, s.records.topic, partition, since)
	if err != nil {
		return nil, err
	}
	until, err := stableEnd(ctx, cl, s.records.topic, partition)
	if err != nil {
		return nil, err
	}
	var found []topics.Letter
	err = s.records.read(ctx, partition, from, until, func(r *kgo.Record) error {
		if string(r.Key) != string(key) {
			return nil
		}
		l, err := topics.LetterOf(topicRecord(r))
		if err != nil || len(found) >= maxPage {
			return nil
		}
		found = slices.DeleteFunc(found, func(o topics.Letter) bool { return o.DueID == l.DueID })
		found = append(found, l)
		return nil
	})
	return found, err
}

// topicRecord is a record as package topics reads it.
func topicRecord(r *kgo.Record) *topics.Record {
	rec := &topics.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: trigger.At(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: make([]trigger.Header, len(r.Headers)),
	}
	for i, h := range r.Headers {
		rec.Headers[i] = trigger.Header{Key: h.Key, Value: h.Value}
	}
	return rec
}
