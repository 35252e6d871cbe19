package pipeline

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFireBatch(t *testing.T) {
	const cost = 5 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		var b fireBatch
		wait := turnBudget
		turn := func(timers, high int, each time.Duration) {
			b.turned(firing{timers, high, time.Duration(timers) * each}, time.Duration(timers)*each+wait)
		}
		requires := func(want int, when string) {
			t.Helper()
			if n := b.size(4096, 0); n != want {
				t.Errorf("%s a batch is of %d, want %d", when, n, want)
			}
		}
		requires(leastBatch, "while the cost is not known")
		turn(leastToSay-1, 0, time.Nanosecond)
		requires(leastBatch, "after a turn that says nothing")
		turn(leastBatch, 0, cost)
		requires(int(turnBudget/cost), "when the cost is known")
		for range len(b.last) - 1 {
			turn(1000, 0, 50*cost)
		}
		requires(int(turnBudget/cost), "after turns that waited for a core")
		turn(1000, 0, 2*cost)
		requires(int(turnBudget/(2*cost)), "when timers have become dearer")
		for range len(b.last) {
			turn(1000, 0, 100*cost)
		}
		requires(leastBatch, "when timers are very dear")
		turn(1000, 0, time.Nanosecond)
		requires(4096, "when timers are very cheap")

		turn(1000, 1, cost/2)
		for range len(b.last) {
			turn(1000, 0, cost)
		}
		requires(int(urgentBudget/cost), "while timers of priority high fall due")
		time.Sleep(urgentFor)
		requires(int(turnBudget/cost), "a second after the last of them")

		wait = 2 * waitShare * turnBudget
		for range len(b.last) - 1 {
			turn(1000, 0, cost)
		}
		requires(int(turnBudget/cost), "when one turn of the last has waited for a moment only")
		turn(1000, 0, cost)
		requires(2*int(turnBudget/cost), "when every turn waits that long")
		b.urgent = time.Now()
		requires(2*int(turnBudget/cost)*waitShare/urgentShare, "when priority high is due, too")
		wait = time.Minute
		for range len(b.last) {
			turn(1000, 0, cost)
		}
		requires(int(mostBudget/cost), "when every turn waits for a minute")
	})
}

// However much is registered, what is overdue gets less.
func TestFiresMoreThanItReads(t *testing.T) {
	var b fireBatch
	for _, c := range []struct{ read, want int }{
		{0, leastBatch}, {leastBatch, 2 * leastBatch}, {2000, 4000}, {3000, 5000},
	} {
		if n := b.size(5000, c.read); n != c.want {
			t.Errorf("a turn that reads %d fires %d, want %d", c.read, n, c.want)
		}
	}
	b.urgent = time.Now()
	for _, c := range []struct{ read, want int }{{0, leastUrgent}, {100, 200}, {3000, 5000}} {
		if n := b.size(5000, c.read); n != c.want {
			t.Errorf("while timers of priority high fall due a turn that reads %d fires %d, want %d", c.read, n, c.want)
		}
	}
}

// A turn that fires and decides commands writes the states of both.
func TestFiringPartOfTheWrite(t *testing.T) {
	f := firing{timers: 100, work: time.Millisecond}
	if f.wrote(4*time.Millisecond, 400); f.work != 2*time.Millisecond {
		t.Errorf("the work of firing is %v, want 2ms", f.work)
	}
	if f.wrote(time.Millisecond, 0); f.work != 2*time.Millisecond {
		t.Errorf("without a state it is %v, want 2ms", f.work)
	}
}
