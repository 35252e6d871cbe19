package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// topicReader reads a topic by single fetches, without a consumer.
type topicReader struct {
	kafka *producer.Producer
	topic string

	mu   sync.Mutex
	meta *kmsg.MetadataResponseTopic // nil until asked for, and after an error
}

// Steps back from the end of the topic, in offsets: a turn writes at most some
// thousand records.
var progressSteps = []int64{64, 1 << 10, 1 << 14, 1 << 18}

// lastOwner is the owner that the last progress record of topic state names; an
// owner without an address where there is no record yet. Every turn ends with
// such a record, so it stands just before the end.
func (r *topicReader) lastOwner(ctx context.Context, partition int32) (peer.OwnerRecord, error) {
	end, err := stableEnd(ctx, r.kafka.Client(), r.topic, partition)
	if err != nil {
		return peer.OwnerRecord{}, err
	}
	until := end
	for _, step := range progressSteps {
		from := max(0, end-step)
		p, err := r.lastProgress(ctx, partition, from, until)
		if p != nil || err != nil {
			return ownerOf(p), err
		}
		if until = from; from == 0 {
			break
		}
	}
	return peer.OwnerRecord{}, nil
}

func ownerOf(p *topics.Progress) peer.OwnerRecord {
	if p == nil {
		return peer.OwnerRecord{}
	}
	return peer.OwnerRecord{Address: p.Owner, Term: p.Term, NextCommand: p.NextCommand}
}

// lastProgress is the last progress record among the committed ones of
// [from, until).
func (r *topicReader) lastProgress(ctx context.Context, partition int32, from, until int64) (last *topics.Progress, err error) {
	err = r.read(ctx, partition, from, until, func(rec *kgo.Record) (err error) {
		if bytes.Equal(rec.Key, topics.KeyProgress) {
			last, err = topics.DecodeProgress(rec.Value)
		}
		return err
	})
	return last, err
}

// read calls f for the committed records of [from, until).
func (r *topicReader) read(ctx context.Context, partition int32, from, until int64, f func(*kgo.Record) error) error {
	for from < until {
		records, next, err := r.fetch(ctx, partition, from)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if rec.Offset >= until || rec.Attrs.IsControl() {
				continue
			}
			if err := f(rec); err != nil {
				return err
			}
		}
		if next <= from { // compacted away up to the end
			return nil
		}
		from = next
	}
	return nil
}

const (
	fetchBytes    = 4 << 20
	readCommitted = 1
)

// fetch asks the partition's leader once; no consumer is set up for what is
// needed only when a partition moves.
func (r *topicReader) fetch(ctx context.Context, partition int32, from int64) ([]*kgo.Record, int64, error) {
	records, next, err := r.tryFetch(ctx, partition, from)
	if err != nil {
		r.forget() // the leader may be another by now
		records, next, err = r.tryFetch(ctx, partition, from)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("fetch %s/%d: %w", r.topic, partition, err)
	}
	return records, next, nil
}

func (r *topicReader) tryFetch(ctx context.Context, partition int32, from int64) ([]*kgo.Record, int64, error) {
	id, leader, err := r.leader(ctx, partition)
	if err != nil {
		return nil, 0, err
	}
	resp, err := fetchOnce(r.topic, id, partition, from).RequestWith(ctx, r.kafka.Client().Broker(leader))
	if err != nil {
		return nil, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, 0, errors.New("empty answer")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, 0, err
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: r.topic, Partition: partition,
	}, p, kgo.DefaultDecompressor(), nil)
	return got.Records, next, got.Err
}

func fetchOnce(topic string, id [16]byte, partition int32, from int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 0, 0, fetchBytes, readCommitted
	req.SessionEpoch = -1 // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, from, fetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// leader is the topic's id and the broker that leads a partition.
func (r *topicReader) leader(ctx context.Context, partition int32) (id [16]byte, broker int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.meta == nil {
		if r.meta, err = metadata(ctx, r.kafka.Client(), r.topic); err != nil {
			return id, 0, err
		}
	}
	for _, p := range r.meta.Partitions {
		if p.Partition == partition {
			return r.meta.TopicID, int(p.Leader), kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return id, 0, errors.New("the topic has no such partition")
}

func (r *topicReader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meta = nil
}

func metadata(ctx context.Context, cl *kgo.Client, topic string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if len(resp.Topics) != 1 {
		return nil, errors.New("metadata: empty answer")
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return &resp.Topics[0], nil
}

// stableEnd is the offset behind the last record that a read_committed reader
// may see.
func stableEnd(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, readCommitted
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, -1 // latest
	if leader, epoch, err := cl.PartitionLeader(topic, partition); err == nil && leader >= 0 {
		rp.CurrentLeaderEpoch = epoch // one that was deposed, and that we know to be, does not answer (KIP-320)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	end, err := askEnd(ctx, cl, req)
	if errors.Is(err, kerr.FencedLeaderEpoch) || errors.Is(err, kerr.UnknownLeaderEpoch) {
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1 // what we know is old: the client asks who leads
		end, err = askEnd(ctx, cl, req)
	}
	if err != nil {
		return 0, fmt.Errorf("end of %s/%d: %w", topic, partition, err)
	}
	return end, nil
}

func askEnd(ctx context.Context, cl *kgo.Client, req *kmsg.ListOffsetsRequest) (int64, error) {
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("empty answer")
	}
	p := &resp.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}
