package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/schemas/statepb"
)

var (
	keyProgress = []byte("\x00progress")
	eventUS     = []byte(`"event_us":`)
)

// turnWalk reads the progress records of a partition in order, and checks what each turn says it
// wrote (C9, C10, C11).
type turnWalk struct {
	v     *verifier
	p     int32
	state *cursor
	outs  map[string]*output

	events *output
	last   *statepb.Progress
	lastO  int64 // offset of last
	full   bool  // manifests can be compared with the topics
	holes  [][2]int64
	us     int64 // newest event_us
	count  int64 // violations of one kind are reported once
}

// output is a topic to which turns write.
type output struct {
	name string
	*cursor
	broken bool
	last   int64 // offset of the last record that a turn says it wrote; -1: none
}

func (v *verifier) turns(p int32) {
	w := &turnWalk{v: v, p: p, outs: map[string]*output{}, full: true}
	for i, f := range v.h.files {
		if f.Partition != p || f.kind < kindEvents || f.kind > kindState {
			continue
		}
		c := newCursor(f, v.fates[i])
		if f.kind == kindState {
			w.state, w.holes = c, v.fates[i].holes
		}
		if f.kind == kindDue && v.isByKey(f, v.fates[i]) {
			continue
		}
		o := &output{name: f.Topic, cursor: c, last: -1}
		w.outs[f.Topic] = o
		if f.kind == kindEvents {
			w.events = o
		}
		if f.Start > 0 || len(v.fates[i].holes) > 0 {
			w.full = false
		}
	}
	if w.state == nil {
		w.full = false
	} else {
		w.walk()
	}
	w.full = w.full && w.last != nil
	if w.full {
		w.leftovers()
	} else {
		v.note("partition %d: turns are not held against their manifests (C10): "+
			"topic state, or what they wrote, is not there from its beginning", p)
	}
	v.parts[p].turned = w.full && v.putsKnown && w.events != nil && !w.events.broken
	w.eventOrder(w.events)
	w.dueOrder()
	v.endPartition(p, w.last)
}

// isByKey reports whether a due topic distributes its records by key, so that they are not on
// their trigger's partition.
func (v *verifier) isByKey(f *File, ft *fates) bool {
	if by, known := v.byKey[f.Topic]; known {
		return by
	}
	for i, other := range v.h.files {
		if other.Topic != f.Topic {
			continue
		}
		for c := newCursor(other, v.fates[i]); c.next(); {
			if partitionOf(triggerKey(kindDue, &c.rec), v.h.Partitions) != other.Partition {
				v.byKey[f.Topic] = true
				v.note("%s is partitioned by key: its records are not held against manifests", f.Topic)
				return true
			}
			if c.rec.Offset > other.Start+1000 {
				break
			}
		}
	}
	v.byKey[f.Topic] = false
	return false
}

func (w *turnWalk) walk() {
	scan := newCursor(w.state.f, w.state.fates)
	for scan.next() {
		if !bytes.Equal(scan.rec.Key, keyProgress) || scan.rec.Value == nil {
			continue
		}
		p := &statepb.Progress{}
		if err := proto.Unmarshal(scan.rec.Value, p); err != nil {
			w.fail(NotTheFold, scan.rec.Offset, "a progress record cannot be read: %v", err)
			continue
		}
		w.turn(p, scan.rec.Offset)
		if w.events != nil && (w.last == nil || p.NextControl > w.last.NextControl) {
			part := &w.v.parts[w.p]
			part.settings = append(part.settings, settingsTurn{w.events.last, p.NextControl, p.At})
		}
		w.last, w.lastO = p, scan.rec.Offset
	}
}

func (w *turnWalk) fail(class Class, offset int64, format string, args ...any) {
	if w.count++; w.count > 20 {
		return
	}
	w.v.add(nil, Violation{
		Class: class, Partition: w.p, Records: []string{fmt.Sprintf("%s/%d/%d", w.state.f.Topic, w.p,
			offset)},
		Sentence: fmt.Sprintf(format, args...),
	})
}

