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
	"github.com/waterclock/waterclock/pipeline/recovery"
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

// sameState refuses a topic state that does not hold the last turn that our store has. Its
// log lost committed turns. What they fired is in other topics, and would fire twice.
func (p *Partition) sameState(ctx context.Context, r *recovery.Replica) error {
	stored, at, err := r.LastTurn()
	if err != nil || stored == nil {
		return err
	}
	end, err := kafkapart.ListOffset(ctx, p.kafka.cl, p.names.state, p.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	if at < end {
		rec, err := p.kafka.reader.RecordAt(ctx, p.state(), at, p.opts.decompressor())
		if err != nil || rec == nil || isTurn(rec, stored) {
			return err
		}
	}
	err = p.opts.gap(p.id, at,
		"%s/%d ends at %d, and does not hold turn %d, which was committed at %d: it lost its end. "+
			"What fired since then is recorded nowhere, and may fire again", p.names.state, p.id, end, stored.Seq, at)
	if err != nil {
		return err
	}
	return r.Wipe("topic state lost its end")
}

// isTurn reports whether a record is the progress of this turn.
func isTurn(rec *kgo.Record, want *topics.Progress) bool {
	if string(rec.Key) != string(topics.KeyProgress) {
		return false
	}
	have, err := topics.DecodeProgress(rec.Value)
	return err == nil && have.Seq == want.Seq && have.Term == want.Term && have.EventUS == want.EventUS &&
		have.At == want.At
}

// lost returns the offset from which on a log is not the one that was read; -1 if it is the
// same, or if nothing shows a difference. A record that compaction or retention removed
// shows nothing; the leader epochs may.
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
	if err != nil || r == nil {
		return -1, err
	}
	if r.Attrs.IsControl() || sumOf(r) != last.Sum {
		return last.Offset, nil
	}
	return -1, nil
}

// ErrForeignGroup says that another consumer group owns the topics. Two groups would both
// fire everything.
var ErrForeignGroup = errors.New("these topics belong to another group")

// ownedBy refuses a partition of another group, unless the operator takes it over.
func (o *Options) ownedBy(group string) error {
	if group == "" || group == o.Group || group == o.TakeOverGroup {
		return nil
	}
	return fmt.Errorf("%w: topics %s* are owned by group %q, this node is set to group %q, and two groups would "+
		"fire everything twice. "+
		"Set group: %s, or another topics.prefix; to move them to this group for good, stop the other's nodes and "+
		"start once with --take-over %s",
		ErrForeignGroup, o.Names.Prefix, group, o.Group, group, group)
}

// askGroup finds which group owns the partition, before anything is written to it. Even a
// nonce would disturb the owner.
func (p *Partition) askGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	start, err := kafkapart.ListOffset(ctx, p.kafka.cl, p.names.state, p.id, kafkapart.ReadCommitted,
		kafkapart.Earliest)
	if err != nil {
		return err
	}
	end, err := kafkapart.ListOffset(ctx, p.kafka.cl, p.names.state, p.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	for _, back := range []int64{groupNear, groupFar} {
		from := max(start, end-back)
		last, err := p.guardIn(ctx, from, end)
		if err != nil {
			return err
		}
		if last == nil && from > start {
			continue // a long aborted transaction, or an older version; restore checks later
		}
		if last == nil || last.Group == p.opts.Group || last.Group == "" {
			return nil
		}
		if err := p.opts.ownedBy(last.Group); err != nil {
			return err
		}
		return p.takeOver(ctx, last)
	}
	return nil
}

// groupNear and groupFar bound how far back the end of topic state is searched for the
// group.
const (
	groupNear = 256
	groupFar  = 16 << 10
)

// guardIn returns the last guard in a range of topic state; nil if there is none.
func (p *Partition) guardIn(ctx context.Context, from, end int64) (last *topics.Guard, err error) {
	for from < end {
		var fs kgo.Fetches
		if fs, from, err = p.kafka.reader.ReadFrom(ctx, p.state(), from, p.opts.isolation(),
			p.opts.decompressor()); err != nil {
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
func (p *Partition) takeOver(ctx context.Context, last *topics.Guard) error {
	group := last.Group
	p.log.Warn("taking the partition over from another group", "group", group)
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.TransactionalID(fmt.Sprintf("%s-%d", group, p.id)), kgo.TransactionTimeout(p.opts.TransactionTimeout),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff), kgo.DisableClientMetrics(),
	}, p.opts.Kafka...)...)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("take over: fence group %s: %w", group, err)
	}
	p.takeOverGuard, last.Group = last, p.opts.Group
	return nil
}

// errSecondWriter says that another process has written to our partition of topic state,
// under a transactional id that ours does not fence.
var errSecondWriter = errors.New("somebody else writes to the partition's state")

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
		return fmt.Errorf("%w: %s/%d takes at %d what must stand at %d", errStateBack, p.names.state, p.id, first, next)
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
