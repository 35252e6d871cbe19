package pipeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/trigger"
)

// barrier keeps the promise that an acknowledged cancel wins: before anything
// due at T fires, everything that Kafka had in commands and receipts when
// asked at or after T has been read. One answer serves everything due up to
// the moment it was asked at.
//
// The end asked for is the high watermark, not the last stable offset: behind
// a foreign producer's open transaction an acknowledged cancel is invisible.
// Such a transaction holds firing back for at most BarrierMaxHold, once per
// stable offset; a mere backlog is read, however long it is.
type barrier struct {
	asked trigger.Instant
	ends  positions // high watermarks when asked
	at    positions // next offset to read

	moved   [2]time.Time // when commands and receipts last brought something
	held    time.Time    // since when an open transaction holds us; zero: it does not
	pardon  positions    // stable offsets that were waited for long enough
	checked time.Time
}

// positions are offsets of commands and receipts.
type positions struct{ commands, receipts int64 }

func (b *barrier) start(at positions) {
	now := time.Now() // a fetch that has only begun is no hidden tail
	*b = barrier{at: at, pardon: positions{-1, -1}, moved: [2]time.Time{now, now}}
}

// read notes what was polled.
func (b *barrier) read(records []*kgo.Record, p *Partition) {
	commands, receipts, now := p.opts.Names.Commands(), p.opts.Names.Receipts(), time.Now()
	for _, r := range records {
		switch r.Topic {
		case commands:
			b.at.commands, b.moved[0] = r.Offset+1, now
		case receipts:
			b.at.receipts, b.moved[1] = r.Offset+1, now
		}
	}
}

// patience is how long a poll may wait while something is due.
func (b *barrier) patience() time.Duration {
	if b.reached() {
		return 0
	}
	return 2 * time.Millisecond
}

func (b *barrier) reached() bool {
	return b.at.commands >= b.ends.commands && b.at.receipts >= b.ends.receipts
}

// passed returns the instant up to which timers may fire now; 0 if they have
// to wait for what is still to be read.
func (b *barrier) passed(ctx context.Context, p *Partition) (trigger.Instant, error) {
	// What the wheel has let go has passed; what is still in it may not have,
	// however old the rest is that waits to be caught up with.
	if due, ok := p.wheel.Next(); ok && b.asked < trigger.Instant(due) && trigger.Instant(due) <= p.now() {
		if err := b.ask(ctx, p); err != nil {
			return 0, err
		}
	}
	if !b.reached() {
		if err := b.look(ctx, p); err != nil {
			return 0, err
		}
	}
	if !b.reached() {
		return 0, nil
	}
	if !b.held.IsZero() {
		p.opts.Listener.BarrierHeld(p.id, time.Since(b.held))
		b.held = time.Time{}
	}
	return b.asked, nil
}

// ask takes the high watermarks. The clock is read before the question: what
// was acknowledged until then is below the answer.
func (b *barrier) ask(ctx context.Context, p *Partition) error {
	now := p.now()
	ends, err := listOffsets(ctx, p.kafka.cl, []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}, p.id, readUncommitted, latest)
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	b.asked, b.ends = now, positions{ends[0], ends[1]}
	return nil
}

// lookInterval bounds how often a partition that waits asks why, and how long
// it waits before it first does.
const lookInterval = 25 * time.Millisecond

// look finds out why nothing comes although the end is not reached: the rest
// is compacted or aborted and will never be delivered, or a foreign
// transaction is open.
func (b *barrier) look(ctx context.Context, p *Partition) error {
	if time.Since(b.checked) < lookInterval {
		return nil
	}
	b.checked = time.Now()
	if time.Since(b.moved[0]) >= lookInterval {
		if err := b.lookAt(ctx, p, p.opts.Names.Commands(), &b.at.commands, b.ends.commands, &b.pardon.commands); err != nil {
			return err
		}
	}
	if time.Since(b.moved[1]) < lookInterval {
		return nil
	}
	return b.lookAt(ctx, p, p.opts.Names.Receipts(), &b.at.receipts, b.ends.receipts, &b.pardon.receipts)
}

func (b *barrier) lookAt(ctx context.Context, p *Partition, topic string, at *int64, end int64, pardon *int64) error {
	if *at >= end {
		return nil
	}
	stable, err := p.kafka.listOffset(ctx, topic, p.id, readCommitted, latest)
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if *at < stable {
		next, err := p.kafka.skipHidden(ctx, topic, p.id, *at)
		if err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
		*at = max(*at, min(next, stable))
	}
	if *at < stable || *at >= end {
		return nil
	}
	return b.hold(p, stable, end, at, pardon)
}

// hold waits for a foreign open transaction, but not for ever: then firing
// goes on behind its back, and it is counted.
func (b *barrier) hold(p *Partition, stable, end int64, at, pardon *int64) error {
	if b.held.IsZero() {
		b.held = time.Now()
	}
	if stable > *pardon && time.Since(b.held) < p.opts.BarrierMaxHold {
		return nil
	}
	*pardon = stable
	// Only this answer is forgiven: the position stays, and what the
	// transaction commits later is read as always.
	if at == &b.at.commands {
		b.ends.commands = *at
	} else {
		b.ends.receipts = *at
	}
	p.log.Warn("firing past a foreign open transaction", "stable_offset", stable, "high_watermark", end, "held", time.Since(b.held))
	return nil
}

// skipHidden asks for what lies at an offset and returns the offset after what
// no reader will ever be given there: aborted records, markers, batches that
// compaction emptied. kgo drops fetches without visible records, so over such
// a tail its position would never reach the end.
func (s *session) skipHidden(ctx context.Context, topic string, partition int32, offset int64) (int64, error) {
	p, err := s.peek(ctx, topic, partition, offset, readCommitted)
	if err != nil || p == nil {
		return offset, err // nil: an election, look again
	}
	return hiddenThrough(p, offset), nil
}

// appendTime is when the record at an offset was appended; ok is false while
// the broker does not show it.
func (s *session) appendTime(ctx context.Context, topic string, partition int32, offset int64) (at time.Time, ok bool, err error) {
	p, err := s.peek(ctx, topic, partition, offset, readUncommitted)
	if err != nil || p == nil || len(p.RecordBatches) < batchHeader {
		return at, false, err
	}
	// With LogAppendTime the batch has one time for all its records.
	return time.UnixMilli(int64(binary.BigEndian.Uint64(p.RecordBatches[batchMaxTime:]))), true, nil
}

// Record batch header (KIP-98): offsets of the fields we look at.
const (
	batchLength      = 8
	batchAttributes  = 21
	batchLastDelta   = 23
	batchMaxTime     = 35
	batchProducerID  = 43
	batchNumRecords  = 57
	batchHeader      = 61
	attrTransaction  = 0x10
	attrControl      = 0x20
	batchLengthStart = 12 // the length counts from here
)

// hiddenThrough is the end of the run of invisible batches at offset. A batch of
// a transaction is invisible from the first record of an aborted one of its
// producer up to the marker that ends it, as for every reader (KIP-98).
func hiddenThrough(p *kmsg.FetchResponseTopicPartition, offset int64) int64 {
	b := p.RecordBatches
	if len(b) < batchHeader {
		return max(offset, p.LastStableOffset) // nothing is left up to there
	}
	begins := slices.SortedFunc(slices.Values(p.AbortedTransactions), func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	aborted := map[int64]bool{} // producers whose transaction at hand is
	next := offset
	for len(b) >= batchHeader {
		last := int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[batchLastDelta:]))
		for len(begins) > 0 && begins[0].FirstOffset <= last {
			aborted[begins[0].ProducerID] = true
			begins = begins[1:]
		}
		attributes, producer := binary.BigEndian.Uint16(b[batchAttributes:]), int64(binary.BigEndian.Uint64(b[batchProducerID:]))
		switch {
		case attributes&attrControl != 0:
			delete(aborted, producer)
		case binary.BigEndian.Uint32(b[batchNumRecords:]) == 0: // compacted
		case attributes&attrTransaction == 0 || !aborted[producer]:
			return next
		}
		next = last + 1
		size := batchLengthStart + int(binary.BigEndian.Uint32(b[batchLength:]))
		if size > len(b) {
			return next
		}
		b = b[size:]
	}
	return next
}
