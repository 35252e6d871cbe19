package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
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
		panic(fmt.Sprintf("sim: fetch request: %v", err))
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
		panic(fmt.Sprintf("sim: answer to request %d: %v", a.key, err))
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
	w.cut.Store(&cutLog{topic: topic, id: w.Cluster.TopicInfo(topic).TopicID, partition: partition, from: from, to: info.HighWatermark})
	w.moveLeader(topic, partition)
	for _, n := range w.Nodes() {
		n.Cut()
	}
	time.Sleep(time.Millisecond)
}

// moveLeader makes the next broker lead a partition; of one broker, itself.
func (w *World) moveLeader(topic string, partition int32) {
	next := (w.Cluster.LeaderFor(topic, partition) + 1) % max(w.opts.Brokers, 1)
	if err := w.Cluster.MoveTopicPartition(topic, partition, next); err != nil {
		w.T.Errorf("move %s/%d: %v", topic, partition, err)
	}
}

// truncated lets the last thing happen to a world that has passed: a partition's
// log loses its end. The partition must refuse, whoever opens it, and no other.
func (l *life) truncated() {
	if l.Node("last") == nil {
		l.Start("last")
	}
	for _, n := range l.Nodes() {
		if n.Name != "last" {
			_ = l.Stop(n.Name)
		}
	}
	l.AwaitOwners()
	p := l.rng.Int32N(l.P)
	topic, from := l.Names.Commands(), l.tailOf(p)
	if l.rng.IntN(2) == 0 {
		topic, from = l.Names.State(), l.lastTurn(p)
	}
	_ = l.Stop("last") // its disk knows of the last turn; after a kill it may not, and nobody could tell
	l.tell("%s/%d has lost its end, from %d on", topic, p, from)
	l.Truncate(topic, p, from)
	l.struck("truncated-log")
	if topic == l.Names.Commands() {
		for range l.rng.IntN(3) { // producers fill it again
			l.refill(p)
		}
	}
	n := l.Start("last")
	time.Sleep(90 * time.Second)
	for _, s := range n.Engine.Partitions() {
		switch {
		case s.Partition == p && (s.Refused != "gap" || s.Ready):
			l.T.Errorf("%s/%d has lost its end from %d on, and the engine goes on: %+v", topic, p, from, s)
		case s.Partition != p && !s.Ready:
			l.T.Errorf("partition %d does not fire, and it was %s/%d that lost its end: %+v", s.Partition, topic, p, s)
		}
	}
}

// tailOf sends a partition a last command, and returns where it stands.
func (l *life) tailOf(p int32) int64 {
	r := l.keyed(p)
	l.Send(r)
	time.Sleep(10 * time.Second) // it is read, and written to disk
	return r.Offset
}

// refill appends a command that nobody promises anything of.
func (l *life) refill(p int32) { l.Send(l.keyed(p)) }

// keyed is a register on its right partition.
func (l *life) keyed(p int32) *kgo.Record {
	for i := l.oneShot; ; i++ {
		if key := fmt.Sprint("z", i); topics.Partition([]byte(key), l.P) == p {
			l.oneShot = i + 1
			return l.command(key, `{"op":"register","delay":"1s"}`)
		}
	}
}

// lastTurn makes a partition commit a turn, and returns where its records of
// topic state begin: behind the marker of the turn before.
func (l *life) lastTurn(p int32) (from int64) {
	l.tailOf(p)
	all := l.read(kgo.ReadUncommitted(), l.Names.State())[l.Names.State()][p]
	last := len(all) - 1
	for last >= 0 && string(all[last].Key) != string(topics.KeyProgress) {
		last--
	}
	for _, r := range all[:max(last, 0)] {
		if r.Attrs.IsControl() {
			from = r.Offset + 1
		}
	}
	return from
}