// turn compares a progress record with the previous one and with what was written.
func (w *turnWalk) turn(p *statepb.Progress, offset int64) {
	if b := w.last; b != nil {
		switch {
		case p.Term < b.Term:
			w.fail(Order, offset, "an owner of term %d wrote turn %d after one of term %d had written", p.Term, p.Seq,
				b.Term)
		case p.Seq <= b.Seq:
			w.fail(Order, offset, "turn %d of term %d stands behind turn %d of term %d", p.Seq, p.Term, b.Seq, b.Term)
		case p.Seq > b.Seq+1 && !w.holed(w.lastO, offset):
			w.fail(Torn, offset, "turn %d follows turn %d: what was written between them has no manifest", p.Seq, b.Seq)
		}
		if p.NextCommand < b.NextCommand || p.NextReceipt < b.NextReceipt || p.NextControl < b.NextControl ||
			p.EventUs < b.EventUs {
			w.fail(NotTheFold, offset,
				"turn %d goes back: commands %d after %d, receipts %d after %d, control %d after %d, event_us %d "+
					"after %d",
				p.Seq, p.NextCommand, b.NextCommand, p.NextReceipt, b.NextReceipt, p.NextControl, b.NextControl,
				p.EventUs, b.EventUs)
		}
	} else if p.Seq != 1 {
		w.full = false
	}
	if !w.full {
		return
	}
	for _, m := range p.Manifest {
		if o := w.outs[m.Topic]; o != nil && !o.broken {
			w.consume(o, p, m)
		} else if o == nil && !w.v.byKey[m.Topic] {
			w.v.skip("records of topics that are not in the dump", m.Records)
		}
	}
}

// holed reports whether offsets are missing between two records of topic state.
func (w *turnWalk) holed(from, to int64) bool {
	i := sort.Search(len(w.holes), func(i int) bool { return w.holes[i][0] > from })
	return i < len(w.holes) && w.holes[i][0] < to
}

// consume takes from a topic the records that a turn says it wrote, and compares them.
func (w *turnWalk) consume(o *output, p *statepb.Progress, m *statepb.TopicCount) {
	digest := uint64(0)
	for n := int64(0); n < m.Records; {
		if !o.next() {
			o.broken = true
			if p.At <= w.v.full {
				w.fail(Torn, w.lastO, "turn %d wrote %d records to %s/%d, only %d are there", p.Seq, m.Records, o.name,
					w.p, n)
			}
			return
		}
		if o.f.kind == kindState && reservedKey(o.rec.Key) {
			continue
		}
		n, o.last = n+1, o.rec.Offset
		var b [24]byte
		binary.BigEndian.PutUint64(b[0:], digest)
		binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(o.rec.Key))
		binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(o.rec.Value))
		digest = xxhash.Sum64(b[:])
	}
	if digest != m.Digest {
		o.broken = true
		w.fail(Torn, w.lastO, "turn %d wrote other records to %s/%d than stand there before offset %d", p.Seq, o.name,
			w.p, o.rec.Offset+1)
	}
}

// leftovers reports records that no turn says it wrote.
func (w *turnWalk) leftovers() {
	for _, o := range w.outs {
		n, first := 0, int64(0)
		for !o.broken && o.next() {
			if o.f.kind == kindState && reservedKey(o.rec.Key) || o.rec.Timestamp > w.v.full {
				continue
			}
			if n++; n == 1 {
				first = o.rec.Offset
			}
		}
		if n > 0 {
			w.v.add(nil, Violation{
				Class: Torn, Partition: w.p, Records: []string{fmt.Sprintf("%s/%d/%d", o.name, w.p, first)},
				Sentence: fmt.Sprintf("%d records that no turn says it wrote", n),
			})
		}
	}
}

