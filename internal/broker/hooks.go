package broker

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inspect is called with each request, on its connection's goroutine, before
// kfake reads it. rest is the body behind the header.
func (b *node) inspect(c *conn, cl *call, req kmsg.Request, body, rest []byte) error {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return b.inspectProduce(cl, req, body, rest)
	case *kmsg.FetchRequest:
		b.boundFetch(req.Version, rest)
	case *kmsg.ShareFetchRequest:
		b.boundShareFetch(req.Version, rest)
	case *kmsg.EndTxnRequest:
		if req.ReadFrom(rest) != nil {
			return errFrame
		}
		return b.inspectEnd(c, cl, req)
	case *kmsg.TxnOffsetCommitRequest:
		if req.ReadFrom(rest) != nil {
			return errFrame
		}
		cl.offsets = req
		cl.txns = []inEpoch{{req.ProducerID, req.ProducerEpoch}}
	case *kmsg.AddPartitionsToTxnRequest:
		if req.ReadFrom(rest) != nil {
			return errFrame
		}
		cl.txns = []inEpoch{{req.ProducerID, req.ProducerEpoch}}
	case *kmsg.AddOffsetsToTxnRequest:
		if req.ReadFrom(rest) != nil {
			return errFrame
		}
		cl.txns = []inEpoch{{req.ProducerID, req.ProducerEpoch}}
	case *kmsg.InitProducerIDRequest:
		if req.ReadFrom(rest) != nil {
			return errFrame
		}
		if req.TransactionalID != nil {
			cl.init = req
		}
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest:
		if err := b.inspectMember(cl, req, rest); err != nil {
			return err
		}
	}
	cl.writes = b.writtenBy(cl.key)
	return nil
}

// boundFetch lowers the most bytes of an answer to what Kafka gives at most: kfake builds it in memory.
func (b *node) boundFetch(version int16, rest []byte) {
	at := 12 // behind replica id, max wait and min bytes
	if version >= 15 {
		at = 8 // no replica id
	}
	if version >= 3 && len(rest) >= at+4 && int32(binary.BigEndian.Uint32(rest[at:])) > b.opts.fetchBytes {
		binary.BigEndian.PutUint32(rest[at:], uint32(b.opts.fetchBytes))
	}
}

// boundShareFetch lowers the most records of an answer, all that kfake looks at, to as many as boundFetch lets
// through when each has the 1 MiB that a batch has at most by default. Version 0 names none: kfake gives 500.
func (b *node) boundShareFetch(version int16, rest []byte) {
	r := kbin.Reader{Src: rest}
	r.CompactNullableString() // group
	r.CompactNullableString() // member
	r.Span(4 * 4)             // epoch, max wait, min and max bytes
	if !r.Ok() || version < 1 || len(r.Src) < 10 {
		return
	}
	if renews := version >= 2 && r.Src[9] != 0; renews {
		return // it fetches nothing, and has to have 0 here
	}
	most := max(b.opts.fetchBytes>>20, 1)
	if n := int32(binary.BigEndian.Uint32(r.Src)); n <= 0 || n > most {
		binary.BigEndian.PutUint32(r.Src, uint32(most))
	}
}

// writtenBy names the files that an answer to a request of this key vouches for.
func (b *node) writtenBy(key int16) []target {
	if b.syncer == nil {
		return nil
	}
	switch kmsg.Key(key) {
	case kmsg.OffsetCommit, kmsg.OffsetDelete, kmsg.DeleteGroups:
		return []target{b.groupsLog()}
	case kmsg.InitProducerID:
		return []target{b.pidsLog()}
	case kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs,
		kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.AlterClientQuotas, kmsg.AlterUserSCRAMCredentials:
		return []target{{b.data, aDir}} // kfake syncs the file, not its name
	}
	return nil
}

// reveals says whether an answer shows what others have written: it then
// waits until that cannot be lost any more.
func reveals(key int16) bool { return slices.Contains(revealing, kmsg.Key(key)) }

