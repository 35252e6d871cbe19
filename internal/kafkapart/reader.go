package kafkapart

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/wait"
)

// Reader fetches what lies at an offset, by a client that is connected already.
// It sets no consumer up, so it is in nobody's way.
type Reader struct {
	cl    *kgo.Client
	bytes int32 // of one answer

	mu    sync.Mutex
	known map[string]*kmsg.MetadataResponseTopic
}

// maxFetch is what one answer takes at most.
const maxFetch = 4 << 20

// NewReader reads in pieces of 4 MiB.
func NewReader(cl *kgo.Client) *Reader { return NewReaderOf(cl, maxFetch) }

// NewReaderOf reads in pieces of so many bytes, at most 4 MiB.
func NewReaderOf(cl *kgo.Client, bytes int) *Reader {
	return &Reader{cl: cl, bytes: int32(min(bytes, maxFetch)), known: map[string]*kmsg.MetadataResponseTopic{}}
}

// Client is the one that asks.
func (r *Reader) Client() *kgo.Client { return r.cl }

// Decompressor is the client's own, which bounds what a batch may take.
func (r *Reader) Decompressor() kgo.Decompressor {
	return r.cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
}

// Know keeps who leads the partitions of topics.
func (r *Reader) Know(topics ...*kmsg.MetadataResponseTopic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range topics {
		r.known[*t.Topic] = t
	}
}

// ReadFrom returns what an isolation level shows from an offset on, at least
// something, and where it ends. It waits until there is something.
func (r *Reader) ReadFrom(
	ctx context.Context, at TopicPartition, offset int64, isolation Isolation, d kgo.Decompressor,
) (kgo.Fetches, int64, error) {
	for pause := Pause; ; pause = min(2*pause, MaxPause) {
		p, err := r.Fetch(ctx, at, offset, isolation)
		if refused := (*FetchError)(nil); errors.As(err, &refused) && !kerr.IsRetriable(refused.Err) {
			return nil, 0, err
		}
		if p != nil {
			fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
				KeepControlRecords: true, Offset: offset, IsolationLevel: isolation.Kgo(),
				Topic: at.Topic, Partition: at.Partition,
			}, p, d, nil)
			if fp.Err != nil {
				return nil, 0, &FetchError{at, fp.Err}
			}
			if next > offset {
				topic := kgo.FetchTopic{Topic: at.Topic, Partitions: []kgo.FetchPartition{fp}}
				return kgo.Fetches{{Topics: []kgo.FetchTopic{topic}}}, next, nil
			}
		}
		if wait.For(ctx, pause); ctx.Err() != nil {
			return nil, 0, errors.Join(ctx.Err(), err)
		}
	}
}

// SkipHidden asks for what lies at an offset and returns the offset after what
// no reader will ever be given there: aborted records, markers, batches that
// compaction emptied. kgo drops fetches without visible records, so over such
// a tail its position would never reach the end.
func (r *Reader) SkipHidden(ctx context.Context, at TopicPartition, offset int64) (int64, error) {
	p, err := r.TryFetch(ctx, at, offset, ReadCommitted)
	if err != nil || p == nil {
		return offset, err // nil: an election, ask later
	}
	return HiddenThrough(p, offset), nil
}

// Appended is when a record was appended, and the epoch of the leader whose clock says so.
type Appended struct {
	At    time.Time
	Epoch int32
}

// AppendTime is when the record at an offset was appended; ok is false while
// the broker does not show it.
func (r *Reader) AppendTime(ctx context.Context, at TopicPartition, offset int64) (when Appended, ok bool, err error) {
	p, err := r.TryFetch(ctx, at, offset, ReadUncommitted)
	if err != nil || p == nil || len(p.RecordBatches) < batchHeader {
		return when, false, err
	}
	// With LogAppendTime the batch has one time for all its records.
	when.At = time.UnixMilli(int64(binary.BigEndian.Uint64(p.RecordBatches[batchMaxTime:])))
	when.Epoch = int32(binary.BigEndian.Uint32(p.RecordBatches[batchEpoch:]))
	return when, true, nil
}

