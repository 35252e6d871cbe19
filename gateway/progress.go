package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// topicReader reads a topic by single fetches, without a consumer.
type topicReader struct {
	kafka *producer.Producer
	topic string

	mu     sync.Mutex
	reader *kafkapart.Reader // made on first use
}

// progressSteps are distances from the end of the topic, in offsets. A turn writes at most
// some thousand records.
var progressSteps = []int64{64, 1 << 10, 1 << 14, 1 << 18}

// lastOwner is the owner in the last progress record of topic state; it has no address if
// there is no record. Every turn ends with such a record, so it is near the end.
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

// lastProgress is the last committed progress record of [from, until).
func (r *topicReader) lastProgress(ctx context.Context, partition int32, from, until int64) (last *topics.Progress,
	err error,
) {
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
		if next <= from { // compacted up to the end
			return nil
		}
		from = next
	}
	return nil
}

// fetch asks the partition's leader once. It needs no consumer, because it is used only
// when a partition moves.
func (r *topicReader) fetch(ctx context.Context, partition int32, from int64) ([]*kgo.Record, int64, error) {
	at := kafkapart.TopicPartition{Topic: r.topic, Partition: partition}
	reader := r.leaders()
	p, err := reader.Fetch(ctx, at, from, kafkapart.ReadCommitted)
	if err == nil && p == nil {
		err = errors.New("it has no leader")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("fetch %s/%d: %w", r.topic, partition, err)
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: r.topic,
		Partition: partition,
	}, p, reader.Decompressor(), nil)
	if got.Err != nil {
		return nil, 0, fmt.Errorf("fetch %s/%d: %w", r.topic, partition, got.Err)
	}
	return got.Records, next, nil
}

// leaders uses the producer's present client, which may be replaced.
func (r *topicReader) leaders() *kafkapart.Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cl := r.kafka.Client(); r.reader == nil || r.reader.Client() != cl {
		r.reader = kafkapart.NewReader(cl)
	}
	return r.reader
}

// stableEnd is the end of a partition for read_committed readers.
func stableEnd(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return kafkapart.ListOffset(ctx, cl, topic, partition, kafkapart.ReadCommitted, kafkapart.Latest)
}

// startOf is the first offset that a partition still has.
func startOf(ctx context.Context, cl *kgo.Client, topic string, partition int32) (int64, error) {
	return kafkapart.ListOffset(ctx, cl, topic, partition, kafkapart.ReadUncommitted, kafkapart.Earliest)
}

// between returns the offsets between which a list lies: records appended from an instant on (0: all
// that the partition still has), and below the offset before, or if that is negative, before the
// instant to (0: up to the end).
func (r *topicReader) between(ctx context.Context, partition int32, from, to trigger.Instant, before int64) (
	first, end int64, err error,
) {
	cl := r.kafka.Client()
	if from != 0 {
		first, err = offsetSince(ctx, cl, r.topic, partition, from)
	} else {
		first, err = startOf(ctx, cl, r.topic, partition)
	}
	switch {
	case err != nil || before >= 0:
		end = before
	case to != 0:
		end, err = offsetSince(ctx, cl, r.topic, partition, to)
	default:
		end, err = stableEnd(ctx, cl, r.topic, partition)
	}
	return first, end, err
}

// offsetSince is the offset of the first record that was appended at or after an instant;
// the partition's end if there is none. The end is asked for first, so that a record that
// is appended between the two questions is behind it.
func offsetSince(ctx context.Context, cl *kgo.Client, topic string, partition int32, since trigger.Instant) (
	int64, error,
) {
	end, err := stableEnd(ctx, cl, topic, partition)
	if err != nil {
		return 0, err
	}
	at, err := kafkapart.ListOffset(ctx, cl, topic, partition, kafkapart.ReadCommitted, int64(since))
	if err != nil || at < 0 {
		return end, err
	}
	return min(at, end), nil
}