var revealing = []kmsg.Key{
	kmsg.Fetch, kmsg.ShareFetch, kmsg.ListOffsets, kmsg.OffsetFetch, kmsg.OffsetForLeaderEpoch, kmsg.DescribeProducers,
}

func (b *node) inspectEnd(c *conn, cl *call, req *kmsg.EndTxnRequest) error {
	cl.end = req
	if !req.Commit {
		if b.syncer != nil {
			cl.writes = []target{b.pidsLog()}
		}
		return nil
	}
	if b.data == "" {
		return nil
	}
	if err := c.drained(); err != nil {
		return err
	}
	o, targets, err := b.txns.prepare(req)
	switch {
	case errors.Is(err, errLongOutcome):
		b.log.Warn("a transaction cannot be committed", "id", req.TransactionalID, "error", err)
		return err
	case err != nil:
		b.fail(err)
		return err
	case o == nil:
		return nil
	}
	if b.syncer != nil {
		if err := b.syncer.wait(targets...); err != nil {
			return err
		}
	}
	b.txns.prepared(o)
	return nil
}

// respond is called with each of kfake's answers. The answer it returns goes
// to the client after that round, if there is one.
func (b *node) respond(cl *call, frame []byte) ([]byte, *round) {
	switch {
	case cl.produce != nil:
		frame = b.respondProduce(cl, frame)
	case cl.key == int16(kmsg.Fetch):
		b.respondFetch(frame, cl, new(kmsg.FetchResponse))
	case cl.key == int16(kmsg.ShareFetch):
		b.respondFetch(frame, cl, new(kmsg.ShareFetchResponse))
	case cl.end != nil:
		b.respondEnd(cl, frame)
	case cl.init != nil:
		b.respondInit(cl, frame)
	case cl.offsets != nil:
		b.respondTxnOffsets(cl, frame)
	case cl.key == int16(kmsg.CreateTopics):
		b.respondAdmin(cl)
		frame = change(cl, frame, kmsg.NewPtrCreateTopicsResponse(), noNullConfigs)
	case cl.key == int16(kmsg.DescribeTopicPartitions):
		frame = change(cl, frame, kmsg.NewPtrDescribeTopicPartitionsResponse(), noNullReplicas)
	default:
		b.respondAdmin(cl)
	}
	switch {
	case b.syncer == nil:
		return frame, nil
	case len(cl.txns) > 0:
		return frame, b.txns.vouch(cl.txns, cl.writes)
	case len(cl.writes) == 0 && !reveals(cl.key):
		return frame, nil
	}
	return frame, b.syncer.ticket(cl.writes)
}

// parse reads an answer; the flexible versions put one empty tag section
// before the body (KIP-482).
func parse(frame []byte, cl *call, resp kmsg.Response) (head int, ok bool) {
	resp.SetVersion(cl.version)
	head = 8
	if resp.IsFlexible() {
		head++
	}
	return head, len(frame) >= head && resp.ReadFrom(frame[head:]) == nil
}

func (b *node) respondProduce(cl *call, frame []byte) []byte {
	return change(cl, frame, kmsg.NewPtrProduceResponse(), cl.produce.answerProduce)
}