// RecordAt is the record at an offset; nil if none is there any more. That no leader shows what is there is a
// FetchError: it is no record that compaction has removed.
func (r *Reader) RecordAt(
	ctx context.Context, at TopicPartition, offset int64, d kgo.Decompressor,
) (*kgo.Record, error) {
	p, err := r.Fetch(ctx, at, offset, ReadUncommitted)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange): // retention has removed it, or the log has lost its end
		return nil, nil
	case err != nil:
		return nil, err
	case p == nil:
		return nil, &FetchError{at, kerr.LeaderNotAvailable}
	}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: kgo.ReadUncommitted(),
		Topic: at.Topic, Partition: at.Partition,
	}, p, d, nil)
	if fp.Err != nil || len(fp.Records) == 0 || fp.Records[0].Offset != offset {
		return nil, nil
	}
	return fp.Records[0], nil
}

// TryFetch is Fetch where a refusal is nil as well: another try cures it.
func (r *Reader) TryFetch(
	ctx context.Context, at TopicPartition, offset int64, isolation Isolation,
) (*kmsg.FetchResponseTopicPartition, error) {
	p, err := r.Fetch(ctx, at, offset, isolation)
	if refused := (*FetchError)(nil); errors.As(err, &refused) {
		return nil, nil
	}
	return p, err
}

// Fetch asks for what lies at an offset, without waiting; nil if no leader
// answers. What one answers in place of records is a FetchError.
func (r *Reader) Fetch(
	ctx context.Context, at TopicPartition, offset int64, isolation Isolation,
) (p *kmsg.FetchResponseTopicPartition, err error) {
	for range 2 {
		var t *kmsg.MetadataResponseTopic
		if t, err = r.metadata(ctx, at.Topic); err != nil {
			return nil, err
		}
		if leader := LeaderOf(t, at.Partition); leader != nil && leader.Leader >= 0 {
			if p, err = r.fetch(ctx, t, leader, offset, isolation); p != nil {
				return p, nil
			}
		}
		r.forget(at.Topic) // it may lead no more
	}
	return nil, err
}

func (r *Reader) metadata(ctx context.Context, topic string) (t *kmsg.MetadataResponseTopic, err error) {
	r.mu.Lock()
	t = r.known[topic]
	r.mu.Unlock()
	if t != nil {
		return t, nil
	}
	if t, err = Metadata(ctx, r.cl, topic); err != nil {
		return nil, err
	}
	r.Know(t)
	return t, nil
}

func (r *Reader) forget(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, topic)
}

// fetch asks one leader.
func (r *Reader) fetch(
	ctx context.Context, t *kmsg.MetadataResponseTopic, leader *kmsg.MetadataResponseTopicPartition,
	offset int64, isolation Isolation,
) (*kmsg.FetchResponseTopicPartition, error) {
	at := TopicPartition{*t.Topic, leader.Partition}
	resp, err := r.request(t, leader, offset, isolation).RequestWith(ctx, r.cl.Broker(int(leader.Leader)))
	if err != nil {
		return nil, fmt.Errorf("fetch %s/%d: %w", at.Topic, at.Partition, err)
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
	return nil, &FetchError{at, kerr.ErrorForCode(code)}
}

func (r *Reader) request(
	t *kmsg.MetadataResponseTopic, leader *kmsg.MetadataResponseTopicPartition, offset int64, isolation Isolation,
) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 0, 0, r.bytes, int8(isolation)
	req.SessionEpoch = -1 // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = *t.Topic, t.TopicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = leader.Partition, offset, r.bytes
	rp.CurrentLeaderEpoch = leader.LeaderEpoch // else a leader that has become a follower answers with less
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// FetchError says where a fetch failed.
type FetchError struct {
	At  TopicPartition
	Err error
}

func (e *FetchError) Error() string {
	return fmt.Sprintf("fetch %s/%d: %v", e.At.Topic, e.At.Partition, e.Err)
}

// Unwrap is what the broker or the client said.
func (e *FetchError) Unwrap() error { return e.Err }
