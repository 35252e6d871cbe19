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
	names := map[string]bool{}
	ids := map[[16]byte]bool{}
	for _, t := range all {
		if t.Configs["message.timestamp.type"] != "LogAppendTime" {
			names[t.Name] = true
			ids[w.Cluster.TopicInfo(t.Name).TopicID] = true
		}
	}
	w.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		now := time.Now().UnixMilli()
		for _, t := range r.(*kmsg.ProduceRequest).Topics {
			if names[t.Topic] || ids[t.TopicID] {
				continue
			}
			for _, p := range t.Partitions {
				stamp(p.Records, now)
			}
		}
		return nil, nil, false
	})
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
// the broker refuses it.
func stamp(b []byte, ms int64) {
	if len(b) < batchHeader || crc32.Checksum(b[batchAttributes:], castagnoli) != binary.BigEndian.Uint32(b[batchCRC:]) {
		return
	}
	attributes := binary.BigEndian.Uint16(b[batchAttributes:])
	binary.BigEndian.PutUint16(b[batchAttributes:], attributes|attrAppendTime)
	binary.BigEndian.PutUint64(b[batchFirstTime:], uint64(ms))
	binary.BigEndian.PutUint64(b[batchMaxTime:], uint64(ms))
	binary.BigEndian.PutUint32(b[batchCRC:], crc32.Checksum(b[batchAttributes:], castagnoli))
}
