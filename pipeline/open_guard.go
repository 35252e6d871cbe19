package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
)

// ErrForeignGroup says that another consumer group owns the topics. Two groups would both
// fire everything.
var ErrForeignGroup = errors.New("these topics belong to another group")

// ErrForeignTopics says that the group has members with other topics. One group serves the topics of
// one prefix.
var ErrForeignTopics = errors.New("this group belongs to other topics")

// ErrForeignPrefix says that the data directory belongs to topics of another prefix, which are
// still there. It would be emptied, and the other topics would miss nothing of it.
var ErrForeignPrefix = errors.New("this data directory belongs to other topics")

// samePrefix refuses a store of a topic state that exists under another name. Had the topic been
// deleted and made again, no topic would have its id.
func (o *opening) samePrefix(ctx context.Context) error {
	raw, err := o.store.Meta(recovery.MetaProgress)
	if err != nil || raw == nil {
		return err
	}
	last, err := topics.DecodeProgress(raw)
	if err != nil || last.StateID == o.ids.State || last.StateID == [16]byte{} {
		return nil // the restore decides about what cannot be read
	}
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	name, err := kafkapart.NameOf(ctx, o.kafka.cl, last.StateID)
	if err != nil || name == "" {
		return err
	}
	return fmt.Errorf("%w: the store of partition %d is of topic %s, and topics.prefix is set to %q. "+
		"Set topics.prefix: %s, or another data_dir", ErrForeignPrefix, o.id, name,
		strings.TrimSuffix(o.names.state, "state"),
		strings.TrimSuffix(name, "state"))
}

// groupNear and groupFar bound how far back the end of topic state is searched for the
// group.
const (
	groupNear = 256
	groupFar  = 16 << 10
)

// lost returns the offset from which on a log is not the one that was read; -1 if it is the
// same, or if nothing shows a difference. A record that compaction or retention removed, or that no leader shows,
// says nothing; the leader epochs may.
func (s *session) lost(ctx context.Context, o *Process, topic string, partition int32, last topics.LastRead) (int64,
	error,
) {
	if through, epoch := last.Through(); epoch >= 0 {
		end, err := kafkapart.EndOfEpoch(ctx, s.cl, topic, partition, epoch)
		if err != nil || end >= 0 && end <= through {
			return end, err
		}
	}
	r, err := s.reader.RecordAt(ctx, kafkapart.TopicPartition{Topic: topic, Partition: partition}, last.Offset,
		o.decompressor())
	if refused := (*kafkapart.FetchError)(nil); errors.As(err, &refused) {
		return -1, nil // a refused fetch does not keep the partition closed: the epochs were checked above
	}
	if err != nil || r == nil {
		return -1, err
	}
	if r.Attrs.IsControl() || sumOf(r) != last.Sum {
		return last.Offset, nil
	}
	return -1, nil
}

// ownedBy refuses a partition of another group, unless the operator takes it over.
func (o *Options) ownedBy(group string) error {
	if group == "" || group == o.Group || group == o.TakeOverGroup {
		return nil
	}
	return fmt.Errorf("%w: topics %s* belong to group %q, and this node has group %q. Two groups would fire every "+
		"trigger twice. "+
		"To join the nodes of these topics, set group: %s; for an installation of its own, set another topics.prefix. "+
		"To rename the group for good, stop all nodes of group %[5]s and start once with --take-over %[5]s",
		ErrForeignGroup, o.Names.Prefix, group, o.Group, group)
}

// askGroup finds which group owns the partition, before anything is written to it. Even a
// nonce would disturb the owner.
func (o *opening) askGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	start, err := kafkapart.ListOffset(ctx, o.kafka.cl, o.names.state, o.id, kafkapart.ReadCommitted,
		kafkapart.Earliest)
	if err != nil {
		return err
	}
	end, err := kafkapart.ListOffset(ctx, o.kafka.cl, o.names.state, o.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	for _, back := range []int64{groupNear, groupFar} {
		from := max(start, end-back)
		last, err := o.guardIn(ctx, from, end)
		if err != nil {
			return err
		}
		if last == nil && from > start {
			continue // a long aborted transaction, or an older version; restore checks later
		}
		if last == nil || last.Group == o.opts.Group || last.Group == "" {
			return nil
		}
		if err := o.opts.ownedBy(last.Group); err != nil {
			return err
		}
		return o.takeOver(ctx, last)
	}
	return nil
}

// guardIn returns the last guard in a range of topic state; nil if there is none.
func (o *opening) guardIn(ctx context.Context, from, end int64) (last *topics.Guard, err error) {
	for from < end {
		var fs kgo.Fetches
		if fs, from, err = o.kafka.reader.ReadFrom(ctx, o.state(), from, o.opts.isolation(),
			o.opts.decompressor()); err != nil {
			return nil, err
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Attrs.IsControl() || string(r.Key) != string(topics.KeyGuard) {
				continue
			}
			if last, err = topics.DecodeGuard(r.Value); err != nil {
				return nil, err
			}
		}
	}
	return last, nil
}

// takeOver fences the partition's owner in another group, as the operator asked. The nonce
// then comes with a guard that names our group. The other owner opens the partition anew
// within seconds, and our restore may take longer.
func (o *opening) takeOver(ctx context.Context, last *topics.Guard) error {
	group := last.Group
	o.log.Warn("taking the partition over from another group", "group", group)
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.TransactionalID(fmt.Sprintf("%s-%d", group, o.id)), kgo.TransactionTimeout(o.opts.TransactionTimeout),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff), kgo.DisableClientMetrics(),
	}, o.opts.Kafka...)...)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("take over: fence group %s: %w", group, err)
	}
	o.newGuard, last.Group = last, o.opts.Group
	return nil
}
