package worker

import (
	"hash/maphash"
	"math"
	"time"
)

// maxCount bounds attempts and postponements, which the memory stores in 24 bits each.
const maxCount = 1<<24 - 1

// answerMargin is how much later than a receipt an event has to be appended, so that the receipt
// cannot be its answer. Brokers' clocks differ by less, and so does the time that the engine needs
// to read a receipt. A ce_id gets new events after its receipt if its dead letter is redriven, or
// if a forgotten trigger is registered again with the same time.
const answerMargin = time.Minute

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
	at    uint32 // Unix seconds when its newest receipt was appended; 0 if unknown
	round uint64 // attempt<<24 | postponed
	final bool
}

// before reports whether at is so much later than e that it belongs to a later life or redrive.
func (e entry) before(at uint32) bool {
	return e.at > 0 && int64(at) > int64(e.at)+int64(answerMargin/time.Second)
}

// seconds returns t as an entry stores it.
func seconds(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), math.MaxUint32)) }

func newMemory(limit int) *memory {
	return &memory{limit: limit, seed: maphash.MakeSeed(), known: map[uint64]entry{}}
}

func round(attempt, postponed int) uint64 {
	return uint64(min(max(attempt, 0), maxCount))<<24 | uint64(min(max(postponed, 0), maxCount))
}

// add stores a receipt that was appended at this time of the brokers.
func (m *memory) add(dueID string, outcome Outcome, attempt, postponed int, at time.Time) {
	if m.limit <= 0 {
		return
	}
	hash := maphash.String(m.seed, dueID)
	old, ok := m.known[hash]
	now := entry{at: seconds(at), round: round(attempt, postponed), final: outcome.final()}
	if ok && !old.before(now.at) {
		now.at, now.round, now.final = max(now.at, old.at), max(now.round, old.round), now.final || old.final
		if now.round == old.round && now.final == old.final {
			old.at = now.at
			m.known[hash] = old
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
	if !ok || old.before(seconds(e.Appended)) {
		return SkipNot
	}
	return old.answers(e)
}

// answers reports whether e needs no handling after this receipt.
func (e entry) answers(event *DueEvent) SkipReason {
	switch {
	case e.final:
		return SkipFinal
	case round(event.Attempt, event.Postponed) <= e.round:
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
