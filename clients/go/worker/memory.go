package worker

import "hash/maphash"

// maxCount bounds attempts and postponements, which the memory stores in 24 bits each.
const maxCount = 1<<24 - 1

// memory holds the last receipts of one partition. Events in it need not be handled a second
// time. It stores no strings: an entry is the hash of a ce_id, 8 bytes in the ring and about 25
// in the map, so 3.5 MB for 100,000 receipts. The probability that two of them share a hash is
// below 10^-9 per partition. Then an event may be skipped by mistake, and the engine's receipt
// timeout brings it back.
type memory struct {
	limit int
	seed  maphash.Seed
	ring  []uint64 // hashes in the order of their receipts; grows to limit
	count uint32   // number of receipts so far: ring[(count-1)%limit] is the newest
	known map[uint64]entry
	next  int64 // offset to read next; 0 before the first reading
}

// entry holds what is known about one ce_id.
type entry struct {
	slot  uint32 // count of its newest receipt, so that an older slot of the ring does not drop it
	round uint64 // attempt<<24 | postponed
	final bool
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, seed: maphash.MakeSeed(), known: map[uint64]entry{}}
}

func round(attempt, postponed int) uint64 {
	return uint64(min(max(attempt, 0), maxCount))<<24 | uint64(min(max(postponed, 0), maxCount))
}

// add stores a receipt.
func (m *memory) add(dueID string, outcome Outcome, attempt, postponed int) {
	if m.limit <= 0 {
		return
	}
	hash := maphash.String(m.seed, dueID)
	old, ok := m.known[hash]
	now := entry{round: round(attempt, postponed), final: outcome.final()}
	if ok {
		now.round, now.final = max(now.round, old.round), now.final || old.final
		if now.round == old.round && now.final == old.final {
			return // a copy, such as our own receipt read from the topic
		}
	}
	now.slot = m.push(hash)
	m.known[hash] = now
}

// push adds a hash to the ring. If the ring is full, it drops the oldest hash.
func (m *memory) push(hash uint64) uint32 {
	slot := m.count
	m.count++
	if len(m.ring) < m.limit {
		m.ring = append(m.ring, hash)
		return slot
	}
	at := int(slot) % m.limit
	if oldest := m.ring[at]; m.known[oldest].slot == slot-uint32(m.limit) {
		delete(m.known, oldest)
	}
	m.ring[at] = hash
	return slot
}

// SkipReason is why a due event was not handled and gets no receipt.
type SkipReason string

// The reasons, in the order in which they are checked.
const (
	SkipNot       SkipReason = ""           // it is handled
	SkipFinal     SkipReason = "final"      // delivered, accepted or suppressed before
	SkipAnswered  SkipReason = "answered"   // this attempt and postponement, or a later one, already has a receipt
	SkipReceiptBy SkipReason = "receipt_by" // the engine no longer waits for the receipt
)

// check reports whether e is known.
func (m *memory) check(e *DueEvent) SkipReason {
	if m == nil || len(m.known) == 0 {
		return SkipNot
	}
	old, ok := m.known[maphash.String(m.seed, e.ID)]
	switch {
	case !ok:
		return SkipNot
	case old.final:
		return SkipFinal
	case round(e.Attempt, e.Postponed) <= old.round:
		return SkipAnswered
	}
	return SkipNot
}