// change lets fn change an answer. One that cannot be read stays as it is.
func change[R kmsg.Response](cl *call, frame []byte, resp R, fn func(R)) []byte {
	head, ok := parse(frame, cl, resp)
	if !ok {
		return frame
	}
	fn(resp)
	out := resp.AppendTo(append(make([]byte, 0, len(frame)+64), frame[:head]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// noNullConfigs and noNullReplicas put an empty array where kfake answers null. Kafka
// answers so, and its Java client ends with a NullPointerException otherwise.
func noNullConfigs(resp *kmsg.CreateTopicsResponse) {
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.ErrorCode == 0 && t.Configs == nil {
			t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
	}
}

func noNullReplicas(resp *kmsg.DescribeTopicPartitionsResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.EligibleLeaderReplicas == nil {
				p.EligibleLeaderReplicas = []int32{}
			}
			if p.LastKnownELR == nil {
				p.LastKnownELR = []int32{}
			}
		}
	}
}

// respondFetch changes fetched batches where they lie in the frame.
func (b *node) respondFetch(frame []byte, cl *call, resp kmsg.Response) {
	if _, ok := parse(frame, cl, resp); !ok {
		return
	}
	switch resp := resp.(type) {
	case *kmsg.FetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				publish(resp.Topics[i].Partitions[j].RecordBatches)
			}
		}
	case *kmsg.ShareFetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				publish(resp.Topics[i].Partitions[j].Records)
			}
		}
	}
}

func (b *node) respondEnd(cl *call, frame []byte) {
	resp := kmsg.NewPtrEndTxnResponse()
	if _, ok := parse(frame, cl, resp); !ok || resp.ErrorCode == kerr.ConcurrentTransactions.Code {
		return // our own answer: kfake has not seen the request
	}
	if touched := b.txns.ended(cl.end, resp); len(touched) > 0 {
		cl.writes = touched
	}
}

func (b *node) respondInit(cl *call, frame []byte) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	if _, ok := parse(frame, cl, resp); !ok || resp.ErrorCode != 0 {
		return
	}
	if touched := b.txns.fenced(cl.init, resp); len(touched) > 0 {
		cl.writes = touched
	}
}

// respondTxnOffsets forgets offsets that kfake refused.
func (b *node) respondTxnOffsets(cl *call, frame []byte) {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	if _, ok := parse(frame, cl, resp); !ok {
		return
	}
	b.nameTopics(cl.offsets)
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		b.topics.name(&rt.Topic, rt.TopicID)
		for _, rp := range rt.Partitions {
			if rp.ErrorCode != 0 {
				b.txns.refused(cl.offsets, rt.Topic, rp.Partition)
			}
		}
	}
}

func (b *node) respondAdmin(cl *call) {
	switch kmsg.Key(cl.key) {
	case kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs:
		b.topics.forget()
	}
}

