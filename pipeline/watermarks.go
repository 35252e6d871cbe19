package pipeline

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// watermarks publishes how far the partition has fired (package watermark decides what may be
// said). It is off unless the setting is on and every member of the group reads the format of
// progress that this needs.
type watermarks struct {
	topic  string
	ledger *watermark.Ledger // nil: off
	ends   *atomic.Pointer[watermark.Offsets]
	stop   context.CancelFunc // ends the search for ends
	putOff putOff
}

// startWatermarks begins where the last owner stopped.
func (p *Partition) startWatermarks() {
	w := &p.watermarks
	w.topic, w.putOff = p.opts.Names.Watermarks(), putOff{}
	if !p.opts.publishes() {
		return
	}
	for channel, n := range p.progress.PutOff {
		w.putOff[channel] = n
	}
	w.ledger = watermark.Resume(watermark.Options{
		Partition: p.id, Term: p.progress.Term, Interval: p.opts.WatermarkInterval, Idle: p.opts.WatermarkIdle,
	}, p.progress.FiredThrough)
	ctx, cancel := context.WithCancel(context.Background())
	w.ends, w.stop = new(atomic.Pointer[watermark.Offsets]), cancel
	go func(ends *atomic.Pointer[watermark.Offsets], rouse func()) {
		if found := p.findEnds(ctx); found != nil {
			ends.Store(found)
			rouse()
		}
	}(w.ends, p.kafka.watcher.Rouse)
}

func (w *watermarks) close() {
	if w.stop != nil {
		w.stop()
	}
}

// publishes reports whether partitions write watermarks.
func (o *Process) publishes() bool { return o.WatermarkInterval > 0 && o.writes() >= topics.Watermarks }

// endsPause is the time between two questions for the ends of topics.
const endsPause = time.Second

// findEnds asks for the ends of the topics that owners of this partition write to. Everything
// that an earlier owner has emitted stands below them, because it was fenced before. It runs
// beside the turns, so that no opening waits for it. It returns nil if ctx ends.
func (p *Partition) findEnds(ctx context.Context) *watermark.Offsets {
	for ; ctx.Err() == nil; wait.For(ctx, endsPause) {
		events, err := kafkapart.ListOffset(ctx, p.opts.asker, p.names.events, p.id, kafkapart.ReadUncommitted,
			kafkapart.Latest)
		if err != nil {
			continue
		}
		due, err := p.dueTopics.All(ctx)
		if err != nil {
			continue
		}
		found := &watermark.Offsets{Events: events, Due: map[string]map[int32]int64{}}
		for i := range due {
			ends := map[int32]int64{}
			for _, at := range due[i].WrittenBy(p.id) {
				end, err := kafkapart.ListOffset(ctx, p.opts.asker, at.Topic, at.Partition, kafkapart.ReadUncommitted,
					kafkapart.Latest)
				if err != nil {
					found.Unknown = append(found.Unknown, at.Topic)
					break
				}
				ends[at.Partition] = end
			}
			found.Due[due[i].Name] = ends
		}
		if ctx.Err() == nil {
			return found
		}
	}
	return nil
}

// beginWatermark begins the part of the turn.
func (p *Partition) beginWatermark(t *turn) {
	w := &p.watermarks
	if on := p.opts.publishes(); on != (w.ledger != nil) {
		w.close()
		w.ledger, w.stop = nil, nil
		p.startWatermarks()
	}
	if w.ledger == nil {
		return
	}
	if ends := w.ends.Swap(nil); ends != nil {
		w.ledger.Know(*ends)
	}
	u, _ := p.kept.health.Of(w.topic)
	w.ledger.Begin(t.now, u == nil && !p.kept.dangling.Holds(w.topic))
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
		if p.progress.FiredThrough != 0 { // it was turned off, or an older member reads progress again
			p.produceWatermark(ctx, t, nil)
		}
		t.progress.FiredThrough, t.progress.PutOff = 0, nil
		return
	}
	work := watermark.Work{
		Hand: t.hand, Next: p.timers.unfired(), Commands: t.progress.NextCommand, Emits: len(t.manifest.byTopic) > 0,
	}
	work.Held = p.heldBack(t, &work)
	record, through := w.ledger.End(work)
	t.progress.FiredThrough, t.progress.PutOff = through, w.putOff.counts()
	if record != nil {
		p.produceWatermark(ctx, t, record.Value())
	}
}

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
	case w.Next > t.now:
	case !p.consumer.barrier.Commands.Reached():
		held = append(held, topics.HeldBarrier)
	default:
		held = append(held, topics.HeldLag)
	}
	for channel := range p.watermarks.putOff {
		held = append(held, p.dueTopicOf(channel))
	}
	slices.Sort(held)
	return slices.Compact(held)
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

// watermarkCommitted tells the ledger where the records of the turn stand.
func (p *Partition) watermarkCommitted(t *turn) {
	if p.watermarks.ledger == nil {
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
	p.watermarks.ledger.Committed(wrote)
}

// watermarkDue is when the next watermark is due.
func (p *Partition) watermarkDue(now trigger.Instant) trigger.Instant {
	w := &p.watermarks
	if w.ledger == nil || w.ends.Load() != nil {
		return watermark.Never // the next turn takes the ends
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
		return p.progress.FiredThrough != 0 // it is withdrawn
	}
	return w.ledger == nil || w.ends.Load() != nil || now.Sub(p.watermarkDue(now)) >= watermarkLate
}

// putOff counts, by channel, the planned occurrences that their due topics have put off. The
// name of a trigger with priority high ends in highMark.
type putOff map[string]int64

const highMark = "\x00high"

// moved notes what a decision has changed. A turn that fails takes it back: the partition opens
// again, and begins with what progress has.
func (c putOff) moved(was, is *trigger.State) {
	from, to := putOffBy(was), putOffBy(is)
	if from == nil && to == nil {
		return
	}
	if from != nil {
		switch channel := channelOf(from); c[channel] {
		case 0: // of before the counts began
		case 1:
			delete(c, channel)
		default:
			c[channel]--
		}
	}
	if to != nil {
		c[strings.Clone(channelOf(to))]++
	}
}

// putOffBy is the content of a state whose planned occurrence was put off; else nil.
func putOffBy(s *trigger.State) *trigger.Spec {
	if s == nil || s.Series.RetryAt == 0 || s.Series.At == 0 || s.Status.Finished() {
		return nil
	}
	return &s.Spec
}

func channelOf(s *trigger.Spec) string {
	channel := s.ChannelOfStep(0)
	if s.Priority == trigger.High {
		return channel + highMark
	}
	return channel
}

// counts copies the map for progress; nil if it is empty.
func (c putOff) counts() map[string]int64 {
	if len(c) == 0 {
		return nil
	}
	return maps.Clone(map[string]int64(c))
}
