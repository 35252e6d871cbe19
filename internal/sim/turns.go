package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// Turns compares every progress record's manifest with what its turn wrote: all of it, nothing
// else, in the order of turns (C10, C11). Each dump must have all committed records of a topic,
// in the order of their offsets. The dumps are topic state and every topic to which a turn may
// write, except those of by_key channels.
func Turns(names topics.Names, dumps map[string][]*kgo.Record) (violations []string) {
	c := &turnCheck{queues: map[route][]*kgo.Record{}, progress: map[int32][]*topics.Progress{}}
	for topic, records := range dumps {
		for _, r := range records {
			if topic == names.State() && topics.IsReserved(r.Key) {
				c.addProgress(r)
				continue
			}
			c.queues[route{topic, r.Partition}] = append(c.queues[route{topic, r.Partition}], r)
		}
	}
	for partition, turns := range c.progress {
		for i, turn := range turns {
			if i > 0 && turn.Seq != turns[i-1].Seq+1 {
				c.violation("partition %d: turn %d follows turn %d", partition, turn.Seq, turns[i-1].Seq)
			}
			if i > 0 && turn.Term < turns[i-1].Term {
				c.violation("partition %d: term %d wrote after term %d", partition, turn.Term, turns[i-1].Term)
			}
			for _, m := range turn.Manifest {
				c.consume(route{m.Topic, partition}, turn.Seq, m)
			}
		}
	}
	for at, left := range c.queues {
		if len(left) > 0 {
			c.violation("%s/%d: %d records that no turn admits to, the first at %d: %s", at.topic, at.partition,
				len(left), left[0].Offset, left[0].Key)
		}
	}
	return c.found
}

// turnCheck holds the records that no turn has claimed yet.
type turnCheck struct {
	queues   map[route][]*kgo.Record
	progress map[int32][]*topics.Progress
	found    []string
}

// route is a partition of a topic.
type route struct {
	topic     string
	partition int32
}

func (c *turnCheck) violation(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *turnCheck) addProgress(r *kgo.Record) {
	if string(r.Key) != string(topics.KeyProgress) {
		return
	}
	p, err := topics.DecodeProgress(r.Value)
	if err != nil {
		c.violation("progress at %d/%d: %v", r.Partition, r.Offset, err)
		return
	}
	c.progress[r.Partition] = append(c.progress[r.Partition], p)
}

func (c *turnCheck) consume(at route, turn int64, m topics.TopicCount) {
	q := c.queues[at]
	if len(q) < m.Records {
		c.violation("%s/%d: turn %d wrote %d records, only %d are there", at.topic, at.partition, turn, m.Records,
			len(q))
		return
	}
	digest := uint64(0)
	for _, r := range q[:m.Records] {
		var b [24]byte
		binary.BigEndian.PutUint64(b[0:], digest)
		binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(r.Key))
		binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(r.Value))
		digest = xxhash.Sum64(b[:])
	}
	if digest != m.Digest {
		c.violation("%s/%d: turn %d wrote other bytes than are there", at.topic, at.partition, turn)
	}
	c.queues[at] = q[m.Records:]
}
