package pipeline

import (
	"cmp"
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
func (p *Partition) guardInputs(t *turn, in input) {
	for _, r := range in.records {
		var last *topics.LastRead
		switch r.Topic {
		case p.opts.Names.Commands():
			last = &t.guard.Commands
		case p.opts.Names.Receipts():
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

// writeGuard produces the guard record if it has changed, or if it is far from the end of
// topic state. An opening owner searches only so far back for the group.
func (p *Partition) writeGuard(ctx context.Context, t *turn) (err error) {
	was, is := p.guard, &t.guard
	if was.Seq > 0 && p.stateNext-p.guarded < guardInterval && was.Group == is.Group && was.Commands == is.Commands &&
		was.Receipts == is.Receipts &&
		was.ReceiptsID == is.ReceiptsID && was.ControlID == is.ControlID && maps.Equal(was.Applied, is.Applied) {
		return nil
	}
	t.guard.Seq = t.progress.Seq
	if t.encodedGuard, err = topics.AppendGuard(nil, &t.guard); err != nil {
		return err
	}
	r := &kgo.Record{Topic: p.names.state, Partition: p.id, Key: topics.KeyGuard, Value: t.encodedGuard}
	t.firstState = cmp.Or(t.firstState, r)
	p.kafka.produce(ctx, r)
	return nil
}

// errSecondWriter says that another process has written to our partition of topic state,
// under a transactional id that ours does not fence.
var errSecondWriter = errors.New("another producer writes to the partition's state")

// errStateBack says that topic state lost turns of ours. The next opening compares it with
// the store (sameState).
var errStateBack = errors.New("topic state lost its end")

// checkAlone compares the offsets of the turn's records of topic state with the expected
// ones, right behind the last turn's marker. Kafka may write a marker twice; any other
// record in between comes from a second writer.
func (p *Partition) checkAlone(ctx context.Context, first, last int64) error {
	next := p.stateNext
	p.stateNext = last + 2                             // behind the marker
	if next == 0 || first == next || first == next-1 { // Kafka may have left the marker out (package dangling)
		return nil
	}
	if first < next {
		return fmt.Errorf("%w: %s/%d wrote at offset %d what belongs at offset %d", errStateBack, p.names.state,
			p.id, first, next)
	}
	p.kept.Step(stepAlone)
	for next < first {
		f, err := p.kafka.reader.TryFetch(ctx, p.state(), next, kafkapart.ReadUncommitted)
		end, control, ok := kafkapart.EndOfFirst(f)
		if err != nil || !ok {
			return err // an election; the next gap asks for the same
		}
		if !control && end > next && end <= first {
			return fmt.Errorf("%w: %s/%d has records at %d that are not ours. Is there a node with another group "+
				"on this prefix? "+
				"Stop it, then restart this one", errSecondWriter, p.names.state, p.id, next)
		}
		next = max(end, next+1)
	}
	return nil
}