// eventOrder checks that event_us increases strictly within a partition (C8).
func (w *turnWalk) eventOrder(events *output) {
	if events == nil {
		return
	}
	reported := 0
	for c := newCursor(events.f, events.fates); c.next(); {
		us, ok := fieldNumber(c.rec.Value, eventUS)
		if ok && us > w.us {
			w.us = us
			continue
		}
		if reported++; reported <= 5 {
			w.v.add(nil, Violation{
				Class: Illegal, Trigger: string(c.rec.Key), Partition: w.p,
				Records: []string{fmt.Sprintf("%s/%d/%d", events.name, w.p,
					c.rec.Offset)}, Sentence: fmt.Sprintf("event_us %d does not grow: before it stands %d", us, w.us),
			})
		}
	}
}

func fieldNumber(b, name []byte) (int64, bool) {
	i := bytes.Index(b, name)
	if i < 0 {
		return 0, false
	}
	b = space(b[i+len(name):])
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return number(b[:n])
}

// dueOrder checks that terms never decrease in a due topic (C11).
func (w *turnWalk) dueOrder() {
	for _, o := range w.outs {
		if o.f.kind != kindDue {
			continue
		}
		var last basis
		for c := newCursor(o.f, o.fates); c.next(); {
			text, _ := c.rec.header("ce_wcbasis")
			b, ok := parseBasis(text)
			if !ok || b.term == 0 {
				continue
			}
			if b.term < last.term || b.term == last.term && b.turn < last.turn {
				w.v.add(nil, Violation{
					Class: Order, Trigger: string(triggerKey(kindDue, &c.rec)), Partition: w.p,
					Records: []string{fmt.Sprintf("%s/%d/%d", o.name, w.p, c.rec.Offset)},
					Sentence: fmt.Sprintf("turn %d of term %d wrote after turn %d of term %d", b.turn, b.term,
						last.turn, last.term),
				})
				break
			}
			last = b
		}
	}
}

// endPartition finds the offset up to which commands were decided, and whether the partition is
// stuck at the end (C12).
func (v *verifier) endPartition(p int32, last *statepb.Progress) {
	part := &v.parts[p]
	if last != nil {
		part.applied, part.receipts, part.lastTurn = last.NextCommand, last.NextReceipt, last.At
	}
	for i, f := range v.h.files {
		if f.Partition != p {
			continue
		}
		switch f.kind {
		case kindEvents:
			for c := newCursor(f, v.fates[i]); last == nil && c.next(); {
				v.reach(part, p, &c.rec)
			}
			part.lastTurn = max(part.lastTurn, v.fates[i].last)
		case kindCommands:
			part.begun = f.Start == 0
		}
	}
	v.waiting(p)
}

// reach derives from an event how far commands were decided, if topic state is missing.
func (v *verifier) reach(part *partition, p int32, r *Record) {
	var e event
	if decodeEvent(r.Value, &e) != nil {
		return
	}
	topic, at, ok := sourceOf(e.source)
	if !ok || at.partition != p {
		return
	}
	switch kindOf(v.h.Prefix, topic) {
	case kindCommands:
		part.applied = max(part.applied, at.offset+1)
	case kindReceipts:
		part.receipts = max(part.receipts, at.offset+1)
	}
}

// waiting reports commands that are undecided long after their append (C12).
func (v *verifier) waiting(p int32) {
	part := &v.parts[p]
	for i, f := range v.h.files {
		if f.kind != kindCommands || f.Partition != p {
			continue
		}
		n, first := 0, int64(0)
		for c := newCursor(f, v.fates[i]); c.next(); {
			if c.rec.Offset < part.applied || c.committed > v.full-v.o.Grace.Milliseconds() {
				continue
			}
			if n++; n == 1 {
				first = c.rec.Offset
			}
		}
		if n > 0 {
			part.stuck = true
			v.add(nil, Violation{
				Class: Stuck, Partition: p, Records: []string{fmt.Sprintf("%s/%d/%d", f.Topic, p, first)},
				Sentence: fmt.Sprintf(
					"%d commands from here on are not decided on, %v before the end and more; the newest turn is of %s",
					n, v.o.Grace, spell(part.lastTurn)),
			})
		}
	}
}
