package pipelinetest

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// stamped makes the brokers of a simulated world stamp what is appended, as Kafka does
// for topics of LogAppendTime. kfake keeps the time at which the producer took the
// record. A record that waits in a client, while no broker can be reached, would then be
// older than the append, and a cancel that came too late would look as if it had come in
// time.
//
// The batch gets the time type bit and the time. kfake writes its own time over it, which
// is the same one: in a bubble no time passes between the two.
func (w *World) stamped(all []topics.Topic) {
	if w.Cluster == nil || !w.opts.Simulated {
		return
	}
	w.unstamped = map[string]bool{}
	for _, t := range all {
		if t.Configs["message.timestamp.type"] != "LogAppendTime" {
			id := w.Cluster.TopicInfo(t.Name).TopicID
			w.unstamped[t.Name], w.unstamped[string(id[:])] = true, true
		}
	}
	w.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.Stamp(r.(*kmsg.ProduceRequest))
		return nil, nil, false
	})
}

// Stamp gives what is produced the time of now. A test that lets a broker wait before it
// appends calls it when the wait is over.
func (w *World) Stamp(r *kmsg.ProduceRequest) {
	broker := w.Cluster.CurrentNode()
	w.mu.Lock()
	ahead := w.ahead[broker]
	w.mu.Unlock()
	now := time.Now().Add(ahead).UnixMilli()
	for _, t := range r.Topics {
		if w.unstamped[t.Topic] || w.unstamped[string(t.TopicID[:])] {
			continue
		}
		for _, p := range t.Partitions {
			stamp(p.Records, now, ahead == 0)
		}
	}
}

// BrokerAhead sets a broker's clock ahead of the right time.
func (w *World) BrokerAhead(broker int32, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ahead == nil {
		w.ahead = map[int32]time.Duration{}
	}
	w.ahead[broker] = by
}

// Where the fields of a record batch are (KIP-98). The checksum counts from the attributes
// on.
const (
	batchCRC        = 17
	batchAttributes = 21
	batchFirstTime  = 27
	batchMaxTime    = 35
	batchHeader     = 61

	attrAppendTime = 0x0008
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp gives a batch its append time. A batch with a wrong checksum stays what it is:
// the broker refuses it. Without the time type bit, kfake keeps the time that it is given.
func stamp(b []byte, ms int64, bit bool) {
	if len(b) < batchHeader || sum(b) != binary.BigEndian.Uint32(b[batchCRC:]) {
		return
	}
	if bit {
		attributes := binary.BigEndian.Uint16(b[batchAttributes:])
		binary.BigEndian.PutUint16(b[batchAttributes:], attributes|attrAppendTime)
	}
	binary.BigEndian.PutUint64(b[batchFirstTime:], uint64(ms))
	binary.BigEndian.PutUint64(b[batchMaxTime:], uint64(ms))
	binary.BigEndian.PutUint32(b[batchCRC:], sum(b))
}

func sum(b []byte) uint32 { return crc32.Checksum(b[batchAttributes:], castagnoli) }
