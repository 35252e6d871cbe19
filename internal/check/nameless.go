package check

import (
	"fmt"
	"slices"
)

// maxNameless bounds the refused keys that are remembered at a time.
const maxNameless = 1 << 20

// nameless are commands and receipts whose key no trigger can have. They are no
// part of any trigger's life: the event that refuses one names its key cut off,
// and where it stands. So they are matched by where they stand.
type nameless struct {
	v        *verifier
	open     map[origin]int64  // appended and not refused yet
	reported map[origin]bool   // refused
	copy     map[origin]origin // where a forwarded one was first
}

// origin is where a command or a receipt stands.
type origin struct {
	kind topicKind
	at   location
}

// isNameless says whether a record is about a key that no trigger can have.
func isNameless(kind topicKind, r *Record) bool {
	switch kind {
	case kindCommands, kindReceipts, kindRejected:
		return keyFault(r.Key)
	case kindEvents:
		if len(r.Key) < 250 && !keyFault(r.Key) {
			return false // neither cut off nor refused
		}
		var e event
		return decodeEvent(r.Value, &e) == nil && e.kind == evRejected && e.reason == "invalid_key"
	}
	return false
}

// nameless: each of them that was read is refused by an event (C1), and by one
// only.
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

// each reads what is nameless in the topics of some kinds.
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

// ask takes a command or a receipt that was read.
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

// answer takes an event that refuses one.
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
		o = first // a copy is told by its first place, or by its own
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
