package pipeline

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// watermarks publishes how far the partition has fired (package watermark decides what may be
// said). It is off unless the setting is on and every member of the group knows watermarks: an
// owner that does not would emit behind them.
//
// It decides what to write, and the turn writes it. It takes the turn's parts and a few answers
// of the partition, and never the partition itself.
type watermarks struct {
	opts   *Process
	id     int32
	kept   *Kept             // what is known of the topics that refuse records
	store  *statestore.Store // what was put off is counted there
	rouse  func()            // wakes a partition that waits
	topic  string
	events string // name of topic events

	inForce   bool              // the last record of the partition says something: off withdraws it
	published trigger.Instant   // fired_through of that record; while nobody can say it, the latest it can be
	ledger    *watermark.Ledger // nil: off
	found     *atomic.Pointer[watermark.Found]
	stop      context.CancelFunc // ends the search for what is found
	counted   bool               // what the search found put off is in putOff
	putOff    putOff
}

func newWatermarks(o *Process, id int32, kept *Kept) watermarks {
	return watermarks{opts: o, id: id, kept: kept, topic: o.Names.Watermarks(), events: o.Names.Events()}
}

// start begins where the last record stopped. at is the partition's progress. What was written
// before since is searched for.
func (w *watermarks) start(at *topics.Progress, since time.Time) {
	w.putOff, w.counted = putOff{}, false
	if !w.opts.publishes() {
		return
	}
	w.ledger = watermark.Resume(watermark.Options{
		Partition: w.id, Term: at.Term, Interval: w.opts.WatermarkInterval, Idle: w.opts.WatermarkIdle,
	}, w.published)
	ctx, cancel := context.WithCancel(context.Background())
	w.found, w.stop = new(atomic.Pointer[watermark.Found]), cancel
	sn, until := w.store.Snapshot(), at.At+trigger.MaxEmitRetry
	go func(search watermarkSearch, to *atomic.Pointer[watermark.Found], rouse func()) {
		search.run(ctx, sn, until, func(found *watermark.Found) {
			to.Store(found)
			rouse()
		})
	}(watermarkSearch{w.opts, w.id, since}, w.found, w.rouse)
}

func (w *watermarks) close() {
	if w.stop != nil {
		w.stop()
	}
}

// publishes reports whether partitions write watermarks.
func (o *Process) publishes() bool { return o.WatermarkInterval > 0 && o.writes() >= topics.Watermarks }

// mayWrite reports whether the topic takes records, as far as known.
func (w *watermarks) mayWrite() bool {
	u, _ := w.kept.health.Of(w.topic)
	return u == nil && !w.kept.dangling.Holds(w.topic)
}

// begin begins the part of the turn. A watermark waits for a turn that the barrier lets fire:
// another would say nothing new, and the next one would come an interval later.
func (w *watermarks) begin(t *turn, in *input) {
	if on := w.opts.publishes(); on != (w.ledger != nil) {
		w.close()
		w.ledger, w.stop = nil, nil
		w.start(&t.progress, time.Now())
	}
	if w.ledger == nil {
		return
	}
	if found := w.found.Swap(nil); found != nil {
		if !w.counted {
			w.putOff.add(found.PutOff)
			w.counted = true
		}
		w.ledger.Know(found.Ends, w.putOffTopics())
	}
	w.ledger.Begin(t.now, w.mayWrite(), in.fire == 0 && !w.must(t.now))
}

// effective is effective_at of an event; 0 if it has none.
func (w *watermarks) effective(f *trigger.Fact) trigger.Instant {
	if w.ledger == nil || f.Type != trigger.OccurrenceFired || f.Step != 0 || f.Attempt != 1 {
		return 0
	}
	return w.ledger.Effective(f.Due)
}

// reached is how far the partition is, where that may hold a watermark back.
type reached struct {
	timers    *timers
	inputs    bool // commands were read as far as the barrier wants
	clockHeld bool
}

// record ends the decisions of the turn. It returns the record to write; nil: none. The record is
// not in the manifest, because compaction may remove it long before the events.
func (w *watermarks) record(t *turn, at reached) *kgo.Record {
	if w.ledger == nil {
		if !w.mustWithdraw() {
			return nil
		}
		t.watermark = withdrawn // it was turned off, or the group has an older member
		return w.recordOf(nil)
	}
	work := watermark.Work{
		Hand: t.hand, Next: at.timers.unfired(), Commands: t.progress.NextCommand, Emits: len(t.manifest.byTopic) > 0,
	}
	work.Held = w.heldBack(at, work.Next <= t.now)
	if record := w.ledger.End(work); record != nil {
		t.watermark = record.FiredThrough
		return w.recordOf(record.Value())
	}
	return nil
}

// withdrawn is turn.watermark of a turn that writes null.
const withdrawn trigger.Instant = -1

func (w *watermarks) recordOf(value []byte) *kgo.Record {
	return &kgo.Record{Topic: w.topic, Partition: w.id, Key: topics.WatermarkKey(w.id), Value: value}
}

// heldBack names what may keep something due back. late reports whether a timer is due.
func (w *watermarks) heldBack(at reached, late bool) (held []string) {
	switch {
	case at.clockHeld:
		held = append(held, topics.HeldClock)
	case !at.inputs:
		held = append(held, topics.HeldBarrier) // also if nothing is due: nobody may say that everything was read
	case late:
		held = append(held, topics.HeldLag)
	}
	held = append(held, w.putOffTopics()...)
	slices.Sort(held)
	return held
}

// putOffTopics are the due topics that have put something off.
func (w *watermarks) putOffTopics() (names []string) {
	for channel := range w.putOff {
		names = append(names, w.dueTopicOf(channel))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dueTopicOf is the due topic of a channel or of its high lane, as putOff names them.
func (w *watermarks) dueTopicOf(channel string) string {
	name, high := strings.CutSuffix(channel, highMark)
	settings := w.opts.Channels.Settings(name)
	if high && settings.HighLane {
		return topics.HighLane(settings.Topic)
	}
	return settings.Topic
}

// committed notes what the turn has published, and tells the ledger where its records stand.
func (w *watermarks) committed(t *turn) {
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
		case topic == w.events:
			wrote.Events = tally.last.Offset + 1
		case w.opts.due.IsDue(topic):
			wrote.Due[topic] = tally.ends()
		}
	}
	w.ledger.Committed(wrote)
}

// due is when the next watermark is due.
func (w *watermarks) due(now trigger.Instant) trigger.Instant {
	if w.ledger == nil || w.found.Load() != nil {
		return watermark.Never // the next turn takes what was found
	}
	return w.ledger.Wake(now)
}

// watermarkLate is how long a due watermark waits for the read barrier. After that a turn says
// what holds it.
const watermarkLate = time.Second

// must reports whether a turn must run for the watermark alone, without the barrier.
func (w *watermarks) must(now trigger.Instant) bool {
	if !w.opts.publishes() {
		return w.mustWithdraw()
	}
	return w.ledger == nil || w.found.Load() != nil || now.Sub(w.due(now)) >= watermarkLate
}

// mustWithdraw reports whether the next turn writes null, if watermarks are off.
func (w *watermarks) mustWithdraw() bool { return w.inForce && w.mayWrite() }
