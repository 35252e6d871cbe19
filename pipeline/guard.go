package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// The guard record is what an owner leaves for the next one (topics.Guard): which group
// owns the partition, and the last record that it read of each input. A log that was
// truncated and filled anew has the same offsets but other records.

// guardInterval is the number of offsets after which an unchanged guard is written once
// more.
const guardInterval = groupNear / 2

// stateLog is what an owner knows of its partition of topic state: the guard record there, and
// where its next turn must stand. Both change with each turn that is committed.
type stateLog struct {
	kafkapart.TopicPartition
	reader *kafkapart.Reader
	kept   *Kept

	guard   topics.Guard
	guarded int64 // offset of the guard record, or one past it
	next    int64 // expected offset of the next turn's first record; 0: not known
}

// lastRead is what the guard keeps of a record.
func lastRead(r *kgo.Record) topics.LastRead {
	return topics.LastRead{Offset: r.Offset, Epoch: r.LeaderEpoch, Sum: sumOf(r)}
}

// sumOf distinguishes a record from another one at the same offset.
func sumOf(r *kgo.Record) uint64 {
	var b [24]byte
	binary.BigEndian.PutUint64(b[0:], xxhash.Sum64(r.Key))
	binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(r.Value))
	binary.BigEndian.PutUint64(b[16:], uint64(r.Timestamp.UnixMilli()))
	return xxhash.Sum64(b[:])
}

// guardInputs notes the last records that the turn has read, and the marker behind them. A
// record that stands for an unreadable batch has neither the leader epoch nor the content
// of that batch.
func (t *turn) guardInputs(in input, commands, receipts string) {
	for _, r := range in.records {
		var last *topics.LastRead
		switch r.Topic {
		case commands:
			last = &t.guard.Commands
		case receipts:
			last = &t.guard.Receipts
		}
		switch {
		case last == nil || in.unreadable[r] != nil:
		case !r.Attrs.IsControl():
			*last = lastRead(r)
		case *last != topics.LastRead{}:
			last.Behind = topics.Marker{Offset: r.Offset, Epoch: r.LeaderEpoch}
		}
	}
}

// guardRecord returns the guard record of a turn if it has changed, or if it is far from the end
// of topic state; else nil. An opening owner searches only so far back for the group.
func (l *stateLog) guardRecord(t *turn) (r *kgo.Record, err error) {
	was, is := &l.guard, &t.guard
	if was.Seq > 0 && l.next-l.guarded < guardInterval && was.Group == is.Group && was.Commands == is.Commands &&
		was.Receipts == is.Receipts &&
		was.ReceiptsID == is.ReceiptsID && was.ControlID == is.ControlID && maps.Equal(was.Applied, is.Applied) {
		return nil, nil
	}
	t.guard.Seq = t.progress.Seq
	if t.encodedGuard, err = topics.AppendGuard(nil, &t.guard); err != nil {
		return nil, err
	}
	return &kgo.Record{Topic: l.Topic, Partition: l.Partition, Key: topics.KeyGuard, Value: t.encodedGuard}, nil
}

// committed notes the guard of a turn whose last record stands at an offset.
func (l *stateLog) committed(t *turn, last int64) {
	l.guard = t.guard
	if t.encodedGuard != nil {
		l.guarded = last
	}
}

// errSecondWriter says that another process has written to our partition of topic state,
// under a transactional id that ours does not fence.
var errSecondWriter = errors.New("another producer writes to the partition's state")

// errStateBack says that topic state lost turns of ours. The next opening compares it with
// the store (recovery.Replica.SameState).
var errStateBack = errors.New("topic state lost its end")

// checkAlone compares the offsets of the turn's records of topic state with the expected
// ones, right behind the last turn's marker. Kafka may write a marker twice; any other
// record in between comes from a second writer.
func (l *stateLog) checkAlone(ctx context.Context, first, last int64) error {
	next := l.next
	l.next = last + 2                                  // behind the marker
	if next == 0 || first == next || first == next-1 { // Kafka may have left the marker out (package dangling)
		return nil
	}
	if first < next {
		return fmt.Errorf("%w: %s/%d wrote at offset %d what belongs at offset %d", errStateBack, l.Topic,
			l.Partition, first, next)
	}
	l.kept.Step(stepAlone)
	for next < first {
		f, err := l.reader.TryFetch(ctx, l.TopicPartition, next, kafkapart.ReadUncommitted)
		end, control, ok := kafkapart.EndOfFirst(f)
		if err != nil || !ok {
			return err // an election; the next gap asks for the same
		}
		if !control && end > next && end <= first {
			return fmt.Errorf("%w: %s/%d has records at %d that are not ours. Is there a node with another group "+
				"on this prefix? "+
				"Stop it, then restart this one", errSecondWriter, l.Topic, l.Partition, next)
		}
		next = max(end, next+1)
	}
	return nil
}
