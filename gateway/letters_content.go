package gateway

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
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

// maxRedriveBytes bounds the content of letters that is in memory for one flight. A page may have
// a thousand letters of half a megabyte each.
const maxRedriveBytes = 4 << 20

// byPosition sorts letters as they stand in their topic.
func byPosition(a, b topics.Letter) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// some returns the records of the first letters, at least of one and no more than fit the bound.
// The letters are in the order of their topic. One that the topic has dropped is nil.
func (c *letterContents) some(ctx context.Context, letters []topics.Letter) ([]*kgo.Record, error) {
	out := make([]*kgo.Record, 0, len(letters))
	size := 0
	for i := range letters {
		r, err := c.one(ctx, letters[i].Partition, letters[i].Offset)
		if err != nil {
			return nil, err
		}
		if out = append(out, r); r != nil {
			size += len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				size += len(h.Key) + len(h.Value)
			}
		}
		if size >= maxRedriveBytes {
			break
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

// letterScan is the part of topic dead-letter that is still to be read for a trigger.
type letterScan struct {
	key         trigger.Key
	partition   int32
	from, until int64
}

// scanOf is what was appended since a time to the partition of a trigger.
func (s *deadLetters) scanOf(ctx context.Context, key trigger.Key, since trigger.Instant) (c letterScan, err error) {
	c = letterScan{key: key, partition: topics.Partition([]byte(key), s.partitions)}
	cl := s.kafka.Client()
	if c.from, err = offsetSince(ctx, cl, s.records.topic, c.partition, since); err != nil {
		return c, err
	}
	c.until, err = stableEnd(ctx, cl, s.records.topic, c.partition)
	return c, err
}

// errEnough ends a scan before its end.
var errEnough = errors.New("there are enough dead letters")

// scanLetters finds the newest letter of each ce_id of a trigger, or of one, for who has no history. With most
// of them it stops; more says that the scan goes on there.
func (s *deadLetters) scanLetters(ctx context.Context, c *letterScan, ceID string, most int) (
	list []topics.Letter, more bool, err error,
) {
	found := map[string]topics.Letter{}
	err = s.records.read(ctx, c.partition, c.from, c.until, func(r *kgo.Record) error {
		if string(r.Key) != string(c.key) {
			return nil
		}
		l, err := topics.LetterOf(kafkarec.Of(r))
		if err != nil || ceID != "" && l.DueID != ceID {
			return nil
		}
		if _, known := found[l.DueID]; !known && len(found) == most {
			c.from = r.Offset
			return errEnough
		}
		found[l.DueID] = l
		return nil
	})
	if more = errors.Is(err, errEnough); more {
		err = nil
	}
	return slices.SortedFunc(maps.Values(found), byPosition), more, err
}
