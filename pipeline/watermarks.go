package pipeline

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// watermarks publishes how far the partition has fired (package watermark decides what may be
// said). It is off unless the setting is on and every member of the group knows watermarks: an
// owner that does not would emit behind them.
type watermarks struct {
	topic     string
	inForce   bool              // the last record of the partition says something: off withdraws it
	published trigger.Instant   // fired_through of that record; while nobody can say it, the latest it can be
	ledger    *watermark.Ledger // nil: off
	found     *atomic.Pointer[watermark.Found]
	stop      context.CancelFunc // ends the search for what is found
	putOff    putOff
}

// startWatermarks begins where the last record stopped.
func (p *Partition) startWatermarks() {
	w := &p.watermarks
	w.putOff = putOff{}
	if !p.opts.publishes() {
		return
	}
	w.ledger = watermark.Resume(watermark.Options{
		Partition: p.id, Term: p.progress.Term, Interval: p.opts.WatermarkInterval, Idle: p.opts.WatermarkIdle,
	}, w.published)
	ctx, cancel := context.WithCancel(context.Background())
	w.found, w.stop = new(atomic.Pointer[watermark.Found]), cancel
	sn, until := p.store.Snapshot(), p.progress.At+trigger.MaxEmitRetry
	go func(to *atomic.Pointer[watermark.Found], rouse func()) {
		if found := p.findWatermarks(ctx, sn, until); found != nil {
			to.Store(found)
			rouse()
		}
	}(w.found, p.kafka.watcher.Rouse)
}

func (w *watermarks) close() {
	if w.stop != nil {
		w.stop()
	}
}

// publishes reports whether partitions write watermarks.
func (o *Process) publishes() bool { return o.WatermarkInterval > 0 && o.writes() >= topics.Watermarks }

// mayWriteWatermark reports whether the topic takes records, as far as known.
func (p *Partition) mayWriteWatermark() bool {
	u, _ := p.kept.health.Of(p.watermarks.topic)
	return u == nil && !p.kept.dangling.Holds(p.watermarks.topic)
}

// beginWatermark begins the part of the turn. A watermark waits for a turn that the barrier lets
// fire: another would say nothing new, and the next one would come an interval later.
func (p *Partition) beginWatermark(t *turn, in *input) {
	w := &p.watermarks
	if on := p.opts.publishes(); on != (w.ledger != nil) {
		w.close()
		w.ledger, w.stop = nil, nil
		p.startWatermarks()
	}
	if w.ledger == nil {
		return
	}
	if found := w.found.Swap(nil); found != nil {
		w.putOff.add(found.PutOff)
		w.ledger.Know(found.Ends, p.putOffTopics())
	}
	w.ledger.Begin(t.now, p.mayWriteWatermark(), in.fire == 0 && !p.mustWatermark(t.now))
}

// effective is effective_at of an event; 0 if it has none.
func (w *watermarks) effective(f *trigger.Fact) trigger.Instant {
	if w.ledger == nil || f.Type != trigger.OccurrenceFired || f.Step != 0 || f.Attempt != 1 {
		return 0
	}
	return w.ledger.Effective(f.Due)
}

// writeWatermark ends the decisions of the turn. It is not in the manifest, because compaction
// may remove it long before the events.
func (p *Partition) writeWatermark(ctx context.Context, t *turn) {
	w := &p.watermarks
	if w.ledger == nil {
		if p.mustWithdraw() { // it was turned off, or the group has an older member
			p.produceWatermark(ctx, t, nil)
			t.watermark = withdrawn
		}
		return
	}
	work := watermark.Work{
		Hand: t.hand, Next: p.timers.unfired(), Commands: t.progress.NextCommand, Emits: len(t.manifest.byTopic) > 0,
	}
	work.Held = p.heldBack(t, &work)
	if record := w.ledger.End(work); record != nil {
		p.produceWatermark(ctx, t, record.Value())
		t.watermark = record.FiredThrough
	}
}

// withdrawn is turn.watermark of a turn that writes null.
const withdrawn trigger.Instant = -1

func (p *Partition) produceWatermark(ctx context.Context, t *turn, value []byte) {
	t.records++
	p.kafka.produce(ctx, &kgo.Record{
		Topic: p.watermarks.topic, Partition: p.id, Key: topics.WatermarkKey(p.id), Value: value,
	})
}

// heldBack names what may keep something due back.
func (p *Partition) heldBack(t *turn, w *watermark.Work) (held []string) {
	switch {
	case p.clock.held:
		held = append(held, topics.HeldClock)
	case !p.consumer.barrier.Commands.Reached():
		held = append(held, topics.HeldBarrier) // also if nothing is due: nobody may say that everything was read
	case w.Next <= t.now:
		held = append(held, topics.HeldLag)
	}
	held = append(held, p.putOffTopics()...)
	slices.Sort(held)
	return held
}

// putOffTopics are the due topics that have put something off.
func (p *Partition) putOffTopics() (names []string) {
	for channel := range p.watermarks.putOff {
		names = append(names, p.dueTopicOf(channel))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dueTopicOf is the due topic of a channel or of its high lane, as putOff names them.
func (p *Partition) dueTopicOf(channel string) string {
	name, high := strings.CutSuffix(channel, highMark)
	settings := p.opts.Channels.Settings(name)
	if high && settings.HighLane {
		return topics.HighLane(settings.Topic)
	}
	return settings.Topic
}

// watermarkCommitted notes what the turn has published, and tells the ledger where its records
// stand.
func (p *Partition) watermarkCommitted(t *turn) {
	w := &p.watermarks
	switch t.watermark {
	case 0: // none was written
	case withdrawn:
		w.inForce, w.published = false, 0
	default:
		w.inForce, w.published = true, t.watermark
	}
	if w.ledger == nil {
		return
	}
	wrote := watermark.Offsets{Due: map[string]map[int32]int64{}}
	for topic, tally := range t.manifest.byTopic {
		switch {
		case topic == p.names.events:
			wrote.Events = tally.last.Offset + 1
		case p.dueTopics.IsDue(topic):
			wrote.Due[topic] = tally.ends()
		}
	}
	w.ledger.Committed(wrote)
}

// watermarkDue is when the next watermark is due.
func (p *Partition) watermarkDue(now trigger.Instant) trigger.Instant {
	w := &p.watermarks
	if w.ledger == nil || w.found.Load() != nil {
		return watermark.Never // the next turn takes what was found
	}
	return w.ledger.Wake(now)
}

// watermarkLate is how long a due watermark waits for the read barrier. After that a turn says
// what holds it.
const watermarkLate = time.Second

// mustWatermark reports whether a turn must run for the watermark alone, without the barrier.
func (p *Partition) mustWatermark(now trigger.Instant) bool {
	w := &p.watermarks
	if !p.opts.publishes() {
		return p.mustWithdraw()
	}
	return w.ledger == nil || w.found.Load() != nil || now.Sub(p.watermarkDue(now)) >= watermarkLate
}

// mustWithdraw reports whether the next turn writes null, if watermarks are off.
func (p *Partition) mustWithdraw() bool { return p.watermarks.inForce && p.mayWriteWatermark() }
