package broker

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceCall follows one produce request from the connection, where it is
// checked, through kfake's loop, where it is stamped in the order of the log,
// to its answer. kfake's hook sees only the request; its timeout, which kfake
// ignores, carries the number of the call.
type produceCall struct {
	ticket int32
	txnID  string
	topics [][]partCall // as in the request
	writes []target     // partitions that get data outside a transaction
	txns   []inEpoch    // that get data
}

type partCall struct {
	topic     *topic
	partition int32
	batch     batch // nil: kfake will say what is wrong with it
	refused   *refusal
	at        int64 // append time in Unix ms; -1 for producer time
}

// refusal is an answer we give in kfake's place.
type refusal struct {
	code   int16
	record int32 // -1: the batch as a whole
	why    string
}

// inspectProduce checks a produce request, on its connection's goroutine.
func (b *node) inspectProduce(cl *call, req *kmsg.ProduceRequest, body, rest []byte) error {
	r := kbin.Reader{Src: rest}
	switch {
	case req.Version >= 9:
		r.CompactNullableString()
	case req.Version >= 3:
		r.NullableString()
	}
	if !r.Ok() || len(r.Src) < 6 {
		return errFrame
	}
	at := body[len(body)-len(r.Src):] // acks 2, timeout 4
	if err := req.ReadFrom(rest); err != nil {
		return errFrame
	}
	pc := &produceCall{ticket: b.tickets.next(), topics: make([][]partCall, len(req.Topics))}
	if req.TransactionID != nil {
		pc.txnID = *req.TransactionID
	}
	for i := range req.Topics {
		pc.topics[i] = b.inspectTopic(pc, &req.Topics[i], req.Version)
	}
	if req.Acks == 0 {
		// kfake answers, and we keep the answer: it tells us when the data stands.
		binary.BigEndian.PutUint16(at, 1)
		cl.silent = true
	}
	binary.BigEndian.PutUint32(at[2:], uint32(pc.ticket))
	b.tickets.put(pc)
	cl.produce = pc
	cl.writes, cl.txns = pc.writes, pc.txns
	return nil
}

func (b *node) inspectTopic(pc *produceCall, rt *kmsg.ProduceRequestTopic, version int16) []partCall {
	var t *topic
	if version >= 13 {
		t = b.topics.withID(rt.TopicID)
	} else {
		t = b.topics.named(rt.Topic)
	}
	parts := make([]partCall, len(rt.Partitions))
	for i := range rt.Partitions {
		p := &parts[i]
		*p = partCall{topic: t, partition: rt.Partitions[i].Partition, at: -1}
		if t == nil {
			continue // kfake knows which error
		}
		raw := rt.Partitions[i].Records
		if bt, err := firstBatch(raw); err == nil && len(bt) == len(raw) {
			p.batch = bt
			p.refused = refuse(bt, t)
			if p.refused == nil && bt.transactional() {
				p.refused = b.txns.refuse(pc.txnID, bt.producerID())
			}
		}
		switch {
		case p.batch == nil || p.refused != nil:
		case !p.batch.transactional():
			pc.writes = append(pc.writes, b.partition(t.name, p.partition))
		default:
			if txn := (inEpoch{p.batch.producerID(), p.batch.producerEpoch()}); !slices.Contains(pc.txns, txn) {
				pc.txns = append(pc.txns, txn)
			}
		}
	}
	return parts
}

// refuse says what Kafka finds wrong with a batch and kfake does not.
func refuse(bt batch, t *topic) *refusal {
	if bt.control() || bt.attrs()&attrCodec > 4 || bt.count() < 1 || bt.lastDelta() != bt.count()-1 {
		if bt.count() < 1 {
			return &refusal{kerr.InvalidRecord.Code, 0, "record batch is empty"}
		}
		return nil // kfake finds it
	}
	bad, err := bt.check(t.keyed)
	switch {
	case errors.Is(err, errNullKey):
		return &refusal{
			kerr.InvalidRecord.Code, int32(bad),
			"Compacted topic cannot accept message without key in topic partition.",
		}
	case errors.Is(err, errTooLarge):
		return &refusal{kerr.MessageTooLarge.Code, -1, err.Error()}
	case err != nil:
		return &refusal{kerr.CorruptMessage.Code, int32(bad), err.Error()}
	}
	return nil
}

// onProduce runs in kfake's loop, just before the request is handled: what it
// stamps here is in the log's order.
func (b *node) onProduce(req *kmsg.ProduceRequest) kmsg.Response {
	pc := b.tickets.take(req.TimeoutMillis)
	if pc == nil {
		return unchecked(req)
	}
	now := time.Now().UnixMilli()
	for i := range req.Topics {
		kept := req.Topics[i].Partitions[:0]
		for j, rp := range req.Topics[i].Partitions {
			p := &pc.topics[i][j]
			if p.refused == nil && p.batch != nil && p.batch.transactional() {
				p.refused = b.txns.writes(p)
			}
			if p.refused != nil {
				continue
			}
			p.prepare(now)
			kept = append(kept, rp)
		}
		req.Topics[i].Partitions = kept
	}
	if b.syncer != nil {
		b.syncer.begin(pc.writes)
	}
	return nil
}

// unchecked refuses a request of which we know nothing any more: nobody waits for its answer.
func unchecked(req *kmsg.ProduceRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewProduceResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, kerr.NetworkException.Code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (p *partCall) prepare(now int64) {
	switch {
	case p.batch == nil:
	case p.topic.stamped:
		p.batch.stamp(now)
		p.at = now
	default:
		p.batch.unmark()
	}
}

// answerProduce completes kfake's answer: append times, and our refusals.
func (pc *produceCall) answerProduce(resp *kmsg.ProduceResponse) {
	for _, parts := range pc.topics {
		for i := range parts {
			p := &parts[i]
			switch {
			case p.refused != nil:
				p.refused.appendTo(resp, p)
			case p.at >= 0:
				if rp := findPartition(resp, p); rp != nil && rp.ErrorCode == 0 {
					rp.LogAppendTime = p.at
				}
			}
		}
	}
}

func findTopic(resp *kmsg.ProduceResponse, t *topic) *kmsg.ProduceResponseTopic {
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		if rt.Topic == t.name || resp.Version >= 13 && rt.TopicID == t.id {
			return rt
		}
	}
	return nil
}

func findPartition(resp *kmsg.ProduceResponse, p *partCall) *kmsg.ProduceResponseTopicPartition {
	rt := findTopic(resp, p.topic)
	if rt == nil {
		return nil
	}
	for i := range rt.Partitions {
		if rt.Partitions[i].Partition == p.partition {
			return &rt.Partitions[i]
		}
	}
	return nil
}

func (r *refusal) appendTo(resp *kmsg.ProduceResponse, p *partCall) {
	rt := findTopic(resp, p.topic)
	if rt == nil {
		resp.Topics = append(resp.Topics, kmsg.NewProduceResponseTopic())
		rt = &resp.Topics[len(resp.Topics)-1]
		rt.Topic, rt.TopicID = p.topic.name, p.topic.id
	}
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition = p.partition
	rp.ErrorCode = r.code
	rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = -1, -1, -1
	rp.ErrorMessage = &r.why
	if r.record >= 0 {
		re := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		re.RelativeOffset = r.record
		re.ErrorMessage = &r.why
		rp.ErrorRecords = append(rp.ErrorRecords, re)
	}
	rt.Partitions = append(rt.Partitions, rp)
}
