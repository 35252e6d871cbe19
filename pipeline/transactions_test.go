package pipeline

import (
	"math"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

func one() int { return 1 }

// TestBudgetOfTransactions: partitions that always have work share the budget evenly, and more
// brokers carry more.
func TestBudgetOfTransactions(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		b := newTransactions(func() int { return brokers })
		begin := time.Unix(1e9, 0)
		const partitions = 64
		var next [partitions]time.Time // when a partition's next turn may begin
		var turns [partitions]int
		for i := range next {
			next[i] = b.reserve(begin)
		}
		for now := begin; now.Before(begin.Add(10 * time.Second)); now = now.Add(time.Millisecond) {
			for i := range next {
				if !next[i].After(now) {
					turns[i]++
					next[i] = b.reserve(now)
				}
			}
		}
		for i, n := range turns {
			if want := 10 * mostTransactions * brokers / partitions; n < want-1 || n > want+2 {
				t.Errorf("with %d brokers partition %d has made %d turns, want %d", brokers, i, n, want)
			}
		}
	}
}

// TestBudgetIsNotSpent: while partitions need fewer transactions than the budget has, none waits.
func TestBudgetIsNotSpent(t *testing.T) {
	b := newTransactions(one)
	now := time.Unix(1e9, 0)
	for range 1000 {
		now = now.Add(time.Second / (mostTransactions - 10))
		if slot := b.reserve(now); slot.After(now) {
			t.Fatalf("it would wait %v", slot.Sub(now))
		}
	}
	now = now.Add(time.Second)
	for i := range sparedSlots + 1 {
		if slot := b.reserve(now); slot.After(now) {
			t.Errorf("after a second without work, turn %d at once would wait %v", i+1, slot.Sub(now))
		}
	}
	if slot := b.reserve(now); !slot.After(now) {
		t.Error("what was not used is kept without a bound")
	}
}

// TestPauseIsBounded: a thousand busy partitions exceed the budget rather than wait for seconds.
func TestPauseIsBounded(t *testing.T) {
	b := newTransactions(one)
	now := time.Unix(1e9, 0)
	for range 1000 {
		if d := b.reserve(now).Sub(now); d > longestPause {
			t.Fatalf("a turn would wait %v", d)
		}
	}
	now = now.Add(2 * longestPause)
	if d := b.reserve(now).Sub(now); d > 0 {
		t.Errorf("a second later, a turn would wait %v", d)
	}
}

// TestBudgetOfSlowBrokers: brokers that answer slowly get fewer transactions, within bounds.
func TestBudgetOfSlowBrokers(t *testing.T) {
	b := newTransactions(one)
	now := time.Unix(1e9, 0)
	for range 5 {
		b.committed(now, slowCommit+1) // of partitions that commit at the same time
	}
	if want := float64(mostTransactions) * 3 / 4; b.rate != want {
		t.Errorf("after one slow moment the rate is %v, want %v", b.rate, want)
	}
	for range 100 {
		now = now.Add(slowFor)
		b.committed(now, time.Second)
	}
	if b.rate != leastTransactions {
		t.Errorf("of brokers that stay slow it is %v, want %v", b.rate, leastTransactions)
	}
	for range 1000 {
		b.committed(now, time.Millisecond)
	}
	if b.rate != mostTransactions {
		t.Errorf("when they are quick once more it is %v, want %v", b.rate, mostTransactions)
	}
}

// TestTurnKeepsItsSlot: a partition that wakes without a turn does not go to the end of the
// line, and a turn that did not wait is counted.
func TestTurnKeepsItsSlot(t *testing.T) {
	b := newTransactions(one)
	now := time.Now()
	for range 100 {
		b.reserve(now)
	}
	p := pace{budget: b}
	first := p.wait(now, time.Hour)
	if first <= 0 {
		t.Fatal("the budget is spent, and the turn need not wait")
	}
	if d := p.wait(now.Add(time.Millisecond), time.Hour); d != first-time.Millisecond {
		t.Errorf("a millisecond later it must wait %v, want %v", d, first-time.Millisecond)
	}
	free := b.free
	if p.begun(); !b.free.Equal(free) {
		t.Error("a turn that has a slot is counted twice")
	}
	if d := p.wait(now, 0); d != 0 {
		t.Errorf("a turn that is to begin at once must wait %v", d)
	}
	if p.begun(); !b.free.After(free) {
		t.Error("a turn that did not wait is not counted")
	}
}

// TestIntervalOfTheOperatorHolds: nothing shortens an interval that is set, not even priority high. Only a wait for a
// slot ends when such a timer falls due.
func TestIntervalOfTheOperatorHolds(t *testing.T) {
	now := time.Now()
	fixed := pace{fixed: time.Second, start: now, budget: newTransactions(one)}
	if d := fixed.wait(now, 0); d != time.Second {
		t.Errorf("beside priority high it waits %v, want a second", d)
	}
	b := newTransactions(one)
	for range 100 {
		b.reserve(now)
	}
	slot := pace{budget: b}
	if d := slot.wait(now, time.Millisecond); d != time.Millisecond {
		t.Errorf("for a slot it waits %v, want until priority high is due", d)
	}
}

func TestDueTimes(t *testing.T) {
	var d dueTimes
	if d.first() != math.MaxInt64 {
		t.Errorf("the first of none is %d", d.first())
	}
	for _, at := range []trigger.Instant{5, 5, 3, 3, 9, 9, 3, 7} {
		d.add(at)
	}
	if len(d.heap) > 6 {
		t.Errorf("it holds %d times", len(d.heap))
	}
	for _, want := range []trigger.Instant{3, 5, 7, 9, math.MaxInt64} {
		if got := d.first(); got != want {
			t.Errorf("the first is %d, want %d", got, want)
		}
		d.passed(min(want, 100))
	}
}
