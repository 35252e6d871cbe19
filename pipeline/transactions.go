package pipeline

import (
	"sync"
	"time"
)

// transactions is how many transactions a second the partitions of a process begin. A
// transaction costs its brokers as much as the records of some fifty triggers, and a broker
// runs out of transactions before anything else: if many partitions turn without a pause,
// they saturate it, and the latency of all rises. So partitions that have work reserve a
// slot each for their next turn, in the order in which they ask. While they need fewer than
// the budget, nobody waits.
type transactions struct {
	brokers func() int

	mu   sync.Mutex
	rate float64   // per second and broker
	free time.Time // when the next slot is
	slow time.Time // when the rate last fell
}

const (
	mostTransactions  = 300 // per second and broker
	leastTransactions = 150 // the same, of brokers that answer slowly
	sparedSlots       = 8   // that a process with little to do may use at once

	// longestPause bounds what the budget may add to the lateness of a due event. Beyond it a
	// process begins more transactions than the budget has.
	longestPause = 500 * time.Millisecond

	slowCommit = 100 * time.Millisecond // the brokers have too many
	slowFor    = 100 * time.Millisecond // how long the rate stays before it falls once more
)

func newTransactions(brokers func() int) *transactions {
	return &transactions{brokers: brokers, rate: mostTransactions}
}

// reserve returns when a turn may begin. That may lie in the past.
func (b *transactions) reserve(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	each := time.Duration(float64(time.Second) / (b.rate * float64(max(1, b.brokers()))))
	slot := b.free
	if spared := now.Add(-sparedSlots * each); slot.Before(spared) {
		slot = spared
	}
	if last := now.Add(longestPause); slot.After(last) {
		slot = last
	}
	b.free = slot.Add(each)
	return slot
}

// committed adapts the rate to how long the brokers took to end a transaction.
func (b *transactions) committed(now time.Time, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case took <= slowCommit:
		b.rate = min(b.rate+1, mostTransactions)
	case now.Sub(b.slow) >= slowFor:
		b.rate, b.slow = max(b.rate*3/4, leastTransactions), now
	}
}
