package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sourceLog is the log of a source partition, as the model tests of the outbox
// have it: every record is its offset and its home.
type sourceLog struct {
	start int64
	homes []int32
}

func (l *sourceLog) record(offset int64, size int) *kgo.Record {
	return &kgo.Record{Topic: "t", Offset: offset, Key: []byte{byte(l.homes[offset])}, Value: make([]byte, size)}
}

// ofTarget are the offsets in [from, to) that belong to a target.
func (l *sourceLog) ofTarget(target int32, from, to int64) (out []int64) {
	for o := from; o < to; o++ {
		if l.homes[o] == target {
			out = append(out, o)
		}
	}
	return out
}

// TestOutbox lets turns read, routes send, the log be read again, retention take
// its beginning, and owners follow each other, in random order. Every target gets
// what belongs to it in order; what it does not get is named as lost, once; and
// memory is bounded all the while.
func TestOutbox(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runOutbox(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

const outboxSelf = 0 // the source partition of the model

func runOutbox(t *testing.T, rng *rand.Rand) {
	const targets, size = 4, 100
	memory := (1 + rng.IntN(20)) * (size + 400)
	log := &sourceLog{}
	for range 50 + rng.IntN(400) {
		log.homes = append(log.homes, int32(rng.IntN(targets+1)))
	}
	o := newOutbox(memory, targets+1)
	var next int64                    // of the turns
	committed := map[int32]int64{}    // progress.Forwarded
	committedNext := int64(0)         // progress.NextCommand
	received := map[int32][]int64{}   // by target, in order
	reported := map[int32][]offsets{} // of committed turns
	commit := func(lost []lostRange) {
		clear(committed)
		o.owed(func(key route, before int64) { committed[key.target] = before })
		committedNext = next
		for _, l := range lost {
			reported[l.target] = append(reported[l.target], l.offsets)
		}
	}
	blocked := int32(1 + rng.IntN(targets)) // takes nothing until the end
	sent := map[int32]int64{}               // by this owner, the last
	reopen := func() {
		clear(sent)
		o, next = newOutbox(memory, targets+1), max(committedNext, log.start)
		for target, before := range committed {
			o.owe(route{"t", target}, offsets{before + 1, committedNext})
		}
		o.begins("t", log.start)
	}
	for step := 0; ; step++ {
		ending := step > 3000
		switch choice := rng.IntN(20); {
		case choice < 6: // a turn
			lost := o.takeLost()
			for range rng.IntN(20) {
				if next < int64(len(log.homes)) {
					if home := log.homes[next]; home != outboxSelf {
						o.add(log.record(next, size), home)
					}
					next++
				}
			}
			if rng.IntN(2) == 0 { // the log is looked at beside the turn
				o.begins("t", log.start)
			}
			if rng.IntN(10) == 0 { // it is given up
				reopen()
			} else {
				commit(lost)
			}
		case choice < 12: // the log is read again
			from, ok := o.wanted("t")
			if !ok {
				break
			}
			if from < log.start {
				o.begins("t", log.start)
				break
			}
			to := min(from+int64(1+rng.IntN(30)), int64(len(log.homes)))
			var read []misplaced
			for off := from; off < to; off++ {
				if log.homes[off] != outboxSelf {
					read = append(read, misplaced{log.record(off, size), log.homes[off]})
				}
			}
			o.fill("t", offsets{from, to}, read)
		case choice < 18: // a route sends
			for _, key := range o.idle() {
				for batch := o.head(key); len(batch) > 0; batch = o.head(key) {
					if key.target == blocked && !ending {
						o.routes[key].sending = false
						break
					}
					n := 1 + rng.IntN(len(batch))
					for _, r := range batch[:n] {
						if last, ok := sent[key.target]; ok && r.Offset <= last {
							t.Fatalf("target %d: one owner sends %d after %d", key.target, r.Offset, last)
						}
						sent[key.target] = r.Offset
						received[key.target] = append(received[key.target], r.Offset)
					}
					o.done(key, n)
				}
			}
		case choice == 18 && rng.IntN(20) == 0 && log.start < next: // retention
			log.start += rng.Int64N(next - log.start + 1)
		case choice == 19 && rng.IntN(20) == 0: // another owner
			reopen()
		}
		for key, b := range o.routes {
			if size := b.size; size > o.bytes && len(b.queue) > 1 {
				t.Fatalf("route %d holds %d bytes, may hold %d", key.target, size, o.bytes)
			}
		}
		if ending && next == int64(len(log.homes)) && len(o.routes) == 0 {
			break
		}
		if step > 100_000 {
			t.Fatalf("it never ends: %d of %d read, %+v", next, len(log.homes), o.routes)
		}
	}
	commit(o.takeLost())
	for target := int32(1); target <= targets; target++ {
		checkOutbox(t, log, target, received[target], reported[target])
	}
	if len(committed) > 0 {
		t.Errorf("nothing is owed, but progress says %v", committed)
	}
}

// checkOutbox plays the receiver, which drops what is not above the highest
// offset it has taken.
func checkOutbox(t *testing.T, log *sourceLog, target int32, received []int64, lost []offsets) {
	t.Helper()
	var applied []int64
	for _, off := range received {
		if len(applied) == 0 || off > applied[len(applied)-1] {
			applied = append(applied, off)
		}
	}
	for i, a := range lost {
		for _, b := range lost[i+1:] {
			if a.from < b.to && b.from < a.to {
				t.Errorf("target %d: %v and %v are lost twice", target, a, b)
			}
		}
	}
	for _, off := range log.ofTarget(target, 0, int64(len(log.homes))) {
		got := slices.Contains(applied, off)
		named := slices.ContainsFunc(lost, func(l offsets) bool { return l.from <= off && off < l.to })
		if !got && !named {
			t.Fatalf("target %d: %d was neither forwarded nor named as lost; applied %v, lost %v", target, off, applied,
				lost)
		}
	}
}

// A record in memory keeps nothing of the batch it was fetched with.
func TestOutboxCopies(t *testing.T) {
	batch := []byte("keyvalueheader")
	r := &kgo.Record{Topic: "t", Key: batch[:3], Value: batch[3:8]}
	r.Headers = []kgo.RecordHeader{{Key: "h", Value: batch[8:]}}
	o := newOutbox(1<<20, 2)
	o.add(r, 1)
	o.add(&kgo.Record{Topic: "t", Offset: 1, Key: []byte("k")}, 1)
	clear(batch)
	head := o.head(route{"t", 1})
	if k := head[0]; string(k.Key) != "key" || string(k.Value) != "value" || string(k.Headers[0].Value) != "header" {
		t.Errorf("it changed with its batch: %q %q %q", k.Key, k.Value, k.Headers[0].Value)
	}
	if head[1].Value != nil {
		t.Error("a null value has become an empty one")
	}
}

// However large and many records are, and however few bytes there may be, every
// route holds one.
func TestOutboxBytes(t *testing.T) {
	o := newOutbox(1<<20, 3)
	for i := range int64(10_000) {
		o.add(&kgo.Record{Topic: "t", Offset: i, Value: make([]byte, 500<<10)}, 1+int32(i%2))
	}
	for key, b := range o.routes {
		if len(b.queue) != 1 || !b.inLog() {
			t.Errorf("route %d holds %d records of 500 KiB", key.target, len(b.queue))
		}
	}
	if from, ok := o.wanted("t"); ok {
		t.Errorf("reads from %d again without room", from)
	}
	headers := newOutbox(1<<20, 3)
	for i := range int64(10) {
		headers.add(&kgo.Record{Topic: "t", Offset: i, Headers: []kgo.RecordHeader{{Value: make([]byte, 500<<10)}}}, 1)
	}
	if b := headers.routes[route{"t", 1}]; len(b.queue) != 1 {
		t.Errorf("a route holds %d records with headers of 500 KiB", len(b.queue))
	}
	o.done(route{"t", 2}, 1)
	if from, ok := o.wanted("t"); !ok || from != 3 {
		t.Errorf("reads from %d again (%v), want 3", from, ok)
	}
}
