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
// time. It stores no strings: an entry is the hash of a ce_id, and takes about 110 bytes in all, so
// 11 MB for 100,000 receipts. The probability that two of them share a hash is
// below 10^-9 per partition. Then an event may be skipped by mistake, and the engine's receipt
// timeout brings it back.
type memory struct {
	limit int
	seed  maphash.Seed
	ring  []uint64 // hashes in the order of their receipts; grows to limit
	count uint32   // number of receipts so far: ring[(count-1)%limit] is the newest
	known map[uint64]entry
	past  map[uint64]past // few have one
	next  int64           // offset to read next; 0 before the first reading
}

// entry holds the newest receipt of one ce_id.
type entry struct {
	slot   uint32 // count of this receipt, so that an older slot of the ring does not drop it
	final  bool
	newest answer
}

// past holds what earlier receipts of one ce_id say that its newest does not.
type past struct {
	highest answer
	final   int64
}

// history is what all receipts of one ce_id say together. Of those that the engine had not read when it
// decided an event, the highest round counts. The highest of all may be one that it had read, of a life
// that has ended. Then the newest one counts.
type history struct {
	highest answer
	newest  answer
	final   int64 // offset of the newest final receipt; -1 if there is none
}

// answer is the round of a receipt, and where it stands.
type answer struct {
	round  uint64 // attempt<<24 | postponed
	offset int64
}

func newHistory(outcome Outcome, attempt, postponed int, offset int64) history {
	a := answer{round(attempt, postponed), offset}
	h := history{highest: a, newest: a, final: -1}
	if outcome.final() {
		h.final = offset
	}
	return h
}

// bounded returns what is known if a receipt stands at a. Those of unknown offset, of its round or
// earlier ones, then stand there too, at the latest.
func (h history) bounded(a answer) history {
	if h.newest.offset != unknownOffset || a.offset == unknownOffset || a.round < h.newest.round {
		return h
	}
	h.newest.offset = a.offset
	h.highest.offset = min(h.highest.offset, a.offset)
	h.final = min(h.final, a.offset)
	return h
}

// and returns what is known after one more receipt.
func (h history) and(one history) history {
	h = h.bounded(one.newest)
	h.final = max(h.final, one.final)
	if a := one.highest; a.round > h.highest.round || a.round == h.highest.round && a.offset > h.highest.offset {
		h.highest = a
	}
	if a := one.newest; a.offset > h.newest.offset || a.offset == h.newest.offset && a.round > h.newest.round {
		h.newest = a
	}
	return h
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, seed: maphash.MakeSeed(), known: map[uint64]entry{}, past: map[uint64]past{}}
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
	now := newHistory(outcome, attempt, postponed, offset)
	if old, ok := m.find(hash); ok {
		if now = old.and(now); now == old {
			return // our own receipt, read from the topic
		}
	}
	m.put(hash, now)
}

func (m *memory) find(hash uint64) (h history, ok bool) {
	e, ok := m.known[hash]
	h = history{highest: e.newest, newest: e.newest, final: -1}
	if e.final {
		h.final = e.newest.offset
	}
	if p, more := m.past[hash]; more {
		h.highest, h.final = p.highest, p.final
	}
	return h, ok
}

func (m *memory) put(hash uint64, h history) {
	final := h.final == h.newest.offset
	m.known[hash] = entry{slot: m.push(hash), final: final, newest: h.newest}
	if h.highest == h.newest && (final || h.final < 0) {
		delete(m.past, hash)
		return
	}
	m.past[hash] = past{h.highest, h.final}
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
		delete(m.past, oldest)
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
	h, ok := m.find(maphash.String(m.seed, e.ID))
	if !ok {
		return SkipNot
	}
	return h.answers(e)
}

// answers reports whether e needs no handling after these receipts. A receipt that the engine had
// read when it decided e is no answer to it: its dead letter was redriven, or its trigger was
// forgotten and registered again with the same time.
func (h history) answers(e *DueEvent) SkipReason {
	read, asked := e.receiptsRead(), round(e.Attempt, e.Postponed)
	switch {
	case h.final >= read:
		return SkipFinal
	case h.highest.answers(asked, read), h.newest.answers(asked, read):
		return SkipAnswered
	}
	return SkipNot
}

func (a answer) answers(asked uint64, read int64) bool { return a.offset >= read && asked <= a.round }

// unacked is a receipt that the brokers do not have yet. It enters the memory once they have it.
type unacked struct {
	history
	copies []*item // events that it answers too; their offsets wait for it
}

// check reports whether e is answered by this receipt.
func (u *unacked) check(e *DueEvent) SkipReason {
	if u == nil {
		return SkipNot
	}
	return u.answers(e)
}
