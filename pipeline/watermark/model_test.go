package watermark

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var seedFlag = flag.Uint64("seed", 0, "run the model with this seed alone")

// world is a partition with everything that may happen to it: turns that fire a part of what is
// due, registers of the past, topics that refuse records, turns that abort, successors whose
// clocks are off. It knows what stands on the log, and holds each record against it.
type world struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand

	real    trigger.Instant // true time
	skew    trigger.Instant // of the owner's clock
	pending []trigger.Instant
	hand    trigger.Instant

	committed trigger.Instant // fired_through of the last record that is committed
	log       []emission
	next      int64 // offset on events
	records   []*topics.Watermark
	wroteAt   trigger.Instant // true time of the last record, or of the last change of owner

	l *Ledger
}

type emission struct {
	offset int64
	time   trigger.Instant // effective_at, else due
}

func TestModel(t *testing.T) {
	if *seedFlag != 0 {
		runModel(t, *seedFlag)
		return
	}
	for seed := range uint64(200) {
		runModel(t, seed+1)
	}
}

func runModel(t *testing.T, seed uint64) {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), real: t0}
	w.open()
	for range 400 {
		w.real += trigger.Instant(w.r.IntN(400))
		switch n := w.r.IntN(100); {
		case n < 3:
			w.open()
		case n < 40:
			w.register()
		}
		w.turn()
		if t.Failed() {
			return
		}
	}
	if len(w.records) == 0 {
		w.fail("nothing was ever said")
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d, %d ms in: %s", w.seed, w.real-t0, fmt.Sprintf(format, args...))
}

// open is another owner, or the same one after an error. It knows only what is committed.
func (w *world) open() {
	w.skew = trigger.Instant(w.r.IntN(2000) - 1000)
	w.hand, w.wroteAt = 0, w.real
	w.l = Resume(Options{Interval: time.Second, Idle: 5 * time.Second}, w.committed)
	if w.r.IntN(3) > 0 {
		w.know()
	}
}

func (w *world) know() { w.l.Know(Offsets{Events: w.next}, nil) }

// register arms a timer: soon, or in the past.
func (w *world) register() {
	due := w.real + trigger.Instant(w.r.IntN(3000)-1000)
	w.pending = append(w.pending, due)
}

// turn runs one turn, which may abort.
func (w *world) turn() {
	now := w.real + w.skew
	if !w.l.known && w.r.IntN(4) == 0 {
		w.know()
	}
	may := w.r.IntN(20) > 0
	waits := w.r.IntN(20) == 0
	w.l.Begin(now, may, waits)
	work := Work{Commands: w.next}
	var left []trigger.Instant
	next := w.next
	var emitted []emission
	reads := w.r.IntN(3) > 0 || w.l.Wake(now) <= now // the barrier has passed
	if reads {
		work.Hand = now
		w.hand = max(w.hand, now)
	}
	work.Next = now + 1_000_000
	for _, due := range w.pending {
		if due > w.hand || w.r.IntN(4) == 0 { // not due, or it finds no room in this turn
			left = append(left, due)
			work.Next = min(work.Next, due)
			continue
		}
		if w.r.IntN(10) == 0 { // a refusing topic puts it off, and its timer leaves the near ones
			left = append(left, due)
			work.Held = []string{"due.push"}
			continue
		}
		at := due
		if e := w.l.Effective(due); e != 0 {
			if e <= due {
				w.fail("effective_at %d is not later than the due time %d", e-t0, due-t0)
			}
			at = e
		}
		emitted = append(emitted, emission{next, at})
		next++
	}
	if w.r.IntN(5) == 0 {
		next++ // another event
	}
	work.Emits = next > w.next
	record, through := w.l.End(work), w.committed
	if record != nil {
		copied := *record
		record, through = &copied, record.FiredThrough
	}
	if w.r.IntN(20) == 0 {
		if w.r.IntN(2) == 0 { // it aborts
			w.open()
			return
		}
		defer w.open() // it commits, and the owner does not hear of it
	}
	w.pending, w.log, w.next, w.committed = left, append(w.log, emitted...), next, through
	w.judge(record, work, now, may && !waits)
	w.l.Committed(Offsets{Events: next})
}

// judge holds all emissions against what a reader has read by now.
func (w *world) judge(record *topics.Watermark, work Work, now trigger.Instant, may bool) {
	if record != nil {
		if n := len(w.records); n > 0 && record.FiredThrough < w.records[n-1].FiredThrough {
			w.fail("the watermark goes back by %d", w.records[n-1].FiredThrough-record.FiredThrough)
		}
		if want := min(now, work.Next-1); !work.Emits && work.Hand != 0 && record.FiredThrough < want {
			w.fail("it says %d, and everything up to %d is out", record.FiredThrough-t0, want-t0)
		}
		w.records, w.wroteAt = append(w.records, record), w.real
	}
	if w.l.known && may && w.real-w.wroteAt > 5000+400+2000 && w.committed != 0 {
		w.fail("nothing was said for %d ms", w.real-w.wroteAt)
	}
	if len(w.records) == 0 {
		return
	}
	r := w.records[len(w.records)-1] // those before say less, and what is new to it is new to them
	for _, e := range w.log {
		if e.time <= r.FiredThrough && e.offset >= r.EventsOffset {
			w.fail("an emission of time %d stands at %d, but the watermark %d has offset %d", e.time-t0, e.offset,
				r.FiredThrough-t0, r.EventsOffset)
			return
		}
	}
}