// hook installs what runs in kfake's loop, between requests.
func (b *node) hook(c *kfake.Cluster) {
	b.control(c, kmsg.Produce, func(req kmsg.Request) kmsg.Response {
		return b.onProduce(req.(*kmsg.ProduceRequest))
	})
	b.control(c, kmsg.AddPartitionsToTxn, func(req kmsg.Request) kmsg.Response {
		b.txns.added(req.(*kmsg.AddPartitionsToTxnRequest))
		return nil
	})
	b.control(c, kmsg.AddOffsetsToTxn, func(req kmsg.Request) kmsg.Response {
		b.txns.begun(req.(*kmsg.AddOffsetsToTxnRequest))
		return nil
	})
	b.control(c, kmsg.TxnOffsetCommit, func(req kmsg.Request) kmsg.Response {
		b.txns.committed(req.(*kmsg.TxnOffsetCommitRequest))
		return nil
	})
	b.control(c, kmsg.EndTxn, func(req kmsg.Request) kmsg.Response {
		err := b.txns.ending(req.(*kmsg.EndTxnRequest))
		if err == nil {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = err.Code
		return resp
	})
	b.control(c, kmsg.InitProducerID, func(req kmsg.Request) kmsg.Response {
		if init := req.(*kmsg.InitProducerIDRequest); init.TransactionalID != nil {
			b.txns.fence(init)
		}
		return nil
	})
	b.control(c, kmsg.WriteTxnMarkers, func(req kmsg.Request) kmsg.Response {
		b.onWriteTxnMarkers(req.(*kmsg.WriteTxnMarkersRequest))
		return nil
	})
	if b.syncer != nil {
		for _, key := range revealing { // what was written before is complete, though nobody may wait for it
			b.control(c, key, func(kmsg.Request) kmsg.Response {
				b.syncer.begin(nil)
				return nil
			})
		}
	}
	b.control(c, freezeKey, func(kmsg.Request) kmsg.Response {
		b.onFreeze()
		return nil
	})
	for _, key := range []kmsg.Key{kmsg.OffsetDelete, kmsg.DeleteGroups} {
		b.control(c, key, func(kmsg.Request) kmsg.Response {
			b.txns.deleting()
			return nil
		})
	}
	b.control(c, kmsg.DeleteTopics, func(req kmsg.Request) kmsg.Response {
		b.txns.deleting()
		b.onDeleteTopics(b.deletedBy(req.(*kmsg.DeleteTopicsRequest)))
		return nil
	})
	b.control(c, kmsg.DeleteRecords, func(req kmsg.Request) kmsg.Response {
		if err := b.onDeleteRecords(req.(*kmsg.DeleteRecordsRequest)); err != nil {
			b.fail(err)
			return failedDelete(req.(*kmsg.DeleteRecordsRequest))
		}
		return nil
	})
}

// onDeleteTopics sees to it that a start cannot bring records back, or give
// them to an heir of the same name.
func (b *node) onDeleteTopics(deleted map[string]bool) {
	if b.syncer == nil || b.syncer.emptyJournal() != nil {
		return // the broker has stopped
	}
	b.syncer.forget(func(dir string) bool { return deleted[topicOf(dir)] })
	b.txns.forgetTopics(deleted)
}

// deletedBy names the topics of a request.
func (b *node) deletedBy(req *kmsg.DeleteTopicsRequest) map[string]bool {
	deleted := map[string]bool{}
	for _, name := range req.TopicNames {
		deleted[name] = true
	}
	for _, t := range req.Topics {
		var name string
		if t.Topic != nil {
			name = *t.Topic
		}
		b.topics.name(&name, t.TopicID)
		deleted[name] = true
	}
	return deleted
}

// onWriteTxnMarkers sees to it that readers wait for the markers, which take offsets.
func (b *node) onWriteTxnMarkers(req *kmsg.WriteTxnMarkersRequest) {
	var targets []target
	for _, m := range req.Markers {
		for _, mt := range m.Topics {
			if b.topics.named(mt.Topic) == nil {
				continue
			}
			for _, p := range mt.Partitions {
				targets = append(targets, b.partition(mt.Topic, p))
			}
		}
	}
	b.txns.touch(targets)
}

// control runs fn before each request of the key. kfake remembers the last
// request of every connection it ever had, per control function, so from time
// to time the function is dropped and added afresh.
func (b *node) control(c *kfake.Cluster, key kmsg.Key, fn func(kmsg.Request) kmsg.Response) {
	var (
		calls int
		run   func(kmsg.Request) (kmsg.Response, error, bool)
	)
	run = func(req kmsg.Request) (kmsg.Response, error, bool) {
		if calls++; calls >= 1000 {
			calls = 0
			c.DropControl()
			c.ControlKey(int16(key), run)
		} else {
			c.KeepControl()
		}
		resp := fn(req)
		return resp, nil, resp != nil
	}
	c.ControlKey(int16(key), run)
}

func failedDelete(req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewDeleteRecordsResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewDeleteRecordsResponseTopicPartition()
			sp.Partition = rp.Partition
			sp.ErrorCode = kerr.KafkaStorageError.Code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// tickets number produce calls between a connection and kfake's loop.
type tickets struct {
	mu   sync.Mutex
	last int32
	open map[int32]*produceCall
}

func (ts *tickets) next() int32 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.last++
	return ts.last
}

func (ts *tickets) put(pc *produceCall) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.open[pc.ticket] = pc
}

func (ts *tickets) take(n int32) *produceCall {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	pc := ts.open[n]
	delete(ts.open, n)
	return pc
}
