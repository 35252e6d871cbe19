package worker

import (
	"hash/maphash"
	"math"
)

// maxCount bounds attempts and postponements, which the memory stores in 24 bits each.
const maxCount = 1<<24 - 1

// unknownOffset stands for the offset of a receipt that the engine has not read, as far as the
// worker knows.
const unknownOffset = math.MaxInt64

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
	slot   uint32 // count of its newest receipt, so that an older slot of the ring does not drop it
	final  uint32 // how far before newest its newest final receipt is, plus 1; 0 if there is none
	round  uint64 // attempt<<24 | postponed, the highest
	newest int64  // offset of its newest receipt
}

func newEntry(outcome Outcome, attempt, postponed int, offset int64) entry {
	e := entry{round: round(attempt, postponed), newest: offset}
	if outcome.final() {
		e.final = 1
	}
	return e
}

// and returns what is known after both receipts.
func (e entry) and(other entry) entry {
	final := max(e.newestFinal(), other.newestFinal())
	both := entry{slot: e.slot, round: max(e.round, other.round), newest: max(e.newest, other.newest)}
	if final >= 0 {
		both.final = uint32(min(both.newest-final+1, math.MaxUint32))
	}
	return both
}

// newestFinal returns the offset of the newest final receipt, or -1 if there is none.
func (e entry) newestFinal() int64 {
	if e.final == 0 {
		return -1
	}
	return e.newest - int64(e.final) + 1
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, seed: maphash.MakeSeed(), known: map[uint64]entry{}}
}

func round(attempt, postponed int) uint64 {
	return uint64(min(max(attempt, 0), maxCount))<<24 | uint64(min(max(postponed, 0), maxCount))
}

// add stores a receipt that stands at this offset.
func (m *memory) add(dueID string, outcome Outcome, attempt, postponed int, offset int64) {
	if m.limit <= 0 {
		return
	}
	hash := maphash.String(m.seed, dueID)
	old, ok := m.known[hash]
	now := newEntry(outcome, attempt, postponed, offset)
	if ok {
		if now = old.and(now); now == old {
			return // our own receipt, read from the topic
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
	if !ok {
		return SkipNot
	}
	return old.answers(e)
}

// answers reports whether e needs no handling after these receipts. A receipt that the engine had
// read when it decided e is no answer to it: its dead letter was redriven, or its trigger was
// forgotten and registered again with the same time.
func (e entry) answers(event *DueEvent) SkipReason {
	read := event.receiptsRead()
	switch {
	case e.newestFinal() >= read:
		return SkipFinal
	case e.newest >= read && round(event.Attempt, event.Postponed) <= e.round:
		return SkipAnswered
	}
	return SkipNot
}

// unacked is a receipt that the brokers do not have yet. It enters the memory once they have it.
type unacked struct {
	entry
	copies []*item // events that it answers too; their offsets wait for it
}

// check reports whether e is answered by this receipt.
func (u *unacked) check(e *DueEvent) SkipReason {
	if u == nil {
		return SkipNot
	}
	return u.answers(e)
}
