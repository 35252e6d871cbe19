package wheel

import (
	"math"
	"math/bits"
	"time"
)

// Options of a wheel.
type Options struct {
	// Window is how far ahead of the hand entries are taken, rounded up to
	// buckets of 256 ms. 0 means 5 minutes; at most 24 hours.
	Window time.Duration

	// MaxEntries is where Full begins to say true and the caller stops
	// hydrating; Add itself never refuses for it, since a trigger registered
	// for the next second cannot wait in the store. It also bounds the memory
	// that is kept for reuse. 0 means 1,048,576.
	MaxEntries int
}

const (
	bucketBits = 8 // a bucket is 256 ms
	bucketMs   = 1 << bucketBits

	defaultWindow     = 5 * time.Minute
	maxWindow         = 24 * time.Hour
	defaultMaxEntries = 1 << 20

	// farthest keeps the hand where End cannot overflow.
	farthest = math.MaxInt64 - int64(maxWindow/time.Millisecond) - 4*bucketMs
)

func (o Options) withDefaults() Options {
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	o.Window = min(o.Window, maxWindow)
	if o.MaxEntries <= 0 {
		o.MaxEntries = defaultMaxEntries
	}
	return o
}

// Wheel holds entries (due, ref) of the near window. It belongs to one
// goroutine.
type Wheel struct {
	max     int
	many    int   // herdEntries
	buckets int64 // of the window, beside the open one
	hand    int64 // number of the open bucket: its first ms >> bucketBits
	first   int64 // no bucket in (hand, first) has entries
	n       int

	ring ring
	open opened
	late late
}

// New makes an empty wheel whose hand is at now (ms).
func New(o Options, now int64) *Wheel {
	o = o.withDefaults()
	buckets := (o.Window.Milliseconds() + bucketMs - 1) >> bucketBits
	w := &Wheel{max: o.MaxEntries, many: herdEntries, buckets: max(buckets, 1), hand: min(now, farthest) >> bucketBits}
	w.first = w.hand + 1
	w.ring.init(w.buckets, o.MaxEntries)
	return w
}

// Add puts an entry in. It returns false, and leaves the wheel as it was, when
// due is at or beyond End: it belongs in the store until the hand is closer. A
// past due is taken and comes out at the next Advance. The wheel keeps ref
// until it has come out.
func (w *Wheel) Add(due int64, ref string) bool {
	b := due >> bucketBits
	if b > w.hand+w.buckets {
		return false
	}
	w.n++
	if b <= w.hand {
		w.late.add(entry{due, ref})
		return true
	}
	if b < w.first {
		w.first = b
	}
	w.ring.add(b, uint8(due), ref)
	return true
}

// Advance moves the hand to now and calls emit for each entry with due <= now
// in order (due, ref), until emit returns false. The entry emit was called
// with has left the wheel even then; the others come out at the next Advance.
// emit may call Add: what it adds at or before now comes out in this Advance.
// It must not call Advance.
func (w *Wheel) Advance(now int64, emit func(due int64, ref string) bool) {
	target := min(now, farthest) >> bucketBits
	for {
		if !w.drain(now, emit) {
			return
		}
		if w.hand >= target {
			return
		}
		w.turn(target)
	}
}

// drain emits what is due of the open bucket and of the late entries.
func (w *Wheel) drain(now int64, emit func(int64, string) bool) bool {
	for {
		e, ok := w.pop(now)
		if !ok {
			return true
		}
		if !emit(e.due, e.ref) {
			return false
		}
	}
}

// pop takes the earliest entry of the open bucket and the late ones, if it is
// due.
func (w *Wheel) pop(now int64) (entry, bool) {
	o := &w.open
	if w.late.empty() { // nearly always
		if o.pos == len(o.refs) || o.due > now {
			return entry{}, false
		}
		w.n--
		return o.pop(), true
	}
	l := w.late.peek()
	if o.pos < len(o.refs) && o.peek().less(l) {
		if o.due > now {
			return entry{}, false
		}
		w.n--
		return o.pop(), true
	}
	if l.due > now {
		return entry{}, false
	}
	w.n--
	w.late.pop()
	return l, true
}

// turn moves the hand to the next bucket that has entries and opens it, or to
// target if none is at or before it. The open bucket is used up: whatever was
// in it was due before.
func (w *Wheel) turn(target int64) {
	b, ok := w.seek()
	if !ok || b > target {
		w.hand = target
		return
	}
	w.hand = b
	w.ring.open(b, &w.open)
}

// seek finds the first bucket with entries after the open one.
func (w *Wheel) seek() (bucket int64, ok bool) {
	end := w.hand + w.buckets
	w.first = w.ring.seek(max(w.first, w.hand+1), end)
	return w.first, w.first <= end
}

// Prepare puts a herd in order ahead of its time, so that it does not hold up
// what is due beside it: the next bucket, if it begins by until and has many
// entries, and if the open one is used up. What is added to it afterwards is
// late, in order all the same.
func (w *Wheel) Prepare(until int64) {
	if b, ok := w.herd(); ok && b<<bucketBits <= until {
		w.hand = b
		w.ring.open(b, &w.open)
	}
}

// NextHerd is when the bucket begins that Prepare would take next; ok is false
// when there is none.
func (w *Wheel) NextHerd() (begin int64, ok bool) {
	b, ok := w.herd()
	return b << bucketBits, ok
}

// herdEntries are many: half a millisecond's sorting.
const herdEntries = 4096

func (w *Wheel) herd() (bucket int64, ok bool) {
	if w.n < w.many || w.open.pos < len(w.open.refs) {
		return 0, false
	}
	b, ok := w.seek()
	return b, ok && w.ring.slots[b&w.ring.mask].n >= uint32(w.many)
}

// Next is the earliest due in the wheel, exact to the millisecond. ok is false
// when the wheel is empty.
func (w *Wheel) Next() (due int64, ok bool) {
	if w.n == 0 {
		return 0, false
	}
	due = math.MaxInt64
	if w.open.pos < len(w.open.refs) {
		due = w.open.due
	} else if w.n > w.late.len() {
		b, _ := w.seek()
		due = b<<bucketBits + int64(w.ring.earliest(b))
	}
	if !w.late.empty() {
		due = min(due, w.late.peek().due)
	}
	return due, true
}

// Len is the number of entries.
func (w *Wheel) Len() int { return w.n }

// Full says that the caller should stop hydrating from the store.
func (w *Wheel) Full() bool { return w.n >= w.max }

// End is the first millisecond beyond the window at the current hand. It
// never goes backwards.
func (w *Wheel) End() int64 { return (w.hand + w.buckets + 1) << bucketBits }

// entry is one timer in the due index's order.
type entry struct {
	due int64
	ref string
}

func (e entry) less(f entry) bool {
	return e.due < f.due || e.due == f.due && e.ref < f.ref
}

// ceilPow2 is the smallest power of two >= n.
func ceilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }
