package pipeline

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batch
		b.turned(0, 0, time.Millisecond) // turns without a timer come first
		if n := b.size(4096); n != minBatch {
			t.Fatalf("the first batch is of %d, want %d", n, minBatch)
		}
		for range 20 {
			b.turned(b.size(4096), 0, time.Millisecond)
		}
		if n := b.size(4096); n != 4096 {
			t.Errorf("after quick turns a batch is of %d, want all that may be", n)
		}
		b.turned(4096, 0, 2*turnTarget)
		if n := b.size(4096); n != 3072 {
			t.Errorf("after a slow turn a batch is of %d, want 3072", n)
		}
		b.turned(5, 0, time.Minute)
		if n := b.size(4096); n != 3072 {
			t.Errorf("a turn that was not full has changed it to %d", n)
		}
		time.Sleep(batchIdle + time.Millisecond)
		if n := b.size(4096); n != minBatch {
			t.Errorf("after a pause a batch is of %d, want %d", n, minBatch)
		}
	})
}

// TestBatchWhileUrgent: turns are short while timers of priority high fall due, and long
// again a second after the last of them.
func TestBatchWhileUrgent(t *testing.T) {
	const perTimer = 20 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		var b batch
		turn := func(urgent int) time.Duration {
			n := b.size(1 << 20)
			took := time.Duration(n) * perTimer
			time.Sleep(took)
			b.turned(n, urgent, took)
			return took
		}
		for range 20 {
			turn(0)
		}
		if took := turn(0); took < turnTarget/2 || took > turnTarget*5/4 {
			t.Errorf("a turn takes %v, want about %v", took, turnTarget)
		}
		for range 20 {
			turn(1)
		}
		if took := turn(1); took < urgentTarget/2 || took > urgentTarget*5/4 {
			t.Errorf("a turn with timers of priority high takes %v, want about %v", took, urgentTarget)
		}
		time.Sleep(urgentFor - 100*time.Millisecond)
		for range 30 {
			turn(0)
		}
		if took := turn(0); took < turnTarget/2 {
			t.Errorf("after the last timer of priority high a turn takes %v, want about %v", took, turnTarget)
		}
	})
}
