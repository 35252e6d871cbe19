package pipelinetest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cutLog is a partition whose new leader lacks the end of its log, as after an
// unclean election: what stood from `from` to `to` is gone for every node, and
// what was appended since stands from `from` on. kfake loses nothing, so the
// proxy rewrites offsets: the records are there, and nobody sees them.
type cutLog struct {
	topic     string
	id        [16]byte
	partition int32
	from, to  int64
}

// shown is where a record stands for the nodes.
func (c *cutLog) shown(offset int64) int64 {
	switch {
	case offset < c.from:
		return offset
	case offset < c.to:
		return c.from
	}
	return offset - (c.to - c.from)
}

// real is where kfake has what the nodes see at an offset.
func (c *cutLog) real(offset int64) int64 {
	if offset < c.from {
		return offset
	}
	return offset + (c.to - c.from)
}

func (c *cutLog) is(topic string, id [16]byte, partition int32) bool {
	return partition == c.partition && (topic == c.topic || topic == "" && id == c.id)
}

// request rewrites where a fetch begins; no other request names an offset that
// the engine goes by.
func (c *cutLog) request(a asked, b []byte) []byte {
	if a.key != kmsg.Fetch {
		return b
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(a.version)
	r := kbin.Reader{Src: b[requestHead:]}
	r.NullableString() // client id
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	head := b[:len(b)-len(r.Src)]
	if err := req.ReadFrom(r.Src); err != nil {
		panic(fmt.Sprintf("pipelinetest: fetch request: %v", err))
	}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; c.is(req.Topics[i].Topic, req.Topics[i].TopicID, p.Partition) {
				p.FetchOffset = c.real(p.FetchOffset)
			}
		}
	}
	return framed(req.AppendTo(append([]byte(nil), head...)))
}

// answer rewrites the offsets of an answer, and leaves out records that are gone.
func (c *cutLog) answer(a asked, b []byte) []byte {
	var rewrite func(kmsg.Response)
	switch a.key {
	case kmsg.Produce:
		rewrite = func(r kmsg.Response) { c.produced(r.(*kmsg.ProduceResponse)) }
	case kmsg.Fetch:
		rewrite = func(r kmsg.Response) { c.fetched(r.(*kmsg.FetchResponse)) }
	case kmsg.ListOffsets:
		rewrite = func(r kmsg.Response) { c.listed(r.(*kmsg.ListOffsetsResponse)) }
	case kmsg.OffsetForLeaderEpoch:
		rewrite = func(r kmsg.Response) { c.epochs(r.(*kmsg.OffsetForLeaderEpochResponse)) }
	default:
		return b
	}
	resp := kmsg.ResponseForKey(int16(a.key))
	resp.SetVersion(a.version)
	r := kbin.Reader{Src: b[answerHead:]}
	if resp.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	head := b[:len(b)-len(r.Src)]
	if err := resp.ReadFrom(r.Src); err != nil {
		panic(fmt.Sprintf("pipelinetest: answer to request %d: %v", a.key, err))
	}
	rewrite(resp)
	return framed(resp.AppendTo(append([]byte(nil), head...)))
}

// framed sets the length that a message begins with.
func framed(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *cutLog) produced(r *kmsg.ProduceResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if p := &r.Topics[i].Partitions[j]; c.is(r.Topics[i].Topic, r.Topics[i].TopicID, p.Partition) {
				p.BaseOffset = c.shown(p.BaseOffset)
			}
		}
	}
}

func (c *cutLog) fetched(r *kmsg.FetchResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if !c.is(r.Topics[i].Topic, r.Topics[i].TopicID, p.Partition) {
				continue
			}
			p.HighWatermark, p.LastStableOffset = c.shown(p.HighWatermark), c.shown(p.LastStableOffset)
			p.RecordBatches = c.batches(p.RecordBatches)
			aborted := p.AbortedTransactions[:0]
			for _, t := range p.AbortedTransactions {
				if t.FirstOffset < c.from || t.FirstOffset >= c.to {
					t.FirstOffset = c.shown(t.FirstOffset)
					aborted = append(aborted, t)
				}
			}
			p.AbortedTransactions = aborted
		}
	}
}

// batches leaves out what is gone and moves the rest. A batch's base offset is
// no part of its checksum.
func (c *cutLog) batches(b []byte) (out []byte) {
	const head = 12 // base offset, length of the rest
	for len(b) >= head {
		n := min(head+int(binary.BigEndian.Uint32(b[8:])), len(b))
		base := int64(binary.BigEndian.Uint64(b))
		if base < c.from || base >= c.to {
			at := len(out)
			out = append(out, b[:n]...)
			binary.BigEndian.PutUint64(out[at:], uint64(c.shown(base)))
		}
		b = b[n:]
	}
	return out
}

func (c *cutLog) listed(r *kmsg.ListOffsetsResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if p := &r.Topics[i].Partitions[j]; c.is(r.Topics[i].Topic, [16]byte{}, p.Partition) {
				p.Offset = c.shown(p.Offset)
			}
		}
	}
}

func (c *cutLog) epochs(r *kmsg.OffsetForLeaderEpochResponse) {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if p := &r.Topics[i].Partitions[j]; c.is(r.Topics[i].Topic, [16]byte{}, p.Partition) {
				p.EndOffset = c.shown(p.EndOffset)
			}
		}
	}
}

// Truncate makes a partition's log lose what stands from an offset on, for the
// nodes: the world's own clients still see it. `from` must begin a batch, and no
// transaction may be open. The leader moves, so that its epoch rises.
func (w *World) Truncate(topic string, partition int32, from int64) {
	w.T.Helper()
	info := w.Cluster.PartitionInfo(topic, partition)
	w.cut.Store(&cutLog{
		topic: topic, id: w.Cluster.TopicInfo(topic).TopicID, partition: partition, from: from,
		to: info.HighWatermark,
	})
	w.MoveLeader(topic, partition)
	for _, n := range w.Nodes() {
		n.Cut()
	}
	time.Sleep(time.Millisecond)
}
