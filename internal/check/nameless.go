package check

import (
	"fmt"
	"slices"
)

// maxNameless bounds the refused keys that are in memory at a time.
const maxNameless = 1 << 20

// nameless matches commands and receipts with invalid keys. They belong to no trigger's life. The
// event that refuses one truncates the key, so they are matched by partition and offset.
type nameless struct {
	v        *verifier
	open     map[origin]int64  // append times of records that are not refused yet
	reported map[origin]bool   // records that were refused
	copy     map[origin]origin // first location of a forwarded record
}

// origin is the location of a command or a receipt.
type origin struct {
	kind topicKind
	at   location
}

// isNameless reports whether the key of a record is invalid for every trigger.
func isNameless(kind topicKind, r *Record) bool {
	switch kind {
	case kindCommands, kindReceipts, kindRejected:
		return keyFault(r.Key)
	case kindEvents:
		if len(r.Key) < 250 && !keyFault(r.Key) {
			return false // neither truncated nor refused
		}
		var e event
		return decodeEvent(r.Value, &e) == nil && e.kind == evRejected && e.reason == "invalid_key"
	}
	return false
}

// nameless checks that exactly one event refuses each of these records that was read (C1).
func (v *verifier) nameless() {
	n := nameless{v: v, open: map[origin]int64{}, reported: map[origin]bool{}, copy: map[origin]origin{}}
	n.each(n.ask, kindCommands, kindReceipts)
	if len(n.open) > 0 {
		n.each(n.answer, kindEvents)
	}
	for o, appended := range n.open {
		if v.complete(appended) {
			v.add(nil, Violation{
				Class: LostAck, Partition: o.at.partition, Records: []string{n.record(o)},
				Sentence: "its key is no trigger's, and no event refuses it",
			})
		}
	}
}

// each calls read for the nameless records in topics of some kinds.
func (n *nameless) each(read func(*File, *Record), kinds ...topicKind) {
	for i, f := range n.v.h.files {
		if !slices.Contains(kinds, f.kind) {
			continue
		}
		for c := newCursor(f, n.v.fates[i]); c.next(); {
			if isNameless(f.kind, &c.rec) {
				read(f, &c.rec)
			}
		}
	}
}

// ask notes a command or a receipt that was read.
func (n *nameless) ask(f *File, r *Record) {
	at := location{f.Partition, r.Offset}
	if int(f.Partition) >= len(n.v.parts) {
		return
	}
	part, read := &n.v.parts[f.Partition], false
	switch f.kind {
	case kindCommands:
		_, refused := r.header("wcx-refused")
		read = !refused && r.Offset < part.applied
	case kindReceipts:
		read = r.Offset < part.receipts
	}
	if !read {
		return
	}
	if len(n.open) >= maxNameless {
		n.v.skip("refused keys beyond a million", 1)
		return
	}
	o := origin{f.kind, at}
	if first, _, copied := forwardedFrom(r); copied {
		n.copy[o] = origin{f.kind, first}
		o = n.copy[o]
	}
	n.open[o] = r.Timestamp
}

// answer notes an event that refuses one.
func (n *nameless) answer(f *File, r *Record) {
	var e event
	if decodeEvent(r.Value, &e) != nil {
		return
	}
	topic, at, ok := sourceOf(e.source)
	if !ok {
		return
	}
	o := origin{kindOf(n.v.h.Prefix, topic), at}
	if first, is := n.copy[o]; is {
		o = first // the event names the first location of a copy, or its own
	}
	switch _, open := n.open[o]; {
	case open:
		delete(n.open, o)
		if len(n.reported) < maxNameless {
			n.reported[o] = true
		}
	case n.reported[o]:
		n.v.add(nil, Violation{
			Class: Illegal, Partition: f.Partition,
			Records: []string{fmt.Sprintf("%s/%d/%d", f.Topic,
				f.Partition, r.Offset), n.record(o)}, Sentence: "it is refused a second time",
		})
	}
}

func (n *nameless) record(o origin) string {
	topic := "commands/"
	if o.kind == kindReceipts {
		topic = "receipts/"
	}
	return n.v.h.Prefix + topic + o.at.String()
}
