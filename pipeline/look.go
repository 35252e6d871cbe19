package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// look asks for what lies at an offset, by the client that is connected
// already; nil if no leader answers. What one answers in place of records is a
// fetchError.
func (s *session) look(ctx context.Context, topic string, partition int32, offset int64, isolation int8) (p *kmsg.FetchResponseTopicPartition, err error) {
	for range 2 {
		t := s.known[topic]
		if t == nil {
			if t, err = topicMetadata(ctx, s.ask, topic); err != nil {
				return nil, err
			}
			s.know(t)
		}
		if leader := leaderOf(t, partition); leader != nil && leader.Leader >= 0 {
			if p, err = s.fetch(ctx, t, leader, offset, isolation); p != nil {
				return p, nil
			}
		}
		delete(s.known, topic) // it may lead no more
	}
	return nil, err
}

// newReader is a session that only looks, in pieces of so many bytes: it must not
// be in the way of a partition's own.
func newReader(cl *kgo.Client, partition int32, piece int) *session {
	known := map[string]*kmsg.MetadataResponseTopic{}
	return &session{ask: cl, part: partition, known: known, suspects: map[place]*suspicion{}, piece: int32(min(piece, 4<<20))}
}

// know remembers who leads the partitions of topics.
func (s *session) know(topics ...*kmsg.MetadataResponseTopic) {
	for _, t := range topics {
		s.known[*t.Topic] = t
	}
}

// lookPause is between two looks at what is not committed to the end yet, or
// has no leader; it doubles up to mostLookPause.
const (
	lookPause     = 5 * time.Millisecond
	mostLookPause = 100 * time.Millisecond
)

// readFrom returns what is committed from an offset on, at least something,
// and where it ends.
func (s *session) readFrom(ctx context.Context, o *Options, topic string, partition int32, offset int64) (kgo.Fetches, int64, error) {
	isolation := int8(readCommitted)
	if o.isolation() == kgo.ReadUncommitted() {
		isolation = readUncommitted
	}
	for pause := lookPause; ; pause = min(2*pause, mostLookPause) {
		p, err := s.look(ctx, topic, partition, offset, isolation)
		if refused := (*fetchError)(nil); errors.As(err, &refused) && !kerr.IsRetriable(refused.err) {
			return nil, 0, err
		}
		if p != nil {
			fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
				KeepControlRecords: true, Offset: offset, IsolationLevel: o.isolation(), Topic: topic, Partition: partition,
			}, p, o.decompressor(), nil)
			if fp.Err != nil {
				return nil, 0, &fetchError{topic, partition, fp.Err}
			}
			if next > offset {
				return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, Partitions: []kgo.FetchPartition{fp}}}}}, next, nil
			}
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return nil, 0, errors.Join(ctx.Err(), err)
		}
	}
}

// peek is look where a refusal is nil as well: another try cures it.
func (s *session) peek(ctx context.Context, topic string, partition int32, offset int64, isolation int8) (*kmsg.FetchResponseTopicPartition, error) {
	p, err := s.look(ctx, topic, partition, offset, isolation)
	if refused := (*fetchError)(nil); errors.As(err, &refused) {
		return nil, nil
	}
	return p, err
}

// fetch asks the leader for what lies at an offset, without waiting.
func (s *session) fetch(ctx context.Context, t *kmsg.MetadataResponseTopic, leader *kmsg.MetadataResponseTopicPartition, offset int64, isolation int8) (*kmsg.FetchResponseTopicPartition, error) {
	topic := *t.Topic
	req := fetchRequest(topic, t.TopicID, leader, offset, isolation)
	if s.piece > 0 {
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = s.piece, s.piece
	}
	resp, err := req.RequestWith(ctx, s.ask.Broker(int(leader.Leader)))
	if err != nil {
		return nil, fmt.Errorf("fetch %s/%d: %w", topic, leader.Partition, err)
	}
	code := resp.ErrorCode
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if code = p.ErrorCode; code == 0 {
				return p, nil
			}
		}
	}
	if code == 0 {
		return nil, nil // the partition is not in the answer
	}
	return nil, &fetchError{topic, leader.Partition, kerr.ErrorForCode(code)}
}

func leaderOf(t *kmsg.MetadataResponseTopic, partition int32) *kmsg.MetadataResponseTopicPartition {
	for i := range t.Partitions {
		if t.Partitions[i].Partition == partition {
			return &t.Partitions[i]
		}
	}
	return nil
}

func fetchRequest(topic string, id [16]byte, leader *kmsg.MetadataResponseTopicPartition, offset int64, isolation int8) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 0, 0, 4<<20, isolation
	req.SessionEpoch = -1 // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = leader.Partition, offset, 4<<20
	rp.CurrentLeaderEpoch = leader.LeaderEpoch // else a leader that has become a follower answers with less
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}
