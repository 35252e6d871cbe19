package pipeline

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// TestMustBeat: each reason alone makes a turn run, and without any the partition is silent.
func TestMustBeat(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason func(*beat)
		must   bool
	}{
		{"no reason", func(*beat) {}, false},
		{"a new owner", func(b *beat) { b.announced = false }, true},
		{"a replan", func(b *beat) { b.replanning = true }, true},
		{"too many done records", func(b *beat) { b.full = true }, true},
		{"clocks that moved apart", func(b *beat) { b.doubtful = true }, true},
		{"a note of what was forwarded", func(b *beat) { b.unnoted = true }, true},
		{"a leak to mend", func(b *beat) { b.mends = true }, true},
		{"a late watermark", func(b *beat) { b.watermark = true }, true},
		{"just before the heartbeat", func(b *beat) { b.idle = b.heartbeat - 1 }, false},
		{"the heartbeat", func(b *beat) { b.idle = b.heartbeat }, true},
		{"a record to forget", func(b *beat) { b.forget, b.idle = b.now, forgetInterval }, true},
		{"it expires later", func(b *beat) { b.forget, b.idle = b.now+1, forgetInterval }, false},
		{"one was forgotten just now", func(b *beat) { b.forget, b.idle = b.now, forgetInterval-1 }, false},
	} {
		b := beat{announced: true, now: 1000, idle: time.Second, heartbeat: time.Minute}
		c.reason(&b)
		if got := b.must(); got != c.must {
			t.Errorf("%s: %v, want %v", c.name, got, c.must)
		}
	}
}

// TestPollWait: poll waits until the first of what needs a turn, and not at all if that has come.
func TestPollWait(t *testing.T) {
	const barrier = 2 * time.Millisecond
	second := trigger.Instant(1000)
	for _, c := range []struct {
		name string
		with func(*pollWait)
		want time.Duration
	}{
		{"nothing before the heartbeat", func(*pollWait) {}, 59 * time.Second},
		{"a timer", func(w *pollWait) { w.next = w.now + second }, time.Second},
		{"a timer is due", func(w *pollWait) { w.next, w.due = w.now, true }, barrier},
		{"a turn must run", func(w *pollWait) { w.mends = true }, 0},
		{"a turn must run and a timer is due", func(w *pollWait) { w.mends, w.due = true, true }, barrier},
		{"clocks too far apart", func(w *pollWait) { w.held, w.next = true, w.now }, time.Second},
		{"the heartbeat before the clocks", func(w *pollWait) { w.held, w.idle = true, w.heartbeat-1 }, 1},
		{"timers wait for receipts", func(w *pollWait) { w.unfinished = true }, barrier},
		{"a record to forget", func(w *pollWait) { w.forget = w.now + 3*second }, 3 * time.Second},
		{"it has expired", func(w *pollWait) { w.forget = w.now - 1 }, 100 * time.Millisecond},
		{"something is owed", func(w *pollWait) { w.forwarded = map[int32]int64{1: 2} }, forwardInterval - time.Second},
	} {
		w := pollWait{
			beat: beat{announced: true, now: 1000, idle: time.Second, heartbeat: time.Minute},
			next: 1000 + 3600*second, barrier: barrier,
		}
		c.with(&w)
		if got := w.most(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPressedPause: a partition of a process that is short of memory delays no timer.
func TestPressedPause(t *testing.T) {
	for _, c := range []struct {
		next trigger.Instant
		want time.Duration
	}{{900, 0}, {1000, 0}, {1010, 10 * time.Millisecond}, {5000, pressedRest}} {
		if got := pressedPause(1000, c.next); got != c.want {
			t.Errorf("next at %d: %v, want %v", c.next, got, c.want)
		}
	}
}
