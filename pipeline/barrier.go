package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// barrier keeps the promise that an acknowledged cancel wins: before anything
// due at T fires, everything that Kafka had in commands when asked at or after
// T has been read. What waits for receipts (retries, steps, time-outs) waits
// for the same of receipts as well; nothing else does, so a transaction left
// open on receipts holds up no one-shot.
//
// The end asked for is the high watermark, not the last stable offset: behind
// a foreign producer's open transaction an acknowledged cancel is invisible.
// Such a transaction holds firing back for at most BarrierMaxHold, once per
// stable offset; a mere backlog is read, however long it is.
//
// It only keeps the books: poll asks Kafka and tells it the answers.
type barrier struct{ commands, receipts inputBarrier }

// inputBarrier is how far one topic has been read, and how far it must be.
type inputBarrier struct {
	topic   string
	at      int64           // next offset to read
	end     int64           // high watermark when asked
	asked   trigger.Instant // when that was, before the question; 0: not yet
	through trigger.Instant // all that was acknowledged up to here has been read

	moved     time.Time // when it last brought something
	checked   time.Time // when it was last found out why it brings nothing
	held      time.Time // since when an open transaction holds it; zero: none does
	tolerated int64     // stable offset that was waited for long enough
}

func (b *barrier) start(n topics.Names, commands, receipts int64) {
	now := time.Now() // a fetch that has only begun is no hidden tail
	b.commands = inputBarrier{topic: n.Commands(), at: commands, moved: now, tolerated: -1}
	b.receipts = inputBarrier{topic: n.Receipts(), at: receipts, moved: now, tolerated: -1}
}

// read notes what was polled.
func (b *barrier) read(records []*kgo.Record) {
	now := time.Now()
	for _, r := range records {
		switch r.Topic {
		case b.commands.topic:
			b.commands.at, b.commands.moved = r.Offset+1, now
		case b.receipts.topic:
			b.receipts.at, b.receipts.moved = r.Offset+1, now
		}
	}
}

// answered takes the high watermarks that Kafka gave to a question put at
// asked. Those of receipts are not moved while the last ones are still to be
// reached: under a steady flow they never would be.
func (b *barrier) answered(asked trigger.Instant, commands, receipts int64) {
	b.commands.asked, b.commands.end = asked, commands
	if b.receipts.reached() {
		b.receipts.asked, b.receipts.end = asked, receipts
	}
}

func (i *inputBarrier) reached() bool { return i.at >= i.end }

// forget drops an answer to a question that was put later than now: the clock was
// set back since, and what falls due until then again has not been asked for.
func (i *inputBarrier) forget(now trigger.Instant) {
	if i.asked > now || i.through > now {
		i.asked, i.through = 0, 0
	}
}

// pass notes that the end was reached, and since when an open transaction held
// it back, if one did.
func (i *inputBarrier) pass() (held time.Time, ok bool) {
	if !i.reached() {
		return time.Time{}, false
	}
	i.through = max(i.through, i.asked)
	held, i.held = i.held, time.Time{}
	return held, true
}

// patience is how long a poll may wait while something is due.
func (b *barrier) patience() time.Duration {
	if b.commands.reached() && b.receipts.reached() {
		return 0
	}
	return 2 * time.Millisecond
}

// hiddenAfter is how long an input may bring nothing before it is found out
// why, and how often that is asked.
const hiddenAfter = 25 * time.Millisecond

// stalled says that nothing comes although the end is not reached.
func (i *inputBarrier) stalled(now time.Time) bool {
	return !i.reached() && now.Sub(i.moved) >= hiddenAfter && now.Sub(i.checked) >= hiddenAfter
}

// hold waits at a stable offset for a foreign open transaction, but not for
// ever: then only this end is given up. The position stays, and what the
// transaction commits later is read as always. It says whether it gave up.
func (i *inputBarrier) hold(stable int64, now time.Time, most time.Duration) bool {
	if i.at < stable || i.reached() {
		return false
	}
	if i.held.IsZero() {
		i.held = now
	}
	if stable > i.tolerated && now.Sub(i.held) < most {
		return false
	}
	i.tolerated, i.end = stable, i.at
	return true
}

// passed returns the instant up to which timers may fire now; 0 if they have
// to wait for what is still to be read.
func (p *Partition) passed(ctx context.Context) (trigger.Instant, error) {
	b := &p.barrier
	b.commands.forget(p.now())
	b.receipts.forget(p.now())
	if p.mustAsk(p.now()) {
		if err := p.askEnds(ctx); err != nil {
			return 0, err
		}
	}
	for _, in := range []*inputBarrier{&b.commands, &b.receipts} {
		if in.stalled(time.Now()) {
			if err := p.findHidden(ctx, in); err != nil {
				return 0, err
			}
		}
		if held, ok := in.pass(); ok && !held.IsZero() {
			p.opts.Listener.BarrierHeld(p.id, time.Since(held))
		}
	}
	p.ready.Release(b.receipts.through, p.now())
	if !b.commands.reached() || !p.anyReady(p.now()) {
		return 0, nil
	}
	return b.commands.through, nil
}

// mustAsk says that something is due by now that the last answer does not
// cover. What the wheel has let go is covered; what is still in it may not be,
// however old the rest is that waits to be caught up with, nor what came to be
// ready without passing the wheel.
func (p *Partition) mustAsk(now trigger.Instant) bool {
	b := &p.barrier
	due, ok := p.wheel.Next()
	return b.commands.asked == 0 || ok && b.commands.asked < trigger.Instant(due) && trigger.Instant(due) <= now ||
		b.commands.asked < p.ready.Newest() ||
		b.receipts.reached() && b.receipts.asked < p.ready.HeldNewest()
}

// askEnds takes the high watermarks. The clock is read before the question:
// what was acknowledged until then is below the answer.
func (p *Partition) askEnds(ctx context.Context) error {
	asked := p.now()
	ends, err := kafkapart.ListOffsets(ctx, p.kafka.cl, []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}, p.id,
		kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	p.barrier.answered(asked, ends[0], ends[1])
	return nil
}

// findHidden finds out why nothing comes although the end is not reached: the
// rest is compacted or aborted and will never be delivered, or a foreign
// transaction is open.
func (p *Partition) findHidden(ctx context.Context, in *inputBarrier) error {
	in.checked = time.Now()
	stable, err := kafkapart.ListOffset(ctx, p.kafka.cl, in.topic, p.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if in.at < stable {
		next, err := p.kafka.reader.SkipHidden(ctx, kafkapart.TopicPartition{Topic: in.topic, Partition: p.id}, in.at)
		if err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
		in.at = max(in.at, min(next, stable))
	}
	held := in.held
	if end := in.end; in.hold(stable, time.Now(), p.opts.BarrierMaxHold) {
		p.log.Warn("firing past a foreign open transaction", "topic", in.topic, "stable_offset", stable,
			"high_watermark", end, "held", time.Since(held))
	}
	return nil
}
