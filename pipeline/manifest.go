package pipeline

import (
	"encoding/binary"
	"sort"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// manifest is what a turn wrote, per topic: the number of records, and a digest of their
// keys and values in order. A checker finds a torn transaction by it.
type manifest struct{ byTopic map[string]*tally }

type tally struct {
	records int
	digest  uint64
	last    *kgo.Record           // on the partition of the first one
	others  map[int32]*kgo.Record // the last on each other partition
}

// ends are the offsets behind the records, once they are acknowledged.
func (t *tally) ends() map[int32]int64 {
	out := make(map[int32]int64, 1+len(t.others))
	out[t.last.Partition] = t.last.Offset + 1
	for partition, r := range t.others {
		out[partition] = r.Offset + 1
	}
	return out
}

func (t *tally) note(r *kgo.Record) {
	switch {
	case t.last == nil || t.last.Partition == r.Partition:
		t.last = r
	case t.others == nil:
		t.others = map[int32]*kgo.Record{r.Partition: r}
	default:
		t.others[r.Partition] = r
	}
}

func (m *manifest) reset() { m.byTopic = map[string]*tally{} }

// add includes a record: digest = xxhash64(digest ‖ xxhash64(key) ‖ xxhash64(value)).
func (m *manifest) add(r *kgo.Record) {
	t := m.byTopic[r.Topic]
	if t == nil {
		t = &tally{}
		m.byTopic[r.Topic] = t
	}
	t.note(r)
	var b [24]byte
	binary.BigEndian.PutUint64(b[0:], t.digest)
	binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(r.Key))
	binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(r.Value))
	t.records, t.digest = t.records+1, xxhash.Sum64(b[:])
}

// counts lists the topics by name, so that the same turn always gives the same bytes.
func (m *manifest) counts() []topics.TopicCount {
	out := make([]topics.TopicCount, 0, len(m.byTopic))
	for name, t := range m.byTopic {
		out = append(out, topics.TopicCount{Topic: name, Records: t.records, Digest: t.digest})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Topic < out[j].Topic })
	return out
}
