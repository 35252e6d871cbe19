package pipeline

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batch
		b.turned(0, time.Millisecond) // turns without a timer come first
		if n := b.size(4096); n != minBatch {
			t.Fatalf("the first batch is of %d, want %d", n, minBatch)
		}
		for range 20 {
			b.turned(b.size(4096), time.Millisecond)
		}
		if n := b.size(4096); n != 4096 {
			t.Errorf("after quick turns a batch is of %d, want all that may be", n)
		}
		b.turned(4096, 2*turnTarget)
		if n := b.size(4096); n != 3072 {
			t.Errorf("after a slow turn a batch is of %d, want 3072", n)
		}
		b.turned(5, time.Minute)
		if n := b.size(4096); n != 3072 {
			t.Errorf("a turn that was not full has changed it to %d", n)
		}
		time.Sleep(batchIdle + time.Millisecond)
		if n := b.size(4096); n != minBatch {
			t.Errorf("after a pause a batch is of %d, want %d", n, minBatch)
		}
	})
}
